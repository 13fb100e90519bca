# SPDX-License-Identifier: Apache-2.0
"""Records of a client are applied in turns: what takes long is left for a later turn, and nothing is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.account.free_matching import place_of
from ttmem.account.ledger import Ledger
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.legacy_records import HEADER, Record, Type
from ttmem.wire.legacy_stream import LegacyStream

PID = 42
SIZE = 112


class Client:
    """A legacy client, and the server's side of its connection."""

    def __init__(self, *, observed: bool = False) -> None:
        self.ledger = Ledger()
        self.sink = Sink(self.ledger, now=lambda: 1.0)
        if observed:
            self.sink.add_observer(lambda *_: None)
        self.source = self.ledger.source(0.0, ProcessInfo(PID, 7), "legacy", Confidence.REPORTED)
        self.answered: list[int] = []
        self._messages = ClientMessages(
            self.sink, Rings(self.sink), answer=self._answer, dump=lambda op: None, machine=[], root="/"
        )
        self._peer: Any = SimpleNamespace(info=ProcessInfo(PID, 7), sources={"legacy": self.source})
        self.connection: Any = SimpleNamespace(
            legacy=LegacyStream(), native=None, pending=None, source_name="legacy", confidence=Confidence.REPORTED,
            number=1, peer_pid=PID, close_descriptors=lambda: None, is_news=lambda cause: False,
            reply=lambda data: True,
        )  # fmt: skip

    def _answer(self, record: Record, size: int) -> bytes:
        self.answered.append(self.ledger.live_count())
        return b""

    def send(self, *records: bytes, deadline: float) -> None:
        data = b"".join(one.ljust(SIZE, b"\0") for one in records)
        assert self._messages.take(self.connection, data, self._peer, PID, deadline)

    def turns(self, deadline: float = -1.0) -> int:
        """The turns until everything that was sent is applied. The time of each of them is over at once."""
        count = 0
        while self.connection.pending is not None:
            assert self.connection.pending(deadline)
            count += 1
        return count


def record(op: Type, address: int = 0, size: int = 64, device: int = 0) -> bytes:
    return HEADER.pack(op, device, size, 0, PID, address, 0)


@pytest.mark.parametrize("observed", [False, True])
def test_legacy_records_are_applied_in_turns(observed: bool) -> None:
    """A request is answered with the state at its place."""
    client = Client(observed=observed)
    ask = HEADER.pack(Type.QUERY, 0, 0, 0, 0, 0, 0)
    client.send(record(Type.ALLOC, 64), deadline=1e12)
    assert client.connection.pending is None
    half = [record(Type.FREE, 4096 * place) for place in range(1, 500)]  # of nothing
    client.send(record(Type.ALLOC, 128), *half, ask, *half, record(Type.ALLOC, 256), deadline=-1.0)
    assert client.ledger.anomalies["unknown_free"] < 100
    assert client.answered == []
    assert client.turns() > 10
    assert client.answered == [2]
    assert client.ledger.live_count() == 3
    assert client.ledger.anomalies["unknown_free"] == 2 * len(half)


def test_bytes_that_are_no_records_are_counted_in_each_turn() -> None:
    client = Client()
    client.send(record(Type.ALLOC, 64), deadline=1e12)
    frees = [record(Type.FREE, 4096) for _ in range(200)]
    client.send(*frees, b"\x42garbage" * 30, deadline=-1.0)
    assert client.turns() > 2
    assert client.ledger.anomalies["rejected"] > 0
    assert client.ledger.anomalies["unknown_free"] == 200


def test_buffers_without_an_address_are_found_by_size() -> None:
    """The youngest of the size is freed, else the youngest of all, and freed buffers are found no more."""
    client = Client()
    sizes = [64, 32, 64, 16, 32]
    client.send(*(record(Type.ALLOC, size=size) for size in sizes), deadline=1e12)
    (holding,) = client.source.holdings.values()
    left = list(sizes)
    for size, gone in ((64, 2), (99, 4), (64, 0), (64, 3), (32, 1)):
        client.send(record(Type.FREE, size=size), deadline=1e12)
        left[gone] = 0
        assert [one.size for one in holding.buffers.values()] == [size for size in left if size]
        assert holding.unplaced.keys() == holding.buffers.keys()
    assert holding.unplaced.youngest(place_of(holding, Kind.DRAM, None), 64) is None
    client.send(record(Type.FREE, size=64), deadline=1e12)
    assert client.ledger.anomalies["double_free"] == 1
