# SPDX-License-Identifier: Apache-2.0
"""What several checks look at, looked at once: the machine, the processes on its devices, the server.

Nothing here opens a device or writes anything. ``root`` is where the machine lies, for tests in a folder; paths that
the user named are taken as they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.doctor.endpoints import Place, probe
from ttmem.doctor.locate import Wheel, locate
from ttmem.sources.machine import Machine
from ttmem.sources.polling import Rounds
from ttmem.wire.api_client import ApiError, get_json
from ttmem.wire.endpoint import api_path, search_paths

if TYPE_CHECKING:
    from ttmem.model.machine_rows import MachineLook
    from ttmem.model.schema import Snapshot

_METAL = re.compile(rb"\s(/[^\n]*/libtt_metal[^/\n]*\.so[^/\n]*)$", re.MULTILINE)
_SNAPSHOT_SECONDS = 1.0
_PATIENCE = 0.25  # seconds for what a process keeps in its own memory, which it may have locked


class User(NamedTuple):
    """A process that uses a device. What we may not read of it is None."""

    pid: int
    name: str
    environ: dict[str, str] | None  # as it was when the program was started
    agent: bool | None  # is ours loaded
    metal: str | None  # the libtt_metal it has loaded, as a path that we can open
    hangs: bool = False  # so that it cannot be looked into

    @property
    def label(self) -> str:
        return f"pid {self.pid} ({self.name})"


class DoctorContext:
    """Everything a check may look at."""

    def __init__(
        self,
        root: str = "/",
        env: Mapping[str, str] = os.environ,
        *,
        api: str | None = None,
        python: str | None = None,
        statvfs: Callable[[str], Any] = os.statvfs,
    ) -> None:
        self.root = root
        self.env = env
        self.api = api
        self.python = python or sys.executable
        self.statvfs = statvfs
        self._mute = False  # the server has let us wait once, and is not asked again

    def path(self, absolute: str) -> str:
        """Where a path of the machine is."""
        return os.path.join(self.root, absolute.lstrip("/"))

    def read(self, absolute: str) -> str | None:
        """The text of a small file, None if it cannot be read."""
        try:
            with open(self.path(absolute), encoding="utf-8", errors="replace") as file:
                return file.read(1 << 20).strip()
        except OSError:
            return None

    def number(self, absolute: str) -> int | None:
        text = self.read(absolute)
        return int(text) if text is not None and text.isdecimal() else None

    def listed(self, absolute: str) -> list[str] | None:
        """The names in a folder, None if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(absolute)))
        except OSError:
            return None

    @cached_property
    def machine(self) -> MachineLook:
        """Driver, chips, holders and tt-metal's counters."""
        machine = Machine(self.root)
        try:
            return machine.look()
        finally:
            machine.close()

    @cached_property
    def users(self) -> list[User]:
        """Who holds a device, and who is alive in tt-metal's counters: a mock device is held by nobody."""
        names = {process["pid"]: process["name"] for process in self.machine["processes"]}
        for file in self.machine["shm"]:
            for slot in file["slots"]:
                if slot["state"] == "live" and slot["process"] is not None:
                    names.setdefault(slot["process"], slot["name"])
        wanted = {
            (pid, file): partial(self._bytes, f"/proc/{pid}/{file}")
            for pid in names
            for file in ("environ", "maps")
            if pid
        }
        outcomes = Rounds(_PATIENCE).run(wanted)
        users = []
        for pid, name in sorted((pid, name) for pid, name in names.items() if pid):
            environ, maps = outcomes[pid, "environ"], outcomes[pid, "maps"]
            user = self._user(pid, name or "?", environ.value, maps.value)
            users.append(user._replace(hangs=environ.hangs or maps.hangs))
        return users

    def _user(self, pid: int, name: str, environ: bytes | None, maps: bytes | None) -> User:
        metal = _METAL.search(maps or b"")
        return User(
            pid,
            name,
            None if environ is None else _variables(environ),
            None if maps is None else b"/libttmem_agent" in maps or b"/memfd:ttmem" in maps,
            # Through its own root: a path in a container means another file here.
            self.path(f"/proc/{pid}/root{os.fsdecode(metal[1])}") if metal else None,
        )

    def _bytes(self, absolute: str) -> bytes | None:
        try:
            with open(self.path(absolute), "rb") as file:
                return file.read(1 << 24)
        except OSError:
            return None

    @cached_property
    def wheel(self) -> Wheel | str:
        """The interpreter's ttnn, or why it cannot be asked."""
        return locate(self.python, self.env)

    @cached_property
    def places(self) -> list[Place]:
        """Where a server may be, in the order in which clients look."""
        chosen = self.api or self.env.get("TTMEM_API")
        if chosen:
            return [probe(None, chosen, named=self.api is not None)]
        path = self.env.get("TTMEM_SOCKET")
        return [probe(path, api_path(path))] if path else self._usual_places()

    @cached_property
    def elsewhere(self) -> list[Place]:
        """Other servers, where programs look that were not told the place that we were told."""
        if not (self.api or self.env.get("TTMEM_API") or self.env.get("TTMEM_SOCKET")):
            return []
        known = {place.pid for place in self.places}
        return [place for place in self._usual_places() if place.health is not None and place.pid not in known]

    def _usual_places(self) -> list[Place]:
        env = {name: value for name, value in self.env.items() if name != "TTMEM_SOCKET"}
        return [probe(path, api_path(path)) for path in map(self.path, search_paths(env))]

    @property
    def server(self) -> Place | None:
        """The server that clients find."""
        return next((place for place in self.places if place.health is not None), None)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The server's snapshot; None if there is no server, or it does not answer."""
        answer: Snapshot | None = self.ask("/snapshot")
        return answer

    def ask(self, route: str) -> Any:
        """What the server answers, None if it does not."""
        if self.server is None or self._mute:
            return None
        try:
            return get_json(route, socket_path=self.server.api, timeout=_SNAPSHOT_SECONDS)
        except (ApiError, ValueError):
            self._mute = True
            return None

    @property
    def reporting(self) -> set[int]:
        """The processes that the server hears."""
        processes = self.snapshot["processes"] if self.snapshot is not None else []
        return {process["pid"] for process in processes if process["state"] == "tracked" and process["pid"] is not None}


def _variables(environ: bytes) -> dict[str, str]:
    """Of a name that is there twice the first counts, as for getenv."""
    pairs = [entry.decode("utf-8", "replace").partition("=") for entry in environ.split(b"\0") if b"=" in entry]
    return {name: value for name, _, value in reversed(pairs)}
