# SPDX-License-Identifier: Apache-2.0
"""A tracker whose reports go directly into a ledger, encoded as records."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.account.allocations import Allocation
from ttmem.account.ledger import Ledger
from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.model.events import Event
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.sim.device import AnyDevice
from ttmem.sim.truth import held
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode


class Heard:
    """Replaces the client's sender, and acts as the server."""

    promising = False

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ledger = Ledger()
        self._source = self.ledger.source(0.0, ProcessInfo(1, 1), "sim", Confidence.EXACT)
        self.client = AllocationClient(enabled=True, source="sim", confidence=Confidence.EXACT)
        self.client._sender = self  # type: ignore[assignment]
        self.tracker = GraphTracker(self.client)

    def put(self, event: Event) -> None:
        event = decode(encode(event))
        self.events.append(event)
        self.ledger.apply(0.0, self._source, event)

    def stats(self) -> dict[str, int]:
        return {}

    @property
    def rejected(self) -> object:
        return self.client.stats()["rejected"]

    def used(self, chip_id: str, *kinds: Kind) -> int:
        """Bytes of these kinds on a chip, 0 if it was not reported."""
        chip = self.ledger.chips.get(chip_id)
        return sum(chip.kinds[kind].used for kind in kinds) if chip is not None else 0

    def allocations(self, kind: Kind) -> list[Allocation]:
        return [allocation for allocation in self.ledger.allocations() if allocation.kind is kind]

    def agrees_with(self, devices: Iterable[AnyDevice]) -> bool:
        """Whether the account equals the devices' own, without anomalies."""
        real = {chip_id: {k: n for k, n in one.used.items() if n} for chip_id, one in held(devices).items()}
        heard = {
            chip_id: {kind: chip.kinds[kind].used for kind in Kind if chip.kinds[kind].used}
            for chip_id, chip in self.ledger.chips.items()
        }
        assert not self.ledger.anomalies, self.ledger.anomalies
        assert not self.rejected
        assert {chip_id: used for chip_id, used in heard.items() if used} == real
        return True
