"""Small pieces of Markdown for pages to include, made at every build from the catalog, the programs and the recordings.

They are not in the repository, so they cannot be old. docs/reference/write-a-page.md says which there are.
"""

import ast
import difflib
import re
import shutil
from pathlib import Path
from typing import Any

from docs.make import recording
from docs.make.markdown import command, escaped, fence, included, indented, message, tab, table
from docs.make.pictures import journey
from labs.catalog import LABS
from labs.harness.lab import Lab
from labs.harness.limits import BASE_ENV, ROOT
from labs.harness.report import cause
from labs.harness.words import sentence
from labs.workshop.exercises import handed_out

TESTS = ROOT / "tests" / "test_workers.py"
FRAGMENTS = ROOT / "docs" / "fragments"
OTHER_MESSAGES = ROOT / "docs" / "reference" / "other-messages.md"
LEVELS = {1: "easy", 2: "medium", 3: "hard"}
HINTS = ("where to look", "the mechanism", "the fix")
CPUS = 2  # of the machine on which the site's runs were recorded
START, END = "# --- the part that differs", "# --- from here on the same"

# What a person sees of a finding when nothing is raised. A lab whose finding is not here has to say something.
SYMPTOMS = {
    "stalled": "stands-still",
    "oversubscribed": "slow",
    "starved": "slow",
    "overtime": "slow",
    "duplicated": "wrong-data",
    "lost": "wrong-data",
    "wrong-content": "wrong-data",
    "same-draws": "wrong-data",
    "epochs-repeat": "wrong-data",
    "memory-grew": "memory",
    "oom": "memory",
    "no-files": "memory",
    "bus-error": "memory",
    "shm-full": "memory",
}


def write() -> None:
    shutil.rmtree(FRAGMENTS, ignore_errors=True)
    put(FRAGMENTS / "catalog.md", catalog())
    put(FRAGMENTS / "messages.md", messages())
    put(FRAGMENTS / "other-messages.md", other_messages())
    put(FRAGMENTS / "environment.md", table(["variable", "value"], [[f"`{k}`", f"`{v}`"] for k, v in BASE_ENV.items()]))
    put(FRAGMENTS / "links.md", links(""))
    put(FRAGMENTS / "links-from-a-folder.md", links("../"))
    put(FRAGMENTS / "tests.md", tests_about_torch())
    put(FRAGMENTS / "journey.svg", journey.draw(list(LABS)))
    put(FRAGMENTS / "journey.md", stations())
    for symptom in sorted(set(SYMPTOMS.values())):
        put(FRAGMENTS / "symptoms" / f"{symptom}.md", without_message(symptom))
    for lab in LABS.values():
        folder = FRAGMENTS / lab.name
        put(folder / "facts.md", facts(lab))
        put(folder / "program.md", program(lab))
        put(folder / "handed-out.py", handed_out(lab))
        put(folder / "run.md", command(f"nox -s lab-{lab.name}"))
        put(folder / "try.md", try_it(lab))
        put(folder / "hints.md", hints(lab))
        put(folder / "fix.md", fix(lab))
        put(folder / "cause.md", f"{escaped(cause(lab))}\n")
        put(folder / "at-home.md", f"{escaped(sentence(lab.at_home))}\n")
        put(folder / "control.md", control(lab))
        if (recording.folder(lab) / "recording.json").exists():
            put(folder / "messages.md", words(lab))
            put(folder / "wrong-fixes.md", wrong_fixes(lab))
            put(folder / "recorded-with.md", recorded_with(recording.load(lab)))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def facts(lab: Lab) -> str:
    return (
        f'!!! abstract "{lab.minutes} minutes, {LEVELS[lab.difficulty]} (difficulty {lab.difficulty} of 3)"\n\n'
        f"    After this lab you can {escaped(lab.goal)}.\n\n"
        "    You have this failure in a job of your own? Compare [what you see](#what-you-see), and take "
        "[our solution](#our-solution) and [what helps in production](#in-production).\n"
    )


def program(lab: Lab) -> str:
    """The part to predict from. Its lines wrap: what is cut off cannot be thought about."""
    return fence(" { .python .program }", region(lab.program.read_text())) + "\n"


def hints(lab: Lab) -> str:
    folded = zip(HINTS, lab.hints, strict=True)
    return "\n".join(
        f'??? tip "Hint {number}: {kind}"\n\n    {escaped(hint)}\n' for number, (kind, hint) in enumerate(folded, 1)
    )


def try_it(lab: Lab) -> str:
    return (
        "Try your own first, in the copy that `nox -s workshop` makes. It is judged in the same container and by the "
        "same rules as ours:\n\n" + command("nox -s workshop", f"nox -s check-{lab.name}")
    )


def fix(lab: Lab) -> str:
    """Folded: the part of the program that differs, broken and fixed, the difference, and the whole of both."""
    broken, fixed = lab.program.read_text(), lab.solution.read_text()
    before, after = (path.relative_to(ROOT).as_posix() for path in (lab.program, lab.solution))
    difference = difflib.unified_diff(broken.splitlines(), fixed.splitlines(), before, after, lineterm="")
    tabs = [
        tab("Broken", fence("python", region(broken))),
        tab("Fixed", fence("python", region(fixed))),
        tab("Diff", fence("diff", "\n".join(difference))),
    ]
    whole = [
        f'??? example "The whole program: {path}"\n\n{indented(fence("python", included(path)))}\n'
        for path in (before, after)
    ]
    # A link to what is inside a fold opens it.
    solution = f"Ours: {escaped(lab.advice)}.\n{{ #our-solution }}\n\n" + "\n".join([*tabs, *whole])
    return f'??? success "Our solution"\n\n{indented(solution)}\n'


def region(program: str) -> str:
    """The part between the marks, and its marks."""
    lines = program.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip().startswith(START))
    last = next(number for number, line in enumerate(lines) if line.strip().startswith(END))
    return "\n".join(lines[first + 1 : last]).strip("\n")


def control(lab: Lab) -> str:
    return (
        "Take away the cause and nothing else: the same broken program with "
        f"**{escaped(lab.control.says)}** is healthy.\n\n"
        f"{command(f'nox -s lab-{lab.name} -- --control')}\n"
        f"{transcript(lab, 'control')}"
    )


def transcript(lab: Lab, role: str) -> str:
    path = (recording.folder(lab) / f"{role}.txt").relative_to(ROOT).as_posix()
    return f'??? example "What it printed"\n\n{indented(fence("text", included(path)))}\n'


def words(lab: Lab) -> str:
    """What torch and Python said in the lab, word for word, and what was left out of it."""
    said = [message["text"] for message in recording.load(lab)["messages"] if message["said_in"] == "the lab"]
    heard = "\n".join(map(message, said)) or "Nothing about it: no exception, and no line on stderr.\n"
    workers = lab.workers // (lab.ranks or 1)
    if workers <= CPUS:
        return heard
    return (
        f"{heard}\nWhere there are fewer than {workers} CPUs, torch also warns that it "
        f"[*will create {workers} worker processes*](../reference/other-messages.md#more-workers-than-cpus). "
        "It warns of the solution as well, so it is left out here.\n"
    )


def wrong_fixes(lab: Lab) -> str:
    """The recorded table, what torch and Python said of those attempts only, and what holds as well."""
    path = (recording.folder(lab) / "wrong-fixes.md").relative_to(ROOT).as_posix()
    made = recording.load(lab)
    others = [message(told["text"]) for told in made["messages"] if told["said_in"] != "the lab"]
    heard = ["### What torch and Python say to them\n", *others] if others else []
    accepted = "".join(f"- {escaped(name)}\n" for name in made["accepted"])
    holds = "### Other fixes that hold\n\nThe judge accepts these, too:\n\n" + accepted
    return "\n".join([f"{included(path)}\n", *heard, holds])


def recorded_with(made: dict[str, Any], up: str = "../") -> str:
    with_ = made["versions"]
    return (
        f"Recorded on {made['recorded']} with Python {with_['python']}, torch {with_['torch']}, "
        f"NumPy {with_['numpy']}, OpenCV {with_['opencv']}, Linux {with_['kernel']}; "
        f"[how it is made]({up}reference/write-a-page.md#recordings).\n{{ .recorded-with }}\n"
    )


def catalog() -> str:
    """The table of all labs, for a page in docs/reference/."""
    rows = [
        [
            linked(lab, "../"),
            str(lab.minutes),
            LEVELS[lab.difficulty],
            escaped(sentence(lab.fails)),
            escaped(sentence(lab.goal)),
        ]
        for lab in LABS.values()
    ]
    return table(["lab", "minutes", "difficulty", "what fails", "afterwards you can"], rows)


def messages() -> str:
    """Every message of every lab, for the first page: the same words in several labs once, with all of them."""
    texts: dict[str, str] = {}
    places: dict[str, dict[str, str]] = {}
    for lab, told in recorded_messages():
        key = recording.shape(told["text"])
        texts.setdefault(key, told["text"])
        places.setdefault(key, {})[lab.name] = told["said_in"]
    explained = {recording.shape(text): (title, anchor) for text, title, anchor in others()}
    leads = {key: leads_to(where, explained.get(key)) for key, where in places.items()}
    # Messages that lead to the same place stand together.
    return "\n".join(
        "\n".join([*(message(texts[key]) for key in leads if leads[key] == lead), f"{lead}\n"])
        for lead in dict.fromkeys(leads.values())
    )


def recorded_messages() -> list[tuple[Lab, dict[str, str]]]:
    """Of the labs that have a recording: a new one has none yet."""
    recorded = [lab for lab in LABS.values() if (recording.folder(lab) / "recording.json").exists()]
    return [(lab, told) for lab in recorded for told in recording.load(lab)["messages"]]


def others() -> list[tuple[str, str, str]]:
    """Each message on the page of those that no lab is about: its text, and title and anchor of where it stands."""
    found = []
    for section in OTHER_MESSAGES.read_text().split("\n## ")[1:]:
        heading = re.match(r"(.*) \{ #(.*) \}", section)
        assert heading, f"a heading without an anchor: {section[:60]}"
        texts = re.findall(r"^``` \{ \.text \.message \}\n(.*?)\n```$", section, re.M | re.S)
        found += [(text, heading[1], heading[2]) for text in texts]
    return found


def other_messages() -> str:
    """What no lab says, for the first page, and where it is explained."""
    said = {recording.shape(told["text"]) for _, told in recorded_messages()}
    leads: dict[str, list[str]] = {}
    for text, title, anchor in others():
        if recording.shape(text) not in said:
            leads.setdefault(f"- [{title}](reference/other-messages.md#{anchor})\n", []).append(message(text))
    return "\n".join("\n".join([*texts, lead]) for lead, texts in leads.items())


def without_message(symptom: str) -> str:
    """The labs that show a symptom, whether or not they say anything."""
    found = [lab for lab in LABS.values() if any(SYMPTOMS.get(finding) == symptom for finding in lab.findings)]
    return "".join(f"- {linked(lab, '')}: {escaped(lab.fails)}\n" for lab in found)


def stations() -> str:
    """The stations of a batch's journey and the labs at each, for a page at the top."""
    rows = [
        [
            f"{station.title} ({station.process})",
            " ".join(station.happens),
            ", ".join(linked(LABS[name], "") for name in station.labs if name in LABS),
        ]
        for station in journey.STATIONS
    ]
    return table(["station", "what happens", "labs that break it"], rows)


def leads_to(places: dict[str, str], explained: tuple[str, str] | None) -> str:
    """The labs that say it, and the page on which its other causes are."""
    labs = [
        f"- {linked(LABS[name], '')}: {escaped(LABS[name].fails)}"
        + ("" if place == "the lab" else f" (you get this message from a fix that is not enough: *{escaped(place)}*)")
        for name, place in places.items()
    ]
    other = [f"- other causes: [{explained[0]}](reference/other-messages.md#{explained[1]})"] if explained else []
    return "\n".join([*labs, *other])


def links(up: str) -> str:
    """Where [shm][lab shm] leads to (the lab's page, or as long as it has none the table), and [a test][test_...]."""
    pages = [f"[lab {lab.name}]: {up}{target(lab)}\n" for lab in LABS.values()]
    return "".join([*pages, *(f"[{name}]: {up}reference/tests.md#{name}\n" for name, _ in tests())])


def tests() -> list[tuple[str, str]]:
    """Of torch's own behaviour: name and text."""
    source = TESTS.read_text()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [
        (node.name, ast.get_source_segment(source, node) or "") for node in functions if node.name.startswith("test_")
    ]


def tests_about_torch() -> str:
    """Each test under a heading of its own, for statements to lead to."""
    return "\n".join(
        f"## {name.removeprefix('test_').replace('_', ' ').capitalize()} {{ #{name} }}\n\n{fence('python', text)}\n"
        for name, text in tests()
    )


def target(lab: Lab) -> str:
    page = ROOT / "docs" / "labs" / f"{lab.name}.md"
    return f"labs/{lab.name}.md" if page.exists() else "reference/catalog.md"


def linked(lab: Lab, up: str) -> str:
    return f"[{lab.name}]({up}{target(lab)})"


if __name__ == "__main__":
    write()
