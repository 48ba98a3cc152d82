"""The inside of a container, before anything else runs in it: its mounts, its limits, no privileges.

Runs as the first process of fresh namespaces, sets them up and becomes the command it was given; without --shm it
leaves the mounts and privileges alone and sets only what a process can limit for itself. Standard library only: this
is on the path of every run, and starts in about 20 ms.
"""

import argparse
import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from pathlib import Path

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC = 2, 4, 4096, 16384
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1
LAST_CAPABILITY = 63
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        error = os.strerror(ctypes.get_errno())
        sys.exit(f"cannot {what}: {error}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    arguments = [os.fsencode(text) if text is not None else None for text in (source, target, kind)]
    check(libc.mount(*arguments, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def make_read_only(path: str) -> None:
    """Everything below path, all mounts of it, in one call (Linux 5.12 and later)."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = libc.syscall(
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        os.fsencode(path),
        AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
    check(result, f"make {path} read-only (this needs Linux 5.12)")


def cover(folder: str, size: int, keep: list[str]) -> None:
    """An empty folder that goes with the container; what the run needs and lies below it stays visible, read-only."""
    covered = os.path.realpath(folder)
    if not os.path.isdir(covered):
        return
    below = {path for path in map(os.path.realpath, keep) if path.startswith(f"{covered}/")}
    needed = sorted(path for path in below if os.path.exists(path))
    handles = {path: os.open(path, os.O_PATH) for path in needed}
    mount("tmpfs", covered, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=1777")
    for path, handle in handles.items():
        if not os.path.exists(path):
            if os.path.isdir(f"/proc/self/fd/{handle}"):
                os.makedirs(path)
            else:
                Path(path).touch()
            mount(f"/proc/self/fd/{handle}", path, None, MS_BIND | MS_REC)
            make_read_only(path)
        os.close(handle)


def private_dev(shm: int) -> None:
    """A /dev with the harmless devices and a /dev/shm. A read-only mount does not protect a disk from its device."""
    names = [name for name in ("null", "zero", "full", "random", "urandom", "tty") if os.path.exists(f"/dev/{name}")]
    handles = {name: os.open(f"/dev/{name}", os.O_PATH) for name in names}
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "size=64k,mode=755")
    for name, handle in handles.items():
        Path(f"/dev/{name}").touch()
        mount(f"/proc/self/fd/{handle}", f"/dev/{name}", None, MS_BIND)
        os.close(handle)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.mkdir("/dev/shm")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"size={shm},mode=1777")


def loopback() -> None:
    """A fresh network namespace has nothing but a loopback, which is down: ranks of one program talk through it."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def drop_privileges() -> None:
    """Root of a user namespace may mount: a program could give itself a larger /dev/shm. Take that away for good."""
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up privileges")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shm", type=int)
    parser.add_argument("--tmp", type=int)
    parser.add_argument("--cpus", type=int)
    parser.add_argument("--open-files", type=int)
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--keep", action="append", default=[])
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    if arguments.cpus is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cpus])
    if arguments.open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.open_files, arguments.open_files))
    if arguments.shm is not None:
        # A nested user namespace would bring back the privileges that are given up below.
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        loopback()
        make_read_only("/")
        private_dev(arguments.shm)
        cover("/tmp", arguments.tmp, arguments.keep)
        # Sockets of the machine's services are here, docker's among them; a read-only mount does not close those.
        cover("/run", 1 << 20, arguments.keep)
        drop_privileges()
    os.chdir(arguments.cwd)
    os.execv(arguments.command[0], arguments.command)


try:
    main()
except (OSError, ValueError) as error:
    sys.exit(f"cannot set the container up: {error}")
