"""How every command of ours begins and ends: signals, one sentence for whatever went wrong, and the exit code."""

import argparse
import os
import re
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from labs.harness.limits import Refused
from labs.harness.run import HarnessFailed
from labs.harness.verdict import CANNOT_RUN, HARNESS_FAILED, WRONG_USAGE
from labs.harness.words import did_you_mean

INTERRUPTED = 130


def complain(text: object) -> None:
    print(folded(f"loader-lab: {text}"), file=sys.stderr)


def folded(text: str) -> str:
    """One line for a program to read; on a terminal as many as it takes, none of which breaks a name in two."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


class Words(argparse.HelpFormatter):
    """Help in which a name with a hyphen stays in one piece."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A command line that asks whether another option was meant."""

    def __init__(self, usage: str, description: str | None) -> None:
        super().__init__("loader-lab", usage, description, formatter_class=Words)

    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2]
        if unknown:
            option = unknown.split()[0].partition("=")[0]
            options = re.findall(r"--[a-z-]+", self.format_help())
            message = f"{message}; {did_you_mean(option, options)}--help lists what there is"
        self.print_usage(sys.stderr)
        self.exit(WRONG_USAGE, folded(f"loader-lab: error: {message}") + "\n")


def entry(main: Callable[[list[str]], int]) -> int:
    # A polite request to end is an interruption like Ctrl-C: both unwind through the code that ends the container.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
        return code
    except Refused as refusal:
        complain(refusal)
        return CANNOT_RUN
    except HarnessFailed as failure:
        complain(f"the harness failed, this is no verdict: {failure}")
        return HARNESS_FAILED
    except KeyboardInterrupt:
        complain("interrupted; nothing is left running")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell, and Python would try once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        complain(f"the harness failed, this is no verdict: {type(error).__name__}: {error} ({where})")
        return HARNESS_FAILED
