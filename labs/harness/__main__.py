"""The command line: python -m labs.harness lab shm --help"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from labs.catalog import LABS
from labs.harness import container, report
from labs.harness.entry import Parser, complain, entry
from labs.harness.limits import ROOT, parse_size
from labs.harness.run import Request, once
from labs.harness.verdict import AS_EXPECTED
from labs.harness.words import no_lab
from labs.workshop import feedback
from labs.workshop.exercises import copy_of, to_be_mended

RUNS = Path(os.environ.get("LOADER_LAB_RUNS") or ROOT / "runs")


def parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser("nox -s {lab,fix,check}-LAB -- [FILE] [options]", "Run a lab and judge what happened.")
    parser.add_argument("action", choices=["lab", "fix", "check"])
    parser.add_argument("lab", metavar="LAB", help=", ".join(LABS))
    parser.add_argument("file", nargs="?", type=Path, help="the program to judge (check only; default: yours)")
    parser.add_argument("--control", action="store_true", help="the broken program without the cause (lab only)")
    parser.add_argument("--hint", action="store_true", help="the next hint; nothing is run (check only)")
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
        parser.error(no_lab(arguments.lab, LABS))
    if arguments.repeat < 1:
        parser.error("--repeat takes a number from 1 up")
    if arguments.open_files is not None and arguments.open_files < 64:
        parser.error("--open-files: Python itself needs some; give it 64 or more")
    if arguments.control and arguments.action != "lab":
        parser.error("--control goes with lab: it runs the broken program")
    if arguments.hint and (arguments.action != "check" or arguments.file):
        parser.error(f"hints go with check, and with no file: nox -s check-{arguments.lab} -- --hint")
    if arguments.action == "check" and not arguments.hint:
        own = copy_of(LABS[arguments.lab])
        if arguments.file is None and not own.is_file():
            parser.error(
                f"there is no {os.path.relpath(own)} to judge: nox -s workshop makes you one; "
                f"or name a file of your own: nox -s check-{arguments.lab} -- my_attempt.py"
            )
        arguments.file = arguments.file or Path(os.path.relpath(own))
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
    if arguments.hint:
        feedback.hint(LABS[arguments.lab])
        return AS_EXPECTED
    request = request_of(arguments)
    exercise = None if request.file else to_be_mended(request.lab)
    alone = arguments.repeat == 1 and not arguments.json
    verdicts = []
    backend = container.choose(arguments.container, request.limits)
    if backend.name != "namespace" and not arguments.container:
        reason = container.BACKENDS["namespace"].why_not(request.limits)
        complain(f"using {backend.name}, because {reason}")
    backend.prepare()
    for number in range(1, arguments.repeat + 1):
        verdict, folder = once(request, backend, arguments.runs, quiet=not alone)
        verdicts.append(verdict)
        record = feedback.note(verdict, request.lab, request.file) if request.file else None
        if alone and request.file and record:
            feedback.show(verdict, request.lab, folder, request.file, record)
        elif alone:
            report.show(verdict, request.lab, folder, exercise)
        elif not arguments.json:
            report.one_line(number, arguments.repeat, verdict)
    if arguments.json:
        print(json.dumps(report.as_json(verdicts), indent=2))
    elif not alone:
        report.summary(verdicts)
    return max(verdict.exit_code for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(entry(main))
