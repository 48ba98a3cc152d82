"""What a person reads after a run: did it fail, what proves it, what to do next."""

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.catalog import Lab
from labs.harness.findings import Evidence, Finding, megabytes
from labs.harness.history import SCHEMA, History
from labs.harness.verdict import HEALTHY, REPRODUCED, Verdict

WIDTH = 80
BLOCKS = "▁▂▃▄▅▆▇█"


def console() -> Console:
    made = Console(highlight=False)
    made.width = min(made.width, WIDTH) if made.is_terminal else WIDTH
    return made


def headline(verdict: Verdict) -> tuple[str, str]:
    """The verdict in words that cannot be misread, and how they look."""
    role, limits_changed = verdict.history.run["role"], verdict.history.run["limits"]["changed"]
    if limits_changed:
        words = {REPRODUCED: "REPRODUCED, with the limits you chose", HEALTHY: "HEALTHY, with the limits you chose"}
        return words.get(verdict.verdict, "INCONCLUSIVE, with the limits you chose"), "bold yellow"
    if verdict.as_expected:
        words = {
            "failure": "REPRODUCED, as it should",
            "control": "HEALTHY, as it should: without the cause nothing fails",
            "fix": "HEALTHY, as it should: the fix holds",
            "check": "HEALTHY: your fix holds",
        }
        return words[role], "bold green"
    if verdict.verdict == HEALTHY:
        return "NOT REPRODUCED: the broken program ran to its end. This lab failed to fail", "bold red"
    if role == "failure":
        return "INCONCLUSIVE: it failed, but not in the way this lab is about", "bold red"
    if role == "check":
        still = verdict.verdict == REPRODUCED
        return ("STILL BROKEN: the failure is still there" if still else "NOT ACCEPTED: not the whole job"), "bold red"
    return f"BROKEN: the {role} should be healthy and is not", "bold red"


def health(history: History) -> list[Evidence]:
    """What proves that a program did its whole job."""
    job, samples = history.job, history.samples()
    expected = len(job["ids"]) * job["epochs"]
    workers = {sample.worker for sample in samples} - {None}
    peak = max((sample["shm_used"] for sample in history.all("sample")), default=0)
    epochs = f"{job['epochs']} epochs" if job["epochs"] > 1 else "1 epoch"
    return [
        Evidence(f"samples in {epochs}, each once an epoch", str(len(samples)), str(expected)),
        Evidence("workers that delivered them", str(len(workers)), str(job["workers"])),
        Evidence("/dev/shm at its fullest", megabytes(peak), f"under {megabytes(history.container['shm_total'])}"),
    ]


def sparkline(history: History, width: int = 40) -> str:
    """How full /dev/shm was over the run, against its size: the fullest moment of each slice of time."""
    samples = list(history.all("sample")) + list(history.all("error"))
    if len(samples) < 2:
        return ""
    samples.sort(key=lambda sample: sample["t"])
    first, last = samples[0]["t"], samples[-1]["t"]
    slices = [0.0] * width
    for sample in samples:
        place = min(width - 1, int(width * (sample["t"] - first) / (last - first or 1)))
        slices[place] = max(slices[place], sample["shm_used"] / sample["shm_total"])
    return "".join(BLOCKS[min(7, int(fill * 8))] for fill in slices)


def evidence_table(evidence: list[Evidence]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="bold", pad_edge=False)
    table.add_column("  What proves it", ratio=5)
    table.add_column("observed", ratio=4)
    table.add_column("expected", ratio=3)
    for row in evidence:
        table.add_row(Text(f"  {row.what}"), Text(row.observed), Text(row.expected, "dim"))
    return table


def standing(history: History) -> list[str]:
    """For a hang: where each process stands, innermost line first."""
    event = history.first("stall") or history.first("overtime")
    if event is None:
        return []
    pids = (history.first("workers") or {"pids": []})["pids"]
    lines = []
    for process in event["stacks"]:
        who = f"worker {pids.index(process['pid'])}" if process["pid"] in pids else f"process {process['pid']}"
        threads = process["stack"].split("\n\n")
        frames = [line.strip() for line in threads[-1].splitlines() if line.strip().startswith("File")]
        lines.append(f"{who}: {frames[0] if frames else 'gave no stack'}")
    return lines


def show(verdict: Verdict, lab: Lab, folder: Path) -> None:
    out, history = console(), verdict.history
    words, style = headline(verdict)
    out.print()
    out.print(Text(words, style))
    for finding in verdict.findings:
        out.print(Text(finding.statement))
    out.print()
    out.print(evidence_table([row for finding in verdict.findings for row in finding.evidence] or health(history)))
    show_shm(out, history)
    for finding in verdict.findings:
        show_message(out, finding)
    for line in standing(history):
        out.print(Text(f"  {line}"))
    if "not-a-program" not in {finding.id for finding in verdict.findings}:
        show_program_output(out, verdict)
    show_place(out, history, folder)
    out.print(Text("\n  Next", "bold"))
    for command, why in next_steps(verdict, lab):
        out.print(Text(f"    {command}", "cyan"))
        out.print(Text(f"      {why}"))


def show_shm(out: Console, history: History) -> None:
    line = sparkline(history)
    if line:
        total = history.container["shm_total"]
        peak = max(sample["shm_used"] for sample in [*history.all("sample"), *history.all("error")])
        out.print(Text(f"\n  /dev/shm  {line}"))
        out.print(Text(f"            {megabytes(peak)} of {megabytes(total)} at its fullest", "dim"))


def show_message(out: Console, finding: Finding) -> None:
    if finding.message:
        out.print(Text("\n  In its own words", "bold"))
        out.print(Text(finding.message), soft_wrap=False, style="yellow")


def show_program_output(out: Console, verdict: Verdict) -> None:
    """The end of what an unexpected failure printed; a failure that is expected has said it all already."""
    lines = [] if verdict.as_expected else verdict.history.output("stderr")[-6:]
    if lines:
        out.print(Text("\n  The end of what the program printed", "bold"))
        for line in lines:
            out.print(Text(f"  {line}", "dim"))


def show_place(out: Console, history: History, folder: Path) -> None:
    run, place, start = history.run, history.container, history.first("start") or {}
    size = megabytes(place["shm_total"])
    out.print(
        Text(f"\n  {run['backend']} container, /dev/shm of {size} (measured inside), {place['cpus']} CPUs,", "dim")
    )
    out.print(Text(f"  Python {place['python']}, torch {start.get('torch', 'not imported')}", "dim"))
    out.print(Text(f"  {os.path.relpath(folder)}/history.jsonl, timeline.svg", "dim"))


def next_steps(verdict: Verdict, lab: Lab) -> list[tuple[str, str]]:
    role = verdict.history.run["role"]
    control = (f"nox -s lab-{lab.name} -- --control", f"the same program with {lab.control.says}: healthy")
    fix = (f"nox -s fix-{lab.name}", f"the solution: {lab.advice}")
    own = (f"nox -s check-{lab.name} -- my_attempt.py", f"your own fix of a copy of labs/{lab.program.name}, judged")
    if role == "check" and verdict.as_expected:
        return [(f"diff my_attempt.py solutions/{lab.solution.name}", "compare it with ours")]
    if role == "fix":
        return [(f"diff labs/{lab.program.name} solutions/{lab.solution.name}", "what was changed"), own]
    return {"failure": [control, fix, own], "control": [fix, own], "check": [fix]}[role]


def as_json(verdicts: list[Verdict]) -> dict[str, Any]:
    if len(verdicts) == 1:
        return verdicts[0].as_dict()
    good = sum(verdict.as_expected for verdict in verdicts)
    return {
        "schema": SCHEMA,
        "as_expected": good == len(verdicts),
        "runs": len(verdicts),
        "runs_as_expected": good,
        "verdicts": [verdict.as_dict() for verdict in verdicts],
    }


def one_line(number: int, of: int, verdict: Verdict) -> None:
    words, style = headline(verdict)
    found = ", ".join(finding.id for finding in verdict.findings) or "no findings"
    console().print(
        Text(f"{number:>{len(str(of))}} of {of}  "), Text(words.partition(":")[0], style), Text(f"({found})")
    )


def summary(verdicts: list[Verdict]) -> None:
    good = sum(verdict.as_expected for verdict in verdicts)
    style = "bold green" if good == len(verdicts) else "bold red"
    console().print(Text(f"{good} of {len(verdicts)} runs as expected", style))
