"""How much memory each worker came to hold, in the failure and in the fix."""

from docs.make.pictures import svg
from labs.harness.findings import find, megabytes
from labs.harness.history import History

ROW = 22
ABOUT = {"memory-grew", "oom"}


def tells(failure: History) -> bool:
    return any(finding.id in ABOUT for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    longest = max([*held(failure), *held(fix), 1])
    says = f"Memory of each worker. Broken: {words(failure)}. Fixed: {words(fix)}."
    body: list[str] = []
    y = 0.0
    for name, history in (("broken", failure), ("fixed", fix)):
        style = "bad" if find(history) else "good"
        body.append(svg.text(4, y + 14, name, "title"))
        body.append(svg.text(svg.WIDTH - svg.RIGHT, y + 14, f"together {megabytes(sum(held(history)))}", "right"))
        y += 26
        for number, size in enumerate(held(history)):
            width = (svg.PLOT - 70) * size / longest
            body.append(svg.text(svg.LEFT - 6, y + 12, f"worker {number}", "right small"))
            body.append(svg.boxes([(svg.LEFT, y)], round(max(width, 1), 1), 14, style))
            body.append(svg.text(svg.LEFT + width + 6, y + 12, megabytes(size), "small"))
            y += ROW
        y += 12
    return svg.picture(y, says, body)


def held(history: History) -> list[int]:
    """Bytes of each worker's own at the end; where it came to no end, the most that was seen in its memory."""
    ends = [end["own_memory"] for end in history.all("epoch_end") if any(end.get("own_memory", ()))]
    if ends:
        return [size or 0 for size in ends[-1]]
    pids = history.worker_pids()
    most = dict.fromkeys(map(str, pids), 0)
    for sample in history.all("sample"):
        for pid in most:
            most[pid] = max(most[pid], sample["processes"].get(pid, {}).get("rss", 0))
    return list(most.values())


def words(history: History) -> str:
    return ", ".join(megabytes(size) for size in held(history))
