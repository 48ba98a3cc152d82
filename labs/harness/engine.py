"""docker or podman, through its command line client: the image, the command line, and what an earlier crash left."""

import contextlib
import hashlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from labs.harness.interrupts import hold_interrupts
from labs.harness.limits import ROOT, TMP_BYTES, Limits, Refused, environment

DOCKERFILE = ROOT / "docker" / "Dockerfile"
LABEL = "loader-lab"
MOST_PROCESSES = 4096


def image() -> str:
    """The image that goes with this Dockerfile and these pinned versions."""
    content = DOCKERFILE.read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    return f"loader-lab:{hashlib.sha256(content).hexdigest()[:12]}"


class Engine:
    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run([self.name, *arguments], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Refused(f"{self.name} did not answer within {seconds:g} seconds") from None

    def why_not(self, limits: Limits) -> str | None:
        if shutil.which(self.name) is None:
            return f"the command {self.name} is missing"
        try:
            info = self.ask("info")
        except Refused as silence:
            return str(silence)
        if info.returncode == 0:
            return None
        if "permission denied" in info.stderr.lower():
            return f"you may not talk to {self.name}: join the group of its socket, or use sudo"
        return f"{self.name} does not answer ({last_line(info.stderr)})"

    def prepare(self) -> None:
        """Sweep what an earlier crash has left, and have the image."""
        self.sweep()
        if self.ask("image", "inspect", image()).returncode != 0:
            self.build()

    def build(self) -> None:
        """Build the image, with the engine's own progress on standard error."""
        print(f"loader-lab: building the image {image()}; this is done once", file=sys.stderr)
        command = [self.name, "build", "--file", str(DOCKERFILE), "--tag", image(), "--tag", "loader-lab", str(ROOT)]
        let_interrupt = hold_interrupts()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout
        said = ""
        try:
            let_interrupt()
            for line in process.stdout:
                said = line.strip() or said
                sys.stderr.write(line)
            process.wait()  # the end of its output is not yet its end
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise Refused(f"{self.name} could not build the image: {said}")

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        if os.getuid() == 0 and program.exists() and not anybody_can_read(program):
            raise Refused(f"{program} cannot be read by the ordinary user in the container: move it, or chmod a+rX")
        run = [self.name, "run", "--rm", "--interactive", "--init", "--name", name]
        run += ["--label", f"{LABEL}={socket.gethostname()}:{os.getpid()}", "--entrypoint", "python"]
        run += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        run += ["--pids-limit", str(MOST_PROCESSES)]
        run += ["--shm-size", str(limits.shm), "--tmpfs", f"/tmp:size={TMP_BYTES},mode=1777,exec"]
        if limits.memory is not None:
            run += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
        if limits.cpus is not None:
            run += ["--cpus", str(limits.cpus)]
        ulimits = {"nofile": limits.open_files}
        if self.name == "podman":
            # Its own defaults can be more than this machine allows anybody: ask for less.
            ulimits["nproc"] = MOST_PROCESSES
            ulimits["nofile"] = limits.open_files or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for what, most in ulimits.items():
            run += ["--ulimit", f"{what}={most}:{most}"] if most is not None else []
        if self.name == "docker" and os.getuid() != 0:
            # As the person who asked, who can read their own files; as root we stay the image's ordinary user.
            run += ["--user", f"{os.getuid()}:{os.getgid()}"]
        for key, value in environment(limits).items():
            run += ["--env", f"{key}={value}"]
        # A program that lies in /tmp itself is shown alone: the container has a /tmp of its own.
        for path in sorted({ROOT, program if program.parent == Path("/tmp") else program.parent}):
            run += ["--mount", f"type=bind,source={path},target={path},readonly"]
        return [*run, "--workdir", str(ROOT), image(), *argv[1:]]

    def remove(self, name: str) -> None:
        with contextlib.suppress(Refused):
            self.ask("rm", "--force", name)

    def sweep(self) -> None:
        """Remove containers of runs whose owner, on this machine, is no more."""
        form = f'{{{{index .Config.Labels "{LABEL}"}}}}'
        for container in self.ask("ps", "--all", "--quiet", "--filter", f"label={LABEL}").stdout.split():
            host, _, pid = self.ask("inspect", "--format", form, container).stdout.strip().rpartition(":")
            if host == socket.gethostname() and pid.isdigit() and not Path(f"/proc/{pid}").exists():
                self.remove(container)


def anybody_can_read(program: Path) -> bool:
    """What lies above its folder does not count: in the container the way there is the engine's own."""
    return bool(program.stat().st_mode & 0o004 and program.parent.stat().st_mode & 0o001)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gave no reason"])[-1]


def main(name: str = "docker") -> int:
    """Build the image: python -m labs.harness.engine [podman]"""
    engine = Engine(name)
    try:
        reason = engine.why_not(Limits())
        if reason:
            raise Refused(reason)
        engine.build()
    except Refused as refusal:
        print(f"loader-lab: {refusal}", file=sys.stderr)
        return 77
    except KeyboardInterrupt:
        print("loader-lab: interrupted; nothing is left running", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
