"""Fixes that people really try, a module for each lab: wrong ones with what the judge must say, and right ones."""

import pkgutil
from importlib import import_module

from labs.catalog import LABS
from tests.fixes.fix import Fix

__all__ = ["RIGHT", "WRONG", "Fix"]

MODULES = {module.name for module in pkgutil.iter_modules(__path__)} - {"fix"}
OF_LABS = [import_module(f"tests.fixes.{lab.file}") for lab in LABS.values() if lab.file in MODULES]
WRONG: list[Fix] = [fix for module in OF_LABS for fix in module.WRONG]
RIGHT: list[Fix] = [fix for module in OF_LABS for fix in module.RIGHT]
