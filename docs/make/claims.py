"""Pieces of Markdown for the page of claims, made at every build from the table and from what was recorded."""

from collections import Counter

from docs.make import record_claims, record_release, recording
from docs.make.fragments import FRAGMENTS, linked, put, recorded_with
from docs.make.markdown import escaped, table
from docs.make.record_release import Release, asked_the_same, otherwise
from labs.catalog import LABS
from labs.claims.claim import CANNOT, FALSE, ONLY_WHEN, TRUE, UNTIL, Case, Claim, Result
from labs.claims.table import CLAIMS, THEMES

FOLDER = FRAGMENTS / "claims"
IN_ALL = {
    TRUE: "true",
    FALSE: "false",
    ONLY_WHEN: "true only under some condition",
    UNTIL: "true until some release",
    CANNOT: "not tested, for want of a GPU or a cluster",
}


def write() -> None:
    recorded = record_claims.load()
    put(FOLDER / "in-all.md", in_all())
    put(FOLDER / "at-a-glance.md", at_a_glance())
    put(FOLDER / "measured.md", measured(recorded))
    put(FOLDER / "releases.md", "\n".join(release(one, recorded) for one in record_release.load()))
    put(FOLDER / "recorded-with.md", recorded_with(recording.load_from(record_claims.FOLDER), up=""))


def in_all() -> str:
    counted = Counter(claim.verdict for claim in CLAIMS.values())
    parts = [f"{counted[verdict]} are {words}" for verdict, words in IN_ALL.items() if counted[verdict]]
    return f"Of {len(CLAIMS)} claims {', '.join(parts[:-1])}, and {parts[-1]}.\n"


def badge(claim: Claim) -> str:
    kind = claim.verdict.replace(" ", "-")
    return f'<span class="verdict {kind}" markdown="0">{escaped(claim.in_words).replace(chr(92), "")}</span>'


def at_a_glance() -> str:
    """Every claim with its verdict, by theme; each leads to what was measured."""
    return "\n".join(
        f'**{theme}**\n\n<div class="glance" markdown>\n\n'
        + table(["verdict", "what is said"], [[badge(one), f"[{escaped(one.says)}](#{one.id})"] for one in claims])
        + "\n</div>\n"
        for theme, claims in THEMES.items()
    )


def measured(recorded: dict[str, Result]) -> str:
    return "\n".join(
        f"## {theme}\n\n" + "\n".join(entry(claim, recorded.get(claim.id)) for claim in claims)
        for theme, claims in THEMES.items()
    )


def entry(claim: Claim, result: Result | None) -> str:
    parts = [f"### {escaped(claim.says)} {{ #{claim.id} }}", badge(claim)]
    if result and result.cases:
        parts.append(table(["when", "as claimed", "what was measured"], [row(case) for case in result.cases]))
    measured_with = f"Measured with {escaped(claim.setting)}. " if claim.setting else ""
    parts.append(f"{measured_with}Said in: {source(claim)}.")
    parts.append(f"**What to believe:** {escaped(claim.believe)}")
    if claim.changed:
        parts.append(f"**Since {claim.changed.release}:** {changed(claim)}")
    tried = f"Try it: {linked(LABS[claim.lab], '')}; m" if claim.lab else "M"
    parts.append(f"{tried}easure it again: `nox -s claims -- {claim.id}`." if claim.measure else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def release(then: Release, now: dict[str, Result]) -> str:
    """The claims on another torch: how many came out as today, and what did not."""
    asked = asked_the_same(then, now)
    others = {id: rows for id, result in asked.items() if (rows := otherwise(result, now[id]))}
    cells = [
        [f"[{escaped(CLAIMS[id].says)}](#{id})", *map(escaped, row)] for id, rows in others.items() for row in rows
    ]
    return (
        f"On torch {then.name}, {len(asked) - len(others)} of the {len(asked)} claims measured there came out "
        f"as with {record_release.pinned()}. What did not:\n\n"
        + table(["what is said", "when", f"torch {then.name}", f"torch {record_release.pinned()}"], cells)
        + "\n"
        + recorded_with({"recorded": then.recorded, "versions": then.versions}, up="")
    )


def row(case: Case) -> list[str]:
    when = f"*control:* {escaped(case.when)}" if case.control else escaped(case.when)
    return [when, "yes" if case.holds else "no", escaped(case.saw)]


def source(claim: Claim) -> str:
    title = escaped(claim.source.title)
    return f"[{title}]({claim.source.url})" if claim.source.url else title


def changed(claim: Claim) -> str:
    assert claim.changed
    where = f"[{claim.changed.where}]({claim.changed.url})" if claim.changed.url else claim.changed.where
    return f"{where} {escaped(claim.changed.what)}".strip() + "."
