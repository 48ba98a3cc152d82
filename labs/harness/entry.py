"""How every command of ours begins and ends: signals, one sentence for whatever went wrong, and the exit code."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from labs.harness.limits import Refused
from labs.harness.run import HarnessFailed
from labs.harness.verdict import CANNOT_RUN, HARNESS_FAILED

INTERRUPTED = 130


def complain(text: object) -> None:
    print(f"loader-lab: {text}", file=sys.stderr)


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
