# SPDX-License-Identifier: Apache-2.0
"""The current snapshot: the account, alone or merged with the last state of the machine.

The account is captured at once. A thread builds the document from it, because that takes long on a large machine.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from ttmem.account.ledger import Ledger
from ttmem.documents import chip_matching as joins
from ttmem.documents import snapshot as snap
from ttmem.documents.cores import Cores
from ttmem.documents.differences import Differences
from ttmem.documents.merge import joined, merge
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.server.event_stream import EventStream
from ttmem.server.request import sees
from ttmem.sources.process_lookup import user

if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip, MachineLook
    from ttmem.model.schema import ServerFigures, Snapshot, SourceState

_LATE_SECONDS = 5.0  # after the last read of the machine
_SOURCES = ("sysfs", "processes", "shm")


class AccountSnapshots:
    """Captures the current account."""

    def __init__(
        self, ledger: Ledger, cores: Cores, feed: EventStream, clock: Clock, server: Callable[[], ServerFigures]
    ) -> None:
        """``server`` returns the figures of the server itself."""
        self._ledger = ledger
        self._cores = cores
        self._feed = feed
        self._clock = clock
        self._server = server

    def __call__(self, user_id: int | None = 0) -> Callable[[], Snapshot]:
        """Capture the account as this user may see it; returns a function that builds the snapshot in any thread."""
        server = self._server()
        return partial(
            snap.Moment(self._ledger, self._cores.physical).snapshot,
            time=rfc3339(self._clock.now(), digits=6),
            host=socket.gethostname(),
            server={
                "pid": server["pid"],
                "since": rfc3339(server["since"]),
                "events": self._ledger.seq,
                "version": server["version"],
                "clients": server["clients"],
                "lost_to_readers": self._feed.lost,
            },
            sources=[{"name": "server", "state": "ok", "detail": None}],
            user_of=user,
            may_see=sees(user_id),
        )


class CurrentSnapshot:
    """Merges the account with the last state of the machine, which the poller stores here.

    The API reads the snapshots.
    """

    def __init__(
        self,
        account: Callable[[int | None], Callable[[], Snapshot]],
        *,
        machine: bool,
        catch_up: Callable[[], None] = lambda: None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``account`` captures the account for a user, ``catch_up`` brings it up to date.

        Without ``machine`` there is nothing to merge: a snapshot is the account alone.
        """
        self.account = account
        self._machine = machine
        self._catch_up = catch_up
        self._warn = warn
        self._seen: MachineLook | None = None
        self._time = monotonic()
        self._trouble: str | None = None
        self._warned: str | None = None
        self._joins: dict[str, joins.Memory] = {}  # never changed, only replaced, because other threads read it
        self._differences = Differences()
        self._comparison: asyncio.Future[None] | None = None

    def merged(self, user_id: int | None) -> Callable[[], Snapshot]:
        """Capture the account; returns a function that builds the snapshot merged with the machine."""
        account = self.account(user_id)
        return lambda: self.merge(account(), user_id)

    def merge(self, snapshot: Snapshot, user_id: int | None) -> Snapshot:
        """Merge a snapshot of the account with the state of the machine. May be called from any thread."""
        if not self._machine:
            return snapshot
        seen, since = self._seen, monotonic() - self._time
        late = None
        if since > _LATE_SECONDS or seen is None:
            late = f"the machine was last read {since:.0f} s ago" if seen else "not read yet"
            late = f"{late}: {self._trouble}" if self._trouble else late
        if seen is None:
            return {**snapshot, "sources": [*snapshot["sources"], *_late(late)]}
        machine = aged(seen, since)
        if late:
            machine["sources"] = _late(late)
        return merge(
            snapshot, machine, before={**self._joins}, differing=self._differences.lasting, may_see=sees(user_id)
        )

    def chips(self) -> list[DriverChip]:
        """The driver's chips with their telemetry."""
        return [] if self._seen is None else aged(self._seen, monotonic() - self._time)["chips"]

    # -- called by the poller ------------------------------------------------------------------------------------

    def store(self, seen: MachineLook) -> None:
        """Store the current state of the machine."""
        self._seen, self._time, self._trouble = seen, monotonic(), None

    def failed(self, error: Exception) -> None:
        """The machine could not be read. The same failure is reported once, even if it occurs with every read."""
        self._trouble = f"{type(error).__name__}: {error}"
        if self._trouble != self._warned:
            self._warned = self._trouble
            self._warn(f"cannot read the machine: {self._trouble}")

    def compare(self, seen: MachineLook, began: float) -> None:
        """Match the chips, and compare tt-metal's counters with the account; called in a thread.

        ``began`` is the start of the read, by the monotonic clock.
        """
        running = self._comparison is not None and not self._comparison.done()
        if not running and (seen["processes"] or seen["shm"]):
            self._catch_up()
            account, ended = self.account(0), monotonic()
            loop = asyncio.get_running_loop()
            self._comparison = loop.run_in_executor(None, self._compare, seen, account, began, ended)

    @property
    def differs(self) -> bool:
        """Whether the counters differed from the account at the last comparison. Then they are read again soon."""
        return bool(self._differences.open)

    def _compare(self, seen: MachineLook, account: Callable[[], Snapshot], began: float, ended: float) -> None:
        try:
            snapshot = account()
            known = {**self._joins}
            joins.remember(known, joined(snapshot, seen, known), seen["chips"])
            self._joins = known
            tracked = {process["pid"] for process in snapshot["processes"] if process["state"] == "tracked"}
            counted = {slot["process"] for file in seen["shm"] for slot in file["slots"] if slot["state"] == "live"}
            merged = merge(snapshot, seen, before={**known}) if tracked & counted else snapshot
            self._differences.take(merged, seen["shm"], began, ended)
        except Exception as error:
            self.failed(error)


def aged(seen: MachineLook, seconds: float) -> MachineLook:
    """The state of the machine, with the current age of its telemetry."""
    chips: list[DriverChip] = []
    for chip in seen["chips"]:
        age = chip["telemetry"]["age_s"]
        now = None if age is None else age + round(seconds, 3)
        chips.append({**chip, "telemetry": {**chip["telemetry"], "age_s": now}})
    return {**seen, "chips": chips}


def _late(detail: str | None) -> list[SourceState]:
    return [{"name": name, "state": "late", "detail": detail} for name in _SOURCES]
