# SPDX-License-Identifier: Apache-2.0
"""tt-metal's own counters in /dev/shm, one file for each chip, and which of their slots belong to live processes.

Since 0.70 tt-metal adds up the sizes of the buffers that each process has on a chip. The file outlives the processes. A
process that is killed never subtracts its bytes, and later processes add to them. So the totals are shown but not used:
only the slots of living processes are summed. The statistics by chip only grow after a crash, and the total of circular
buffers is that of the last writer: neither is used.

Some data is never written: buffers of another thread than the one that opened the device, dataflow buffers,
scratchpads. Some is written wrongly: the virtual buffers of a capture without dispatch, circular buffers that changed
twice within a tenth of a second.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import time

from ttmem.model.printable import printable_bytes
from ttmem.sources import process_lookup as processes
from ttmem.sources.polling import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from ttmem.model.machine_rows import CounterFile, CountersLook, CounterSlot, HolderRow
    from ttmem.model.schema import CountedBytes, CountedKind, StaleBytes
    from ttmem.sources.polling import Outcome

    File = tuple[int, int]  # device and inode: two containers may each have a file of the same name

#  0       88      856        8536    8540   8576
#  | header | chips | 64 slots | state | zeros |     little endian; the state since version 4
_HEADER = struct.Struct("<I4xQI20xI4x5Q")  # version, updated, attached, Metal's number, totals
_SLOT = struct.Struct("<i4x6Q64s")  # pid, five sums, updated, name
_PIDS = struct.Struct("<" + "i116x" * 64)
_SLOTS_AT, _SLOTS, _STATE_AT, _SIZE = 856, 64, 8536, 8576
_VERSIONS = (2, 3, 4)
_READY, _UNREADY, _RELEASED = 0x52454459, (0, 1), -1  # since version 4
_KINDS: tuple[CountedKind, ...] = ("dram", "l1", "l1_small", "trace", "cb")
# The header has sums of these kinds; for cb it has the value that was written last.
_SUMMED: tuple[Literal["dram", "l1", "l1_small", "trace"], ...] = ("dram", "l1", "l1_small", "trace")

_NAME = re.compile(r"tt_device_([0-9]+)_memory")
_MOST_FILES = 1024  # any user can create files in /dev/shm
_MOST_BYTES = 1 << 50
_MOST_CHIPS = 1 << 16

_MAPPING = re.compile(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([0-9]+) +/.*/tt_device_[0-9]+_memory$", re.MULTILINE)
_MAX_STAT_BYTES = 1 << 24  # /proc/stat has a number for every interrupt of every core
_INITIAL_NAMESPACE = "pid:[4026531836]"
_TRUSTED_SECONDS = 60.0
_SHORT_SECONDS = 0.02  # reading the mappings of a healthy process takes less


class Counters:
    """Reads the files repeatedly, and remembers the mappings of each process.

    >>> Counters("/nowhere").look()["state"]
    'absent'
    """

    def __init__(self, root: str = "/", patience: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._processes = _Processes(root, patience, clock)

    def look(self, holders: Iterable[HolderRow] = ()) -> CountersLook:
        """The current contents of all files; ``holders`` are searched for processes that run in a container."""
        folder = os.path.join(self._root, "dev/shm")
        try:
            names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
        except FileNotFoundError:
            names = []
        except OSError as error:
            return {"state": "unreadable", "why": f"/dev/shm: {error.strerror}", "files": []}
        self._processes.begin(holders)
        looked_at = names if len(names) <= _MOST_FILES else _fair(folder, names)
        files = [file for name in looked_at if (file := self._file(folder, name)) is not None]
        self._processes.end()
        if not files:
            why = "tt-metal has written no counters to /dev/shm; versions since 0.70 do, unless "
            return {"state": "absent", "why": f"{why}TT_METAL_SHM_TRACKING_DISABLED=1", "files": []}
        notes = []
        closed = [file for file in files if file["state"] == "unreadable"]
        if closed:
            notes.append(f"{len(closed)} of {len(files)} files may not be read: {closed[0]['why']}")
        if len(names) > _MOST_FILES:
            notes.append(f"only {len(looked_at)} of {len(names)} files were read")
        state = "unreadable" if len(closed) == len(files) else "ok"
        return {"state": state, "why": "; ".join(notes) or None, "files": files}

    def _file(self, folder: str, name: str) -> CounterFile | None:
        """The contents of one file; None if it no longer exists."""
        chip_id = name.split("_")[2]
        file: CounterFile = {
            "chip": chip_id, "path": f"/dev/shm/{name}", "owner": None, "state": "garbage", "why": None,
            "version": None, "metal_id": None, "attached": None, "updated": None, "totals": None, "slots": [],
            "live": None, "stale": None,
        }  # fmt: skip
        path = os.path.join(folder, name)
        try:
            found = os.lstat(path)
            file["owner"] = found.st_uid
            if int(chip_id) >= 1 << 64 or chip_id != str(int(chip_id)):
                file["why"] = f"{chip_id} is not a chip number as tt-metal writes it"
            elif not stat.S_ISREG(found.st_mode):
                file["why"] = "it is not a regular file, so tt-metal did not write it"
            else:
                self._read(path, file)
        except FileNotFoundError:
            return None
        except PermissionError:
            file["state"] = "unreadable"
            owner = self._processes.user_for_people(file["owner"])
            file["why"] = f"{file['path']} is readable only by {owner}; run ttmem as that user or as root"
        except OSError as error:  # also if the file was replaced by one that cannot be read at an offset
            file["state"], file["why"] = "unreadable", f"{file['path']}: {error.strerror}"
        return file

    def _read(self, path: str, file: CounterFile) -> None:
        # Read, not mapped: the file gets its size only after its creation, and an access before that would be fatal.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            for _ in range(2):
                content = os.pread(descriptor, _SIZE, 0)
                file["state"], file["why"] = _verdict(content)
                if file["state"] != "ok" or _balanced(content):
                    break  # else the first read may have been between the two writes of an allocation; read again
        finally:
            os.close(descriptor)
        file["version"] = int.from_bytes(content[:4], "little") or None
        if file["state"] == "ok":
            self._fill(content, file, _Origin(found))

    def _fill(self, content: bytes, file: CounterFile, origin: _Origin) -> None:
        _, updated, file["attached"], file["metal_id"], *sizes = _HEADER.unpack_from(content)
        file["updated"] = updated / 1e9 or None
        file["slots"] = slots = [self._slot(slot, origin) for slot in _slots(content)]
        file["totals"] = totals = _counted(sizes)
        alive = [slot for slot in slots if slot["state"] == "live"]
        file["live"] = live = _counted([sum(slot[kind] for slot in alive) for kind in _KINDS])
        stale: StaleBytes = {
            "dram": max(0, totals["dram"] - live["dram"]),
            "l1": max(0, totals["l1"] - live["l1"]),
            "l1_small": max(0, totals["l1_small"] - live["l1_small"]),
            "trace": max(0, totals["trace"] - live["trace"]),
            "cb": None,
        }
        if len(slots) == _SLOTS:
            gone = [slot for slot in slots if slot["state"] in ("dead", "reused")]
            for kind in _SUMMED:  # the rest may be in use by a process that found no slot
                stale[kind] = min(stale[kind], sum(slot[kind] for slot in gone))
            file["why"] = f"all {_SLOTS} slots are taken: further processes are counted only in the totals"
        file["stale"] = stale

    def _slot(self, slot: tuple[Any, ...], origin: _Origin) -> CounterSlot:
        pid, dram, l1, l1_small, trace, cb, updated, name = slot
        row: CounterSlot = {
            "pid": pid,
            "process": None,
            "start": None,
            "user_id": None,
            "user": None,
            "name": printable_bytes(name.partition(b"\0")[0].strip()) or None,
            "dram": dram,
            "l1": l1,
            "l1_small": l1_small,
            "trace": trace,
            "cb": cb,
            "updated": updated / 1e9 or None,
            "state": "garbage",
            "why": "these numbers are impossible; they are not counted",
        }
        if pid >= 0 and max(dram, l1, l1_small, trace, cb) <= _MOST_BYTES:
            self._processes.find_owner(row, origin)
        return row


def _counted(sizes: list[int]) -> CountedBytes:
    dram, l1, l1_small, trace, cb = sizes
    return {"dram": dram, "l1": l1, "l1_small": l1_small, "trace": trace, "cb": cb}


class _Origin:
    """The identity of a file, and who may have written to it."""

    __slots__ = ("file", "open", "owner")

    def __init__(self, found: os.stat_result) -> None:
        self.file: File = found.st_dev, found.st_ino
        self.owner = found.st_uid
        self.open = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

    def admits(self, user_id: int | None) -> bool:
        """Whether a process of this user can have it mapped. tt-metal creates the file for its own user only."""
        return user_id in (None, 0, self.owner) or self.owner == 0 or self.open

    def trusted(self, user_id: int | None) -> bool:
        """Whether the file belongs to this user, to us or to root. Then no other user can have written the pid."""
        return self.owner in (user_id, os.geteuid(), 0)


def _fair(folder: str, names: list[str]) -> list[str]:
    """The files to read, up to the limit, chosen so that one user's files cannot displace those of others."""
    by_owner: dict[int | None, list[str]] = {}
    for name in names:
        try:
            owner: int | None = os.lstat(os.path.join(folder, name)).st_uid
        except OSError:
            owner = None
        by_owner.setdefault(owner, []).append(name)
    chosen: list[str] = []
    for place, own in enumerate(sorted(by_owner.values(), key=len)):
        chosen += own[: (_MOST_FILES - len(chosen)) // (len(by_owner) - place)]
    return sorted(chosen)


def _verdict(content: bytes) -> tuple[str, str | None]:
    """(state, reason) of a file according to its header."""
    version = int.from_bytes(content[:4], "little")
    if version not in (0, *_VERSIONS):
        return "unsupported", f"its layout has version {version}, but this ttmem supports 2, 3 and 4; update ttmem"
    ready = int.from_bytes(content[_STATE_AT : _STATE_AT + 4], "little") if version >= 4 else _READY
    if len(content) < _SIZE or version == 0 or ready in _UNREADY:
        return "unready", "a process is creating it, or was stopped while creating it"
    if ready != _READY:
        return "garbage", f"its state is {ready:#x}, which is invalid"
    _, _, _, number, *totals = _HEADER.unpack_from(content)
    if max(totals) > _MOST_BYTES:
        return "garbage", f"no chip has {max(totals)} bytes"
    if number >= _MOST_CHIPS:
        return "garbage", f"no machine has a chip {number}"
    return "ok", None


def _slots(content: bytes) -> list[tuple[Any, ...]]:
    """The slots in use."""
    free = (0, _RELEASED) if content[0] >= 4 else (0,)
    places = enumerate(_PIDS.unpack_from(content, _SLOTS_AT))
    return [_SLOT.unpack_from(content, _SLOTS_AT + place * _SLOT.size) for place, pid in places if pid not in free]


def _balanced(content: bytes) -> bool:
    totals, slots = _HEADER.unpack_from(content)[4:8], _slots(content)
    return all(total == sum(slot[kind] for slot in slots) for kind, total in enumerate(totals, 1))


class _Processes:
    """Finds the owner of a slot: a process with that pid that existed at the last update and has the file mapped.

    A pid alone is not enough. It may have been reused; a process in a container writes its pid in the container; and
    any user can create a file with any pid. The mappings are certain, but reading them takes the memory lock of the
    process. So they are read at most once a minute, and once for a set of new files. They are read again because a
    process that executes another program keeps its pid and start time. If they cannot be read, a file of a third user
    is not trusted.
    """

    def __init__(self, root: str, patience: float, clock: Callable[[], float]) -> None:
        self._root = root
        self._proc = os.path.join(root, "proc")
        self._clock = clock
        self._patience = patience
        self._rounds, self._names = Rounds(patience), Rounds(patience)
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._booted: tuple[float, float | None] | None = None  # when it was read, and the time
        self._mapped: dict[tuple[int, int], _Mappings] = {}
        self._unseen = self._not_shown()

    def _not_shown(self) -> str:
        """The processes that this /proc does not show, as text."""
        try:
            if os.readlink(f"{self._proc}/self/ns/pid") != _INITIAL_NAMESPACE:
                return "; it may run outside the container that ttmem runs in"
        except OSError:
            return "; /proc cannot be read here" if self._proc == "/proc" else ""  # not for a test machine
        return (
            "" if os.path.exists(f"{self._proc}/1") else "; it may belong to another user, whose processes /proc hides"
        )

    def begin(self, holders: Iterable[HolderRow]) -> None:
        self._holders = {holder["pid"]: holder for holder in holders}
        # Read once per round, because a process may have a slot in many files.
        self._seen: dict[int, processes.Stat | None] = {}
        self._user_ids: dict[int, int | None] = {}
        self._users: dict[int, str | None] = {}
        self._read: set[int] = set()  # whose mappings were read
        self._left = 2 * self._patience  # a limit for all hanging reads together
        self._inner: dict[int, list[int]] = {}
        for pid, holder in self._holders.items():
            inner_pid = holder["inner_pid"]
            if inner_pid is not None and inner_pid != pid:
                self._inner.setdefault(inner_pid, []).append(pid)

    def end(self) -> None:
        alive = {(pid, seen[4]) for pid, seen in self._seen.items() if seen}
        self._mapped = {key: mappings for key, mappings in self._mapped.items() if key in alive}

    def find_owner(self, slot: CounterSlot, origin: _Origin) -> None:
        """Set the state of a slot, and its process in our own pid namespace."""
        pid, name, updated = slot["pid"], slot["name"], slot["updated"]
        holder = self._holders.get(pid)
        own = None if holder is None else holder["inner_pid"]
        if own in (None, pid):
            verdicts = {pid: self._fits(pid, name, updated, origin)}
        else:
            verdicts = {pid: ("reused", f"process {pid} would have written {own}, its pid in its own namespace")}
        for outer in self._inner.get(pid, ()):
            state, why = self._fits(outer, name, updated, origin)
            verdicts[outer] = state, why or f"it is {pid} in its own pid namespace"
        for wanted in ("live", "likely"):
            fitting = [outer for outer, (state, _) in verdicts.items() if state == wanted]
            if len(fitting) > 1:
                # tt-metal identifies processes by this pid only: all of them write to this slot.
                them = " and ".join(map(str, fitting))
                why = f"processes {them} share it: each is {pid} in its own pid namespace"
                slot["state"], slot["why"], slot["shared"] = "live", why, fitting
                return
            if fitting:
                slot["state"], slot["why"] = "live", verdicts[fitting[0]][1]
                self._identify(slot, fitting[0])
                return
        slot["state"], slot["why"] = verdicts[pid]
        if slot["state"] == "dead" and self._unseen and self._stat(pid) is None:
            slot["unsure"] = True

    def user_for_people(self, user_id: int | None) -> str:
        if user_id is None:
            return "its owner"
        name = self._user(user_id)
        return f"uid {user_id}" if name is None else f"{name} (uid {user_id})"

    def _identify(self, slot: CounterSlot, pid: int) -> None:
        seen, user_id = self._stat(pid), self._user_id(pid)
        slot["process"], slot["start"] = pid, seen[4] if seen else None
        slot["user_id"], slot["user"] = user_id, None if user_id is None else self._user(user_id)

    def _user_id(self, pid: int) -> int | None:
        if pid not in self._user_ids:
            self._user_ids[pid] = processes.owner(pid, self._root)[0]
        return self._user_ids[pid]

    def _user(self, user_id: int) -> str | None:
        """The name of a user. The lookup may query another machine, and hang."""
        if user_id not in self._users:
            self._users[user_id] = self._names.run({user_id: lambda: processes.user(user_id)})[user_id].value
        return self._users[user_id]

    def _fits(self, pid: int, name: str | None, updated: float | None, origin: _Origin) -> tuple[str, str | None]:
        """(live, likely, dead or reused; reason)."""
        seen = self._stat(pid)
        if seen is None:
            return "dead", f"there is no process {pid}{self._unseen}"
        comm, _, flags, _, start = seen
        if processes.is_dead(seen):
            return "dead", f"process {pid} has ended and is a zombie"
        if flags & processes.KERNEL_THREAD:
            return "reused", f"{pid} is now the kernel thread {comm}"
        if not origin.admits(self._user_id(pid)):
            return (
                "reused",
                f"process {pid} ({comm}) belongs to uid {self._user_id(pid)}, the file only to uid {origin.owner}",
            )
        booted = self._boot_time()
        # The kernel rounds boot time and start time down, so this start is never too late; one tick is added for
        # safety.
        if updated is not None and booted is not None and booted + (start - 1) / self._ticks > updated:
            return "reused", f"process {pid} ({comm}) started after the last update"
        mappings = self._mappings(pid, seen, origin.file)
        if origin.file in mappings.files:
            return "live", None
        if mappings.trouble is None:
            return "reused", f"process {pid} ({comm}) has not mapped this file"
        if updated is None or booted is None or name not in (None, comm) or not origin.trusted(self._user_id(pid)):
            return "reused", f"process {pid} is {comm}, and {mappings.trouble}"
        return "likely", f"process {pid} existed at the last update, but {mappings.trouble}"

    def _stat(self, pid: int) -> processes.Stat | None:
        if pid not in self._seen:
            self._seen[pid] = processes.stat(pid, self._root)
        return self._seen[pid]

    def _boot_time(self) -> float | None:
        """Boot time in seconds since 1970.

        It changes when the clock is set; reading it is slow on a machine with many cores.
        """
        now = self._clock()
        if self._booted is None or now - self._booted[0] >= _TRUSTED_SECONDS:
            content = processes.read(f"{self._proc}/stat", _MAX_STAT_BYTES) or b""
            found = re.search(rb"^btime ([0-9]+)$", content, re.MULTILINE)
            self._booted = now, float(found[1]) if found else None
        return self._booted[1]

    def _mappings(self, pid: int, seen: processes.Stat, file: File) -> _Mappings:
        """The mappings of a process, recent enough for this file."""
        key, now = (pid, seen[4]), self._clock()
        known = self._mapped.setdefault(key, _Mappings())
        wanted = known.hangs or now - known.at >= _TRUSTED_SECONDS or file not in known.files | known.asked
        if wanted:
            known.waiting.add(file)
        if wanted and pid not in self._read:
            self._read.add(pid)
            known.at = now
            self._rounds.patience = min(self._patience, max(_SHORT_SECONDS, self._left))
            known.take(self._rounds.run({key: lambda: _mapped_files(f"{self._proc}/{pid}", seen[1] == "Z")})[key])
            if known.hangs:
                self._left -= self._rounds.patience
            known.asked, known.waiting = (
                known.waiting | (known.asked if len(known.asked) < _MOST_FILES else set()),
                set(),
            )
        return known


class _Mappings:
    """The counters that a process has mapped, as far as that can be read."""

    def __init__(self) -> None:
        self.at = 0.0
        self.files: set[File] = set()
        self.asked: set[File] = set()  # a file that is neither here nor mapped is new,
        self.waiting: set[File] = set()  # and waits for the next read
        self.hangs = False
        self.trouble: str | None = None

    def take(self, outcome: Outcome) -> None:
        self.hangs = outcome.hangs
        if outcome.hangs:  # keep the old mappings until there is an answer
            self.trouble = f"its mappings could not be read for {outcome.age:.0f} s; it may hang"
        elif outcome.error:
            self.files = set()
            self.trouble = f"its mappings cannot be read ({getattr(outcome.error, 'strerror', outcome.error)})"
        else:
            self.files, self.trouble = outcome.value, None


def _mapped_files(process: str, headless: bool) -> set[File]:
    """The mapped counter files. If the first thread has ended, the other threads still show them."""
    threads = [f"{process}/task/{thread}" for thread in os.listdir(f"{process}/task")] if headless else [process]
    content = b""
    for thread in threads:
        with open(f"{thread}/maps", "rb", buffering=0) as file:
            content = content or file.readall()
    return {
        (os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in _MAPPING.findall(content)
    }
