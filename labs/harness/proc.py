"""What Linux tells about this container and the processes in it."""

import contextlib
import math
import os
import resource
import signal
import time
from typing import Any

STACK_SIGNAL = signal.SIGURG  # ignored by a process that has no handler for it
TICK = os.sysconf("SC_CLK_TCK")


def shared_memory() -> tuple[int, int]:
    """Bytes of /dev/shm: in use, and in all."""
    disk = os.statvfs("/dev/shm")
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize


def cpus() -> int:
    """CPUs this container may use: those it is bound to, or its share of time on them if that is less."""
    bound = len(os.sched_getaffinity(0))
    quota, period = (read_text("/sys/fs/cgroup/cpu.max") or "max 1").split()
    if quota == "max":
        quota = read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip() or "-1"
        period = read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip() or "1"
    return min(bound, math.ceil(int(quota) / int(period))) if int(quota) > 0 else bound


def read_text(path: str) -> str:
    try:
        # Not blocking: the program could have put a pipe in the place of a file. And it may be called anything.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def own_memory(pid: int) -> int | None:
    """Bytes that this process alone holds: what is shared with others, also by fork, does not count."""
    sizes = dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/smaps_rollup").splitlines()[1:])
    if not sizes:
        return None
    kilobytes = {name: int(size.split()[0]) for name, size in sizes.items()}
    # A batch in /dev/shm is nobody's own: the main process will map it too.
    return (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"] - kilobytes.get("Pss_Shmem", 0)) << 10


def memory() -> dict[str, int] | None:
    """The memory limit of this container, its highest use, and how often the kernel killed for it; None: no limit."""
    v1, v2 = "/sys/fs/cgroup/memory/memory", "/sys/fs/cgroup/memory"
    if os.path.exists(f"{v2}.max"):
        limit, peak, events = read_text(f"{v2}.max"), read_text(f"{v2}.peak"), read_text(f"{v2}.events")
    else:
        limit, peak = read_text(f"{v1}.limit_in_bytes"), read_text(f"{v1}.max_usage_in_bytes")
        events = read_text(f"{v1}.oom_control")
    if not limit.strip().isdigit() or int(limit) >= 1 << 60:
        return None
    kills = dict(line.split() for line in events.splitlines()).get("oom_kill", "0")
    return {"limit": int(limit), "peak": int(peak or 0), "kills": int(kills)}


def processes() -> dict[int, dict[str, Any]]:
    """Every process that descends from this one: state, CPU seconds, threads, resident bytes."""
    everybody = {}
    for name in os.listdir("/proc"):
        stat = read_text(f"/proc/{name}/stat") if name.isdigit() else ""
        if stat:
            fields = stat.rpartition(")")[2].split()
            everybody[int(name)] = {
                "state": fields[0],
                "parent": int(fields[1]),
                "cpu": (int(fields[11]) + int(fields[12])) / TICK,
                "threads": int(fields[17]),
                "rss": int(fields[21]) * resource.getpagesize(),
            }
    family: dict[int, dict[str, Any]] = {}
    parents = {os.getpid()}
    while parents:
        children = {pid: facts for pid, facts in everybody.items() if facts["parent"] in parents and pid not in family}
        family |= children
        parents = set(children)
    return family


def add_slow_facts(sample: dict[int, dict[str, Any]]) -> None:
    """The context switches of all threads: a file to read for each thread, so not at every sample."""
    for pid, facts in sample.items():
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        switches = 0
        for thread in threads:
            status = read_text(f"/proc/{pid}/task/{thread}/status")
            switches += int(status.rpartition("nonvoluntary_ctxt_switches:")[2] or 0)
        facts["involuntary_switches"] = switches


def stacks(file: str, seconds: float = 3.0) -> list[dict[str, Any]]:
    """The Python stack of every process that knows how to give it, one after the other; all answer into this file."""
    answers = []
    deadline = time.monotonic() + seconds
    for pid in sorted(processes()):
        caught = int((read_text(f"/proc/{pid}/status").partition("SigCgt:")[2].split() or ["0"])[0], 16)
        if not caught >> (STACK_SIGNAL - 1) & 1:
            continue
        before, text = len(read_text(file)), ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, STACK_SIGNAL)
        while time.monotonic() < deadline:
            time.sleep(0.01)
            latest = read_text(file)[before:]
            if latest and latest == text:
                break
            text = latest
        answers.append({"pid": pid, "stack": text.strip()})
    return answers
