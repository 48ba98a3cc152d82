"""Run the labs for the site and keep what they showed: nox -s record [-- LAB ... workshop claims]

For each lab the failure, the control, the fix, every wrong fix that the tests know, and the variants of a sweep where
there is one (sweeps.py), each in a namespace container (docker or podman where a lab limits memory).
What is kept is plain: transcripts, Markdown tables, pictures (SVG), and recording.json, which says with what and from
what it was made. A test fails when one of those has changed since.
"""

import datetime
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from statistics import median

from docs.make import record_claims, record_release, record_workshop, recording
from docs.make.markdown import escaped, table
from docs.make.pictures import PICTURES, shares
from docs.make.recording import NotAsExpected, digest, keep
from docs.make.sweeps import SWEEPS, Sweep
from docs.make.transcript import transcript
from labs.catalog import LABS
from labs.harness import container
from labs.harness.history import History
from labs.harness.lab import Lab
from labs.harness.limits import ROOT, Limits, Refused
from labs.harness.run import Request, once
from labs.harness.verdict import CANNOT_RUN, NOT_AS_EXPECTED, WRONG_USAGE, Verdict
from tests.fixes import RIGHT, WRONG, Fix

MORE_LOOKS = 5  # which of two messages comes may depend on how the samples were shuffled
# torch says this wherever there are fewer CPUs than workers, healthy or not.
NOISE = ("This DataLoader will create", "resource_tracker:")


def main(names: list[str]) -> int:
    others = {record_workshop.NAME: record_workshop.write, record_claims.NAME: record_claims.write}
    all_of_it = [*LABS, *others]
    others["release"] = record_release.write  # with another torch, so never with the others
    known = [*LABS, *others]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"loader-lab: there is no lab called {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return WRONG_USAGE
    worst = 0
    for name in names or all_of_it:
        print(f"recording {name}", flush=True)
        try:
            record(LABS[name]) if name in LABS else others[name]()
        except (Refused, NotAsExpected) as reason:
            print(f"loader-lab: {name} is not recorded: {reason}", file=sys.stderr)
            worst = max(worst, CANNOT_RUN if isinstance(reason, Refused) else NOT_AS_EXPECTED)
    return worst


def record(lab: Lab) -> None:
    files: dict[str, str] = {}
    verdicts: dict[str, Verdict] = {}
    for role in recording.ROLES:
        verdict, folder = run(Request(lab, role), ROOT / "runs")
        if not verdict.as_expected:
            raise NotAsExpected(f"the {role} of {lab.name} was {verdict.verdict}")
        verdicts[role] = verdict
        files[f"{role}.txt"] = transcript(verdict, lab, folder)
    failure, fix = verdicts["failure"], verdicts["fix"]
    rejections = [(fix.name, reject(lab, fix)) for fix in wrong_fixes(lab)]
    files["evidence.md"] = evidence(failure)
    files["wrong-fixes.md"] = table(
        ["what was tried", "what the judge said"],
        [[escaped(name), said(verdict, failure)] for name, verdict in rejections],
    )
    for picture in PICTURES:
        if picture.tells(failure.history):
            files[f"{picture.name}.svg"] = picture.draw(failure.history, fix.history)
    measured = {}
    if sweep := SWEEPS.get(lab.name):
        measured = {"measured": measure(lab, sweep)}
        files[f"{sweep.picture}.svg"] = shares.draw(sweep.of_what, measured["measured"], sweep.allowed)
    messages = dict.fromkeys(said_by_torch(failure.history), "the lab")
    for _ in range(MORE_LOOKS if failure.history.first("error") else 0):
        for text in said_by_torch(run(Request(lab, "failure"), ROOT / "runs")[0].history):
            if recording.shape(text) not in map(recording.shape, messages):
                messages[text] = "the lab"
    for name, verdict in rejections:
        for text in said_by_torch(verdict.history):
            if recording.shape(text) not in map(recording.shape, messages):
                messages[text] = name
    facts = {
        "lab": lab.name,
        "recorded": datetime.date.today().isoformat(),
        "versions": versions(failure.history),
        "messages": [{"text": text, "said_in": place} for text, place in messages.items()],
        "accepted": [fix.name for fix in right_fixes(lab)],
        **measured,
        "made_from": made_from(lab),
    }
    files["recording.json"] = json.dumps(facts, indent=2) + "\n"
    keep(recording.folder(lab), files)


def run(request: Request, runs: Path) -> tuple[Verdict, Path]:
    # A namespace cannot limit memory: a lab that is about it needs an engine.
    backend = container.choose("namespace" if request.limits.memory is None else None, request.limits)
    backend.prepare()
    return once(request, backend, runs)


def reject(lab: Lab, fix: Fix) -> Verdict:
    """Judge a wrong fix, under the name of the lab's own program: that name may be in a message."""
    with readable_folder() as folder:
        program = fix.write(folder).rename(folder / lab.program.name)
        verdict, _ = run(Request(lab, "check", program), folder)
    if verdict.exit_code != NOT_AS_EXPECTED or not {one.id for one in verdict.findings} & set(fix.rejected_for):
        raise NotAsExpected(f"the wrong fix {fix.name!r} was not rejected for {', '.join(fix.rejected_for)}")
    return verdict


def measure(lab: Lab, sweep: Sweep) -> dict[str, float]:
    """One number of each variant, each run in a container of its own."""

    def share(name: str, program: str) -> float:
        with readable_folder() as folder:
            (folder / "variant.py").write_text(program)
            verdict, _ = run(Request(lab, "check", folder / "variant.py"), folder)
        measured = sweep.measure(verdict.history)
        if measured is None or len(verdict.history.finished_epochs()) != lab.epochs:
            raise NotAsExpected(f"the variant {name!r} of {lab.name} did not come to its end")
        return measured

    return {
        name: round(median(share(name, program) for _ in range(sweep.times)), 3)
        for name, program in sweep.variants.items()
    }


@contextmanager
def readable_folder() -> Iterator[Path]:
    """A temporary one that the ordinary user in a docker container can read, too."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def evidence(verdict: Verdict) -> str:
    rows = [row for finding in verdict.findings for row in finding.evidence]
    cells = [[escaped(cell) for cell in (row.what, row.observed, row.expected)] for row in rows]
    return table(["what proves it", "observed", "expected"], cells)


def said(verdict: Verdict, failure: Verdict) -> str:
    """What the judge found, and what torch or Python had said where that is not what the lab says anyway."""
    known = {recording.shape(finding.message) for finding in failure.findings}
    words = [escaped(finding.statement) for finding in verdict.findings]
    messages = [finding.message for finding in verdict.findings if recording.shape(finding.message) not in known]
    return " ".join([*words, *(f"`{message.splitlines()[-1]}`" for message in messages if message)])


def said_by_torch(history: History) -> list[str]:
    """Every message of a run, once, word for word: exceptions, and what stands on stderr."""
    error = history.first("error") or {"chain": []}
    found = []
    for link in error["chain"]:
        lines = link["message"].strip().splitlines() or [""]
        if "Traceback" in link["message"]:  # a worker's exception, raised again: its first and its last line say it
            found += [f"{link['type']}: {lines[0]}", lines[-1]]
        else:
            found.append(f"{link['type']}: {link['message'].strip()}")
    for line in history.output("stderr"):
        if warning := re.match(r"\S+:\d+: (\w*Warning: .*)", line):
            found.append(warning[1])
        elif re.match(r"(ERROR: |\S*(Error|Exception)\b)", line):
            found.append(line)
    once_each = {recording.shape(text): text for text in reversed(found) if not any(noise in text for noise in NOISE)}
    return list(reversed(once_each.values()))


def versions(history: History) -> dict[str, str]:
    start = history.first("start") or {}
    return {
        "python": history.container["python"],
        "torch": start["torch"],
        "numpy": version("numpy"),
        "opencv": version("opencv-python-headless"),
        "kernel": history.container["kernel"].partition("-")[0],
    }


def wrong_fixes(lab: Lab) -> list[Fix]:
    return [fix for fix in WRONG if fix.lab == lab.name]


def right_fixes(lab: Lab) -> list[Fix]:
    return [fix for fix in RIGHT if fix.lab == lab.name]


def made_from(lab: Lab) -> dict[str, str]:
    """A hash of everything that a recording shows: both programs, the experiment, and the fixes."""
    usual = Limits()
    # What is not as usual: a limit that some other lab needs one day makes no recording old.
    limits = {field.name: getattr(lab.limits, field.name) for field in fields(Limits)}
    job = {**lab.job("failure", lab.limits.start_method), "signatures": None, "ids": lab.samples}
    experiment = {
        "limits": {name: value for name, value in limits.items() if value != getattr(usual, name)},
        "control": vars(lab.control),
        "job": [job, lab.findings, lab.validation, lab.patient, lab.beside_fix],
    }
    made_from = {
        lab.program.relative_to(ROOT).as_posix(): digest(lab.program.read_text()),
        lab.solution.relative_to(ROOT).as_posix(): digest(lab.solution.read_text()),
        "the experiment in labs/catalog.py": digest(json.dumps(experiment, sort_keys=True)),
        "the wrong fixes in tests/": digest(json.dumps([[fix.name, fix.edits] for fix in wrong_fixes(lab)])),
        "the right fixes in tests/": digest(json.dumps([fix.name for fix in right_fixes(lab)])),
    }
    if sweep := SWEEPS.get(lab.name):
        made_from["the sweep in docs/make/sweeps.py"] = digest(json.dumps(sweep.variants))
    return made_from


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
