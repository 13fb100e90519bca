# SPDX-License-Identifier: Apache-2.0
"""Data that several checks use, read once: the machine, the processes on its devices, the server.

Nothing here opens a device or writes anything. ``root`` is the folder of the machine, for tests; paths that the user
named are used unchanged.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.doctor.endpoints import Endpoint, probe
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
_MAPPING_SECONDS = 0.25  # to read files of /proc that take the memory lock of the process


class User(NamedTuple):
    """A process that uses a device. Values that we may not read are None."""

    pid: int
    name: str
    environ: dict[str, str] | None  # at the start of the program
    agent: bool | None  # whether the agent is loaded
    metal: str | None  # the libtt_metal it has loaded, as a path that we can open
    hangs: bool = False  # so it cannot be examined

    @property
    def label(self) -> str:
        return f"pid {self.pid} ({self.name})"


class DoctorContext:
    """The data for checks; each part is read once, when it is first needed."""

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
        self._mute = False  # the server did not answer once, and is not asked again

    def path(self, absolute: str) -> str:
        """A path of the machine, below the root."""
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
        """Processes that hold a device, or are live in tt-metal's counters (mock devices have no holder)."""
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
        outcomes = Rounds(_MAPPING_SECONDS).run(wanted)
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
            # Through the root of the process: in a container the same path is another file.
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
        """The interpreter's ttnn, or why it cannot be found."""
        return locate(self.python, self.env)

    @cached_property
    def endpoints(self) -> list[Endpoint]:
        """Possible endpoints of a server, in the order in which clients try them."""
        if self.api is not None:
            return [probe(None, self.api, named=True)]
        path = self.env.get("TTMEM_SOCKET")
        return [probe(path, api_path(path))] if path else self._usual_endpoints()

    @cached_property
    def elsewhere(self) -> list[Endpoint]:
        """Other servers: on the default paths, which programs without our settings use."""
        if not (self.api or self.env.get("TTMEM_SOCKET")):
            return []
        known = {endpoint.pid for endpoint in self.endpoints}
        answering = [endpoint for endpoint in self._usual_endpoints() if endpoint.health is not None]
        return [endpoint for endpoint in answering if endpoint.pid not in known]

    def _usual_endpoints(self) -> list[Endpoint]:
        env = {name: value for name, value in self.env.items() if name != "TTMEM_SOCKET"}
        return [probe(path, api_path(path)) for path in map(self.path, search_paths(env))]

    @property
    def server(self) -> Endpoint | None:
        """The server that clients find."""
        return next((endpoint for endpoint in self.endpoints if endpoint.health is not None), None)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The server's snapshot; None if there is no server, or it does not answer."""
        answer: Snapshot | None = self.ask("/snapshot")
        return answer

    def ask(self, route: str) -> Any:
        """The answer of the server, None if there is none."""
        if self.server is None or self._mute:
            return None
        try:
            return get_json(route, socket_path=self.server.api, timeout=_SNAPSHOT_SECONDS)
        except (ApiError, ValueError):
            self._mute = True
            return None

    @property
    def reporting(self) -> set[int]:
        """The processes that report to the server."""
        processes = self.snapshot["processes"] if self.snapshot is not None else []
        return {process["pid"] for process in processes if process["state"] == "tracked" and process["pid"] is not None}


def _variables(environ: bytes) -> dict[str, str]:
    """Parse an environment block. If a name occurs twice, the first counts, as for getenv."""
    pairs = [entry.decode("utf-8", "replace").partition("=") for entry in environ.split(b"\0") if b"=" in entry]
    return {name: value for name, _, value in reversed(pairs)}
