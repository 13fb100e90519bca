# SPDX-License-Identifier: Apache-2.0
"""Reads facts about one process from /proc."""

from __future__ import annotations

import itertools
import os

from ttmem.model.printable import printable_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from ttmem.model.identity import ProcessInfo

    Stat = tuple[str, str, int, int, int]

KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of a stat
_MAX_COMMAND_BYTES = 4096
# Container runtimes by the names of their cgroups: the word before the id, or the parent folder.
_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod_parent": "podman",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "default": "containerd",
    "k8s.io": "containerd",
    "crio": "cri-o",
}


def read(path: str, limit: int = 1 << 16) -> bytes | None:
    """The contents of a file, up to a limit; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return None


def stat(pid: int, root: str = "/") -> Stat | None:
    """(name, state letter, flags, threads, start time in ticks since boot), None if there is no such process."""
    line = read(os.path.join(root, f"proc/{pid}/stat"))
    if line is None:
        return None
    end = line.rfind(b")")  # the name may contain spaces and parentheses
    fields = line[end + 2 :].split()
    try:
        name = printable_bytes(line[line.index(b"(") + 1 : end])
        return name, fields[0].decode(), int(fields[6]), int(fields[17]), int(fields[19])
    except (IndexError, ValueError):
        return None


def is_dead(known: Stat) -> bool:
    """Whether it is a zombie, which holds nothing.

    With threads left it is alive, even if its first thread has ended.
    """
    return known[1] in "ZXx" and known[3] <= 1


def start_and_state(pid: int, root: str = "/") -> tuple[int, str] | None:
    """(start time in ticks since boot, state letter), None if there is no such process."""
    known = stat(pid, root)
    return (known[4], known[1]) if known else None


def describe(pid: int, user_id: int | None, root: str = "/") -> ProcessInfo:
    """Name, command line and start time; None for what can no longer be read."""
    from ttmem.model.identity import ProcessInfo  # imports typing, which a screen without a server does not need

    born = start_and_state(pid, root)
    if born is None:
        return ProcessInfo(pid, None, user_id)
    name = read(os.path.join(root, f"proc/{pid}/comm"))
    return ProcessInfo(pid, born[0], user_id, printable_bytes(name.rstrip(b"\n")) if name else None, command(pid, root))


def command(pid: int, root: str = "/") -> str | None:
    """The command line. The kernel reads it from the memory of the process, and waits while that is locked."""
    words = read(os.path.join(root, f"proc/{pid}/cmdline"), _MAX_COMMAND_BYTES)
    return printable_bytes(words.rstrip(b"\0").replace(b"\0", b" ")) or None if words else None


def host_memory(pid: int, root: str = "/") -> dict[str, int] | None:
    """The bytes of host memory that a process has resident, and those of huge pages; None if it has exited."""
    text = read(os.path.join(root, "proc", str(pid), "status"))
    found: dict[str, int] = {}
    for line in (text or b"").splitlines():
        for field, name in ((b"VmRSS:", "resident"), (b"HugetlbPages:", "huge_pages")):
            if line.startswith(field) and line.split()[1:2]:
                found[name] = int(line.split()[1]) * 1024
    return found or None


def owner(pid: int, root: str = "/") -> tuple[int | None, int | None]:
    """(effective user id, pid in its own pid namespace if that is not ours), each None if not known.

    The owner of the folder in /proc is not used, because it is root if the process may not be dumped.
    """
    user_id = inner = None
    for line in (read(os.path.join(root, f"proc/{pid}/status")) or b"").split(b"\n"):
        key, _, value = line.partition(b":")
        numbers = value.split()
        if key == b"Uid" and len(numbers) == 4 and numbers[1].isdigit():
            user_id = int(numbers[1])
        elif key == b"NSpid" and len(numbers) > 1 and numbers[-1].isdigit():
            inner = int(numbers[-1])
    return user_id, inner


def container(pid: int, root: str = "/") -> str | None:
    """The container of a process according to the names of its cgroups; None if there is none."""
    found = None
    for line in (read(os.path.join(root, f"proc/{pid}/cgroup")) or b"").splitlines():
        parts = printable_bytes(line.split(b":", 2)[-1]).split("/")
        for above, part in itertools.pairwise(parts):
            pod = _pod(part)
            if pod:  # more informative than a container in it, or one around the whole cluster
                return pod
            found = found or _container(above, part)
    return found


def _pod(part: str) -> str | None:
    """``pod<uid>`` under the cgroup file system, ``kubepods-burstable-pod<uid>.slice`` under systemd."""
    before, found, rest = part.removesuffix(".slice").rpartition("pod")
    uid = rest.replace("_", "-")
    if found and (not before or before.startswith("kubepods")) and _is_hex(uid.replace("-", ""), 32):
        return f"kubernetes pod {uid[:12]}"
    return None


def _container(above: str, part: str) -> str | None:
    stem = part.removesuffix(".scope").removesuffix(".service")
    runtime, _, last = stem.rpartition("-")
    if _is_hex(last, 64):
        # conmon monitors the container from outside.
        return None if runtime.endswith("conmon") else f"{_RUNTIMES.get(runtime or above, 'container')} {last[:12]}"
    if above in ("lxc", "lxc.payload") and part:
        return f"lxc {part}"
    if part.startswith("lxc.payload."):
        return f"lxc {part.removeprefix('lxc.payload.')}"
    name = stem.replace("\\x2d", "-")  # as systemd writes a dash in a name
    if name.startswith("systemd-nspawn@"):
        return f"systemd-nspawn {name.removeprefix('systemd-nspawn@')}"
    scope = above == "machine.slice" and part.endswith(".scope") and name.startswith("machine-")
    if scope and not name.startswith(("machine-qemu-", "machine-lxc-")):  # those are libvirt's
        return f"systemd-nspawn {name.removeprefix('machine-')}"
    return None


def job(pid: int, root: str = "/") -> dict[str, str | None] | None:
    """The job of a process: a SLURM job according to the names of its cgroups, else its session.

    A session has the name of its leader, None if the leader has ended. If the leader is outside our pid namespace, the
    kernel reports session 0, and there is no job.
    """
    for line in (read(os.path.join(root, f"proc/{pid}/cgroup")) or b"").splitlines():
        parts = printable_bytes(line.split(b":", 2)[-1]).split("/")
        for place, part in enumerate(parts):
            number = part.removeprefix("job_")
            if part != number and number.isdecimal() and any("slurm" in above for above in parts[:place]):
                return {"id": f"slurm job {number}", "name": None}
    line = read(os.path.join(root, f"proc/{pid}/stat")) or b""
    fields = line[line.rfind(b")") + 2 :].split()
    leader = int(fields[3]) if len(fields) > 3 and fields[3].isdigit() else 0
    if not leader:
        return None
    known = stat(leader, root)
    return {"id": f"session {leader}", "name": known[0] if known else None}


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and all(c in "0123456789abcdef" for c in text)


def visible_devices(pid: int, root: str = "/") -> list[str] | None:
    """The chips in TT_VISIBLE_DEVICES of a process; None if it is not set, or cannot be read."""
    environ = read(os.path.join(root, f"proc/{pid}/environ"), 1 << 20)
    for entry in (environ or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"TT_VISIBLE_DEVICES":
            found = [part.strip() for part in value.decode("utf-8", "replace").split(",")]
            return [part for part in found if part] or None
    return None


def user(user_id: int) -> str | None:
    """The name of a user. Looked up once, because the lookup may query another machine."""
    if user_id not in _users:
        import pwd

        try:
            _users[user_id] = printable_bytes(os.fsencode(pwd.getpwuid(user_id).pw_name))
        except (KeyError, OverflowError):
            _users[user_id] = None
    return _users[user_id]


_users: dict[int, str | None] = {}


def descendants(pid: int, root: str = "/") -> list[int]:
    """A process and all its visible descendants."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < 4096:
        one = waiting.pop()
        found.append(one)
        try:
            tasks = os.listdir(os.path.join(root, f"proc/{one}/task"))
        except OSError:
            continue
        for task in tasks:
            children = read(os.path.join(root, f"proc/{one}/task/{task}/children")) or b""
            waiting += [int(child) for child in children.split() if child.isdigit()]
    return found


def device_users(pid: int, root: str = "/", known: Container[int] = ()) -> dict[int, str]:
    """The processes, among one and its descendants, that use a device through tt-metal without being tracked.

    This is read from their mappings. A process that has the memory of an agent mapped is tracked, or was forked from a
    tracked process. The pids in ``known`` are skipped.
    """
    users = {}
    for one in descendants(pid, root):
        if one in known:
            continue
        maps = read(os.path.join(root, f"proc/{one}/maps"), 1 << 24) or b""
        if b"/memfd:ttmem" in maps:
            continue
        if b"libtt_metal" in maps and (b"/dev/tenstorrent/" in maps or b"/dev/shm/tt_device_" in maps):
            users[one] = describe(one, None, root).name or "?"
    return users
