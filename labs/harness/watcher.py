"""The first process in a container: starts the conductor, samples every process beside it, and ends what hangs.

Reads a plan (one line of JSON) on standard input and writes the history, JSON lines, on standard output. Standard
input stays open as a lifeline: when it closes, whoever asked for this run is gone, and everything here ends too.

The program under test runs in another process. It cannot write to the history: what the conductor reports comes
through a pipe, each line behind a key that changes with every run, and a line without the key is itself reported.
"""

import contextlib
import ctypes
import json
import os
import resource
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from labs.harness.proc import TICK, add_slow_facts, cpus, memory, processes, shared_memory, stacks

LOOK_SECONDS = 0.01  # at /dev/shm, which costs next to nothing
SAMPLE_SECONDS = 0.05  # of every process
SLOW_SAMPLE_SECONDS = 0.25  # of every thread
MOST_OUTPUT = 1 << 18
LONGEST_LINE = 1 << 16
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36

libc = ctypes.CDLL(None)


def emit(kind: str, **facts: Any) -> None:
    line = json.dumps({"kind": kind, "t": time.monotonic(), **facts}) + "\n"
    view = memoryview(line.encode())
    while view:
        view = view[os.write(1, view) :]


class Quiet:
    """How long nothing at all has happened: no event, every process asleep or stopped, no CPU time used."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.since = time.monotonic()
        self.before: dict[int, float] | None = None

    def observe(self, sample: dict[int, dict[str, Any]]) -> float:
        cpu = {pid: facts["cpu"] for pid, facts in sample.items()}
        asleep = all(facts["state"] in "SZTt" for facts in sample.values())
        # The loader looks in on its workers every 5 s; that costs less than one tick of the CPU clock a process.
        busy = self.before is not None and (
            cpu.keys() != self.before.keys() or any(cpu[pid] - self.before[pid] > 2 / TICK for pid in cpu)
        )
        if not asleep or busy or self.before is None:
            self.restart()
            self.before = cpu
        return time.monotonic() - self.since


def _become_the_programs() -> None:
    """Die with the watcher, and take Ctrl-C as any program does; the watcher itself does not."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Part:
    """One conductor, from its start to its end."""

    def __init__(self, name: str, plan: dict[str, Any]) -> None:
        self.name = name
        self.key = secrets.token_hex(16)
        self.quiet = Quiet()
        self.output_left = MOST_OUTPUT
        pipes = [os.pipe() for _ in range(plan["ranks"] or 1)]
        writers = [write for _, write in pipes]
        self.stack_file = f"{os.environ['TMPDIR']}/.stacks-{name}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labs.harness.conductor", *map(str, writers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=writers,
            preexec_fn=_become_the_programs,
            start_new_session=True,  # a program that signals its process group signals itself
            env={**os.environ, "LOADER_LAB_STACKS": self.stack_file},
        )
        for write in writers:
            os.close(write)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.write(json.dumps({"key": self.key, **plan}).encode())
        self.process.stdin.close()
        self.events = {f"events of rank {rank}": read for rank, (read, _) in enumerate(pipes)}
        self.streams = {
            **self.events,
            "stdout": self.process.stdout.fileno(),
            "stderr": self.process.stderr.fileno(),
        }
        self.unread = dict.fromkeys(self.streams, b"")
        for descriptor in self.streams.values():
            os.set_blocking(descriptor, False)

    def receive(self, stream: str) -> bool:
        """Take what there is to read; False at the end of the stream."""
        try:
            data = os.read(self.streams[stream], 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            self.quiet.restart()
        *lines, rest = (self.unread[stream] + data).split(b"\n")
        if rest and (not data or (stream not in self.events and len(rest) > LONGEST_LINE)):
            lines.append(rest)
            rest = b""
        self.unread[stream] = rest
        for line in lines:
            self.take(stream, line)
        return bool(data)

    def take(self, stream: str, line: bytes) -> None:
        text = line.decode("utf-8", "replace").replace("\0", "")
        if stream not in self.events:
            if self.output_left > 0:
                self.output_left -= len(text) + 1
                cut = self.output_left <= 0
                emit("output", part=self.name, stream=stream, text=text[:2000], **({"cut": True} if cut else {}))
            return
        key, _, event = text.partition(" ")
        try:
            facts = json.loads(event) if secrets.compare_digest(key.encode(), self.key.encode()) else None
        except ValueError:
            facts = None
        if facts is None:
            emit("foreign", part=self.name, text=text[:200])
            return
        emit(facts.pop("kind"), part=self.name, **facts)

    def close(self) -> None:
        """Take the rest of what was written. Every writer is dead by now, so each stream has an end."""
        for stream in self.streams:
            while self.receive(stream):
                pass
        for descriptor in self.events.values():
            os.close(descriptor)


def kill_all() -> None:
    """End every process that descends from this one, and wait for them."""
    while left := [pid for pid, facts in processes().items() if facts["state"] != "Z"]:
        # The first process of a container can end all others at one blow, also those that flee by forking.
        for pid in [-1] if os.getpid() == 1 else left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(0.001)
    reap()


def reap() -> None:
    """Collect the dead, orphans among them. Only called when the conductor, subprocess's own child, is collected."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def watch(part: Part, seconds: float, stall_seconds: float) -> None:
    """Until the conductor ends: pass on what it reports, sample, and end it when it hangs or takes too long."""
    deadline = time.monotonic() + seconds
    next_sample = next_slow = 0.0
    last_used = 0
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ, "lifeline")
        for stream, descriptor in part.streams.items():
            selector.register(descriptor, selectors.EVENT_READ, stream)
        while part.process.poll() is None:
            for key, _ in selector.select(LOOK_SECONDS):
                if key.data == "lifeline":
                    if not os.read(0, 1 << 10):
                        os._exit(1)
                elif not part.receive(key.data):
                    selector.unregister(key.fd)
            now = time.monotonic()
            used, total = shared_memory()
            if used != last_used:
                emit("shm", part=part.name, shm_used=used)
                last_used = used
            if now >= next_sample:
                sample = processes()
                if now >= next_slow:
                    add_slow_facts(sample)
                    next_slow = now + SLOW_SAMPLE_SECONDS
                emit("sample", part=part.name, shm_used=used, shm_total=total, processes=sample)
                next_sample = now + SAMPLE_SECONDS
                quiet = part.quiet.observe(sample)
                if quiet >= stall_seconds:
                    emit("stall", part=part.name, seconds=round(quiet, 3), stacks=stacks(part.stack_file))
                    break
            if now >= deadline:
                emit("overtime", part=part.name, seconds=seconds, stacks=stacks(part.stack_file))
                break
    if part.process.poll() is None:
        part.process.kill()
    status = part.process.wait()
    kill_all()
    part.close()
    emit("exit", part=part.name, status=status, memory=memory())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not dumpable: /proc/PID/fd of this process is closed to the program, which runs as the same user.
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Orphans come to this process, also where it is not the first of a container.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    plan = json.loads(sys.stdin.buffer.readline())
    used, total = shared_memory()
    emit(
        "container",
        shm_used=used,
        shm_total=total,
        cpus=cpus(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        kernel=os.uname().release,
        python=sys.version.split()[0],
    )
    # Where the container is not ours alone, neither is its /tmp: leave nothing there.
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="loader-lab-", dir="/tmp")
    for name, part_plan in plan["parts"]:
        watch(Part(name, part_plan), plan["seconds"], plan["stall_seconds"])
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    emit("end")


if __name__ == "__main__":
    main()
