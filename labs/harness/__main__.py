"""The command line: python -m labs.harness lab shm --help"""

import argparse
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from labs.catalog import LABS
from labs.harness import container, report
from labs.harness.limits import ROOT, Refused, parse_size
from labs.harness.run import HarnessFailed, Request, once
from labs.harness.verdict import CANNOT_RUN, HARNESS_FAILED

INTERRUPTED = 130
RUNS = Path(os.environ.get("LOADER_LAB_RUNS") or ROOT / "runs")


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="loader-lab",
        usage="nox -s {lab,fix,check}-LAB -- [FILE] [options]",
        description="Run a lab and judge what happened.",
    )
    parser.add_argument("action", choices=["lab", "fix", "check"])
    parser.add_argument("lab", metavar="LAB", help=", ".join(LABS))
    parser.add_argument("file", nargs="?", type=Path, help="the program to judge (check only)")
    parser.add_argument("--control", action="store_true", help="the broken program without the cause (lab only)")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON, alone on standard output")
    parser.add_argument("--repeat", type=int, metavar="N", default=1, help="run it N times and count")
    parser.add_argument(
        "--container",
        choices=list(container.BACKENDS),
        help="default: the first that works; here is the container that you are in already",
    )
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help="where records go")
    limits = parser.add_argument_group("limits (default: the lab's own)")
    limits.add_argument("--shm", type=size, metavar="SIZE", help="size of /dev/shm, like 64m or 2g")
    limits.add_argument("--memory", type=size, metavar="SIZE", help="memory of the whole container")
    limits.add_argument("--cpus", type=whole, metavar="N", help="CPUs")
    limits.add_argument("--open-files", type=whole, metavar="N", help="open files of a process")
    limits.add_argument("--start-method", choices=["fork", "forkserver", "spawn"], help="how workers are started")
    limits.add_argument("--seconds", type=whole, metavar="N", help="time limit")
    arguments = parser.parse_args(argv)
    if arguments.lab not in LABS:
        parser.error(f"there is no lab called {arguments.lab!r}; there are: {', '.join(LABS)}")
    if arguments.repeat < 1:
        parser.error("--repeat takes a number from 1 up")
    if arguments.open_files is not None and arguments.open_files < 64:
        parser.error("--open-files: Python itself needs some; give it 64 or more")
    if arguments.control and arguments.action != "lab":
        parser.error("--control goes with lab: it runs the broken program")
    if arguments.action == "check":
        if arguments.file is None:
            parser.error(f"name the file to judge: nox -s check-{arguments.lab} -- my_attempt.py")
        if not arguments.file.is_file() or not os.access(arguments.file, os.R_OK):
            parser.error(f"there is no file {arguments.file} that can be read")
        if arguments.file.suffix != ".py" or not arguments.file.stem.isidentifier():
            parser.error(f"{arguments.file.name} cannot be imported: give it a name like my_attempt.py")
        if changed_limits(arguments):
            parser.error("check judges under the lab's own limits: leave them as they are, or use lab or fix")
    elif arguments.file is not None:
        parser.error(f"{arguments.action} takes no file; to judge your own: check {arguments.lab} {arguments.file}")
    return arguments


def size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def changed_limits(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("shm", "memory", "cpus", "open_files", "start_method", "seconds")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def request_of(arguments: argparse.Namespace) -> Request:
    role = "control" if arguments.control else {"lab": "failure"}.get(arguments.action, arguments.action)
    file = arguments.file.resolve() if arguments.file else None
    return Request(LABS[arguments.lab], role, file, changed_limits(arguments))


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    request = request_of(arguments)
    alone = arguments.repeat == 1 and not arguments.json
    verdicts = []
    try:
        backend = container.choose(arguments.container, request.limits)
        if backend.name != "namespace" and not arguments.container:
            reason = container.BACKENDS["namespace"].why_not(request.limits)
            print(f"loader-lab: using {backend.name}, because {reason}", file=sys.stderr)
        backend.prepare()
        for number in range(1, arguments.repeat + 1):
            verdict, folder = once(request, backend, arguments.runs, quiet=not alone)
            verdicts.append(verdict)
            if alone:
                report.show(verdict, request.lab, folder)
            elif not arguments.json:
                report.one_line(number, arguments.repeat, verdict)
    except Refused as refusal:
        print(f"loader-lab: {refusal}", file=sys.stderr)
        return CANNOT_RUN
    except HarnessFailed as failure:
        print(f"loader-lab: the harness failed, this is no verdict: {failure}", file=sys.stderr)
        return HARNESS_FAILED
    if arguments.json:
        print(json.dumps(report.as_json(verdicts), indent=2))
    elif not alone:
        report.summary(verdicts)
    sys.stdout.flush()
    return max(verdict.exit_code for verdict in verdicts)


def entry() -> int:
    # A polite request to end is an interruption like Ctrl-C: both unwind through the code that ends the container.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        print("loader-lab: interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell, and Python would try once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        what = f"{type(error).__name__}: {error} ({where})"
        print(f"loader-lab: the harness failed, this is no verdict: {what}", file=sys.stderr)
        return HARNESS_FAILED


if __name__ == "__main__":
    sys.exit(entry())
