"""Every command there is. `nox -l` is the menu.

One environment, made once by the session `env`, serves all labs: each of the
others runs that interpreter.
"""

import hashlib
import logging
import os
import sys
from pathlib import Path

import nox

if sys.version_info < (3, 11):  # noqa: UP036 (nox may belong to an older one)
    sys.exit("Loader Lab needs Python 3.11 or newer: install nox with that one, and run it again.")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from labs.catalog import LABS  # noqa: E402
from labs.harness.lab import Lab  # noqa: E402
from labs.harness.words import did_you_mean, sentence  # noqa: E402

nox.needs_version = ">=2025.10"
nox.options.sessions = []
nox.options.default_venv_backend = "venv"

ENV = ROOT / ".nox" / "env"
# The lab image has everything in it already, and says so.
READY = os.environ.get("LOADER_LAB_PYTHON")
PYTHON = Path(READY) if READY else ENV / "bin" / "python"
GROUPS = nox.project.dependency_groups
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
# A container needs a moment to be taken down; nox would otherwise wait for half a second and kill.
PATIENCE = {"interrupt_timeout": 10, "terminate_timeout": 10}


def helped(record: logging.LogRecord) -> bool:
    """What nox says, for somebody new to it: what may have been meant, and nothing about tools that are not needed."""
    text = record.getMessage()
    missing = text.partition("Sessions not found: ")[2]
    if missing:
        near = did_you_mean(missing.split(", ")[0], nox.registry.get())
        record.msg, record.args = f"{text}; {near}nox -l lists them all", ()
    return text != "uv binary not found."


logging.getLogger("nox").addFilter(helped)


def install(session: nox.Session, group: str) -> None:
    """Install a dependency group into the one environment, unless it is there already."""
    if READY and group == "lab":
        return
    wanted = GROUPS(PYPROJECT, group)
    stamp = ENV / f".{group}-installed"
    mark = hashlib.sha256("\n".join([*wanted, sys.version]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == mark and PYTHON.exists():
        return
    session.log(f"Setting up: {', '.join(wanted)}. This is done once and takes a few minutes.")
    # Standard output belongs to the verdict: somebody may be reading it as JSON.
    session.run(str(PYTHON), "-m", "pip", "install", *wanted, external=True, stdout=sys.stderr)
    stamp.write_text(mark)


def harness(session: nox.Session, *arguments: str, module: str = "labs.harness") -> None:
    """Run the harness where the person is, so that the files they name are found."""
    session.chdir(session.invoked_from)
    command = [str(PYTHON), "-m", module, *arguments]
    session.run(*command, external=True, env={"PYTHONPATH": str(ROOT)}, **PATIENCE)


@nox.session(python=False, requires=["env"])
def ready(session: nox.Session) -> None:
    """Can this machine run every lab, and if not, what to do."""
    harness(session, *session.posargs, module="labs.workshop.ready")


@nox.session(python=False, requires=["env"])
def workshop(session: nox.Session) -> None:
    """Your copies to mend, your progress, what is next (-- --help)."""
    harness(session, *session.posargs, module="labs.workshop")


def add_lab(lab: Lab) -> None:
    def broken(session: nox.Session) -> None:
        harness(session, "lab", lab.name, *session.posargs)

    def fixed(session: nox.Session) -> None:
        harness(session, "fix", lab.name, *session.posargs)

    def check(session: nox.Session) -> None:
        harness(session, "check", lab.name, *session.posargs)

    broken.__doc__ = sentence(lab.fails)
    fixed.__doc__ = f"The solution of lab-{lab.name}: healthy."
    check.__doc__ = "Judge your fix in workshop/ (-- --hint: a hint)."
    # `nox -t lab` is for every machine; a lab that is about memory needs docker or podman.
    tags = [] if lab.limits.memory else ["lab"]
    nox.session(broken, name=f"lab-{lab.name}", python=False, requires=["env"], tags=tags)
    nox.session(fixed, name=f"fix-{lab.name}", python=False, requires=["env"], tags=["fix"] if tags else [])
    nox.session(check, name=f"check-{lab.name}", python=False, requires=["env"])


for each in LABS.values():
    add_lab(each)


@nox.session(venv_backend="none" if READY else "venv", reuse_venv=True)
def env(session: nox.Session) -> None:
    """Make the one environment that all labs run in."""
    install(session, "lab")


@nox.session(python=False, requires=["env"])
def claims(session: nox.Session) -> None:
    """What people say about workers, put to the test (-- --help: more)."""
    harness(session, *session.posargs, module="labs.claims")


@nox.session(python=False, requires=["env"])
def tests(session: nox.Session) -> None:
    """All tests: the harness, every lab with its control and its fix, wrong fixes and right ones."""
    install(session, "test")
    # Most of a test is waiting: for torch to be imported, or to be sure that a program hangs. Two go well on one core.
    arguments = session.posargs or ["--numprocesses", "4"]
    session.run(str(PYTHON), "-m", "pytest", *arguments, external=True, **PATIENCE)


@nox.session(python=False, requires=["env"])
def bench(session: nox.Session) -> None:
    """What the harness costs, and how often each lab reproduces, idle and busy."""
    install(session, "test")
    session.run(str(PYTHON), "-m", "tests.bench", *session.posargs, external=True, **PATIENCE)


@nox.session(python=False, requires=["env"])
def image(session: nox.Session) -> None:
    """Build the lab image (docker, or podman with: -- podman)."""
    session.run(str(PYTHON), "-m", "labs.harness.engine", *session.posargs, external=True, **PATIENCE)


@nox.session(python=False, requires=["env"])
def contents(session: nox.Session) -> None:
    """Write down again what every sample looks like, after a lab's data has changed."""
    session.run(str(PYTHON), "-m", "labs.harness.contents", external=True, **PATIENCE)


@nox.session(name="new-lab", python=False, requires=["env"])
def new_lab(session: nox.Session) -> None:
    """Lay out the files of a new lab: nox -s new-lab -- NAME"""
    session.run(str(PYTHON), "-m", "labs.harness.new_lab", *session.posargs, external=True)


@nox.session(python=False, requires=["env"])
def docs(session: nox.Session) -> None:
    """Build the site into site/, with every check on; -- serve shows it while you write."""
    install(session, "docs")
    session.run(str(PYTHON), "-m", "docs.make", *session.posargs, external=True, **PATIENCE)


@nox.session(python=False, requires=["env"])
def record(session: nox.Session) -> None:
    """Run the labs and their fixes again for the site; -- LAB ... names some, workshop and claims the rest."""
    session.run(str(PYTHON), "-m", "docs.make.record", *session.posargs, external=True, **PATIENCE)


@nox.session(python=False, requires=["env"])
def lint(session: nox.Session) -> None:
    """Style, format and types."""
    install(session, "lint")
    session.run(str(PYTHON), "-m", "ruff", "check", external=True)
    session.run(str(PYTHON), "-m", "ruff", "format", "--check", external=True)
    session.run(str(PYTHON), "-m", "mypy", external=True)
