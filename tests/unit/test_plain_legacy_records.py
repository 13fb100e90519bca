# SPDX-License-Identifier: Apache-2.0
"""Plain records give the same account as records that are applied one by one, and others are left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.whole_account import everything, take_highs
from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.ingest import client_messages
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.plain_legacy_records import apply_plain
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.core_sets import core_id
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, PeaksReset, ProcessExited, ResyncBegin
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.legacy_records import Record, Type

PID = 42
CORE_WRITE = core_id(5, 3, 0x7000)
OPAQUE = 1 << 40 | 0x1000
LIMITS = Limits(allocations_per_process=7)


def record(op: int, address: int, size: int = 64, device: int = 0, code: int = 0, pid: int = PID) -> Record:
    return (int(op), device, size, code, pid, address, 0)


class Account:
    """A ledger that a client sends records to. If its events are observed, they are applied one by one."""

    def __init__(self, *, observed: bool = False, limits: Limits = LIMITS) -> None:
        self.ledger = Ledger(limits)
        self.time = 0.0
        self.sink = Sink(self.ledger, now=lambda: self.time)
        if observed:
            self.sink.add_observer(lambda *_: None)
        self.source = self.ledger.source(0.0, ProcessInfo(PID, 7), "legacy", Confidence.REPORTED)
        self._messages = ClientMessages(
            self.sink, Rings(self.sink), answer=lambda *_: None, dump=lambda op: None, machine=[], root="/"
        )
        self._connection: Any = SimpleNamespace(is_news=lambda cause: False, number=1, peer_pid=PID)

    def send(self, *records: Record) -> None:
        self.time += 1.0
        self._messages._legacy(self._connection, self.source, 144, iter(records), PID)

    def apply(self, event: Event) -> None:
        self.time += 1.0
        self.sink.apply(self.time, None if isinstance(event, PeaksReset) else self.source, event)

    def sample(self) -> list[int]:
        return take_highs(self.source)

    def picture(self) -> object:
        return everything(self.ledger, self.source)


records = st.builds(
    record,
    st.sampled_from([Type.ALLOC] * 5 + [Type.FREE] * 5 + [Type.CB_ALLOC, Type.QUERY]),
    st.sampled_from([0x1000, 0x2000, 0x3000, 0x4000, 0, CORE_WRITE, OPAQUE]),
    st.sampled_from([64] * 4 + [32, 4096, 0, 1 << 40]),
    st.sampled_from([0] * 6 + [1, 1, -1]),
    st.sampled_from([0] * 4 + [1, 1, 2, 3, 4, 5, 99]),
    st.sampled_from([PID] * 12 + [PID + 1]),
)
events: list[Event] = [PeaksReset(), DeviceOpened(1, ChipInfo("17716")), ProcessExited()]
acts = st.lists(st.lists(records, max_size=12) | st.sampled_from([*events, None]), max_size=12)


@settings(max_examples=300)
@given(acts, st.sampled_from([0, 0, 1, 3]))
def test_the_account_is_the_same_as_of_records_one_by_one(
    stream: list[list[Record] | Event | None], singly: int
) -> None:
    with mock.patch.object(client_messages, "_FEW", singly):
        _compare(stream)


def _compare(stream: list[list[Record] | Event | None]) -> None:
    plain, single = Account(), Account(observed=True)
    for act in stream:
        for account in (plain, single):
            if isinstance(act, list):
                account.send(*act)
            elif act is not None:
                account.apply(act)
        if act is None:
            assert plain.sample() == single.sample()
        assert plain.picture() == single.picture()


@pytest.fixture
def account() -> Account:
    """It has three buffers in DRAM, one in L1 and one in small L1, and has had others."""
    made = Account()
    made.send(
        record(Type.ALLOC, 0x9000, 4096), record(Type.FREE, 0x9000),
        record(Type.ALLOC, 0x9000, 4096, code=1), record(Type.FREE, 0x9000),
        record(Type.ALLOC, 0x1000), record(Type.ALLOC, 0x2000), record(Type.ALLOC, 0x2000, 32, code=1),
        record(Type.ALLOC, 0x3000), record(Type.ALLOC, 0x3000), record(Type.ALLOC, 0x4000, code=3),
    )  # fmt: skip
    return made


def test_plain_records_are_applied(account: Account) -> None:
    sent = [
        record(Type.ALLOC, 0x5000, 100), record(Type.ALLOC, OPAQUE, 10, code=1), record(Type.FREE, 0x1000),
        record(Type.FREE, 0x5000), record(Type.FREE, 0x2000, code=1), record(Type.FREE, 0x2000),
    ]  # fmt: skip
    assert apply_plain(account.ledger, 9.0, account.source, PID, iter(sent)) is None
    assert [one.address for one in account.ledger.allocations()] == [0x3000, 0x4000, OPAQUE]


@pytest.mark.parametrize(
    "special",
    [
        pytest.param(record(Type.ALLOC, 0x5000, 0), id="no size"),
        pytest.param(record(Type.ALLOC, 0x5000, 1 << 40), id="impossible size"),
        pytest.param(record(Type.ALLOC, 0), id="no address"),
        pytest.param(record(Type.ALLOC, 0x1000), id="the same place again"),
        pytest.param(record(Type.ALLOC, CORE_WRITE, code=1), id="write to one core"),
        pytest.param(record(Type.ALLOC, 0x5000, device=1), id="new device"),
        pytest.param(record(Type.ALLOC, 0x5000, device=-1), id="impossible device"),
        pytest.param(record(Type.ALLOC, 0x5000, code=4), id="new kind"),
        pytest.param(record(Type.ALLOC, 0x5000, code=5), id="impossible code"),
        pytest.param(record(Type.ALLOC, 0x5000, pid=PID + 1), id="claimed pid"),
        pytest.param(record(Type.FREE, 0x5000), id="unknown free"),
        pytest.param(record(Type.FREE, 0x2000), id="ambiguous free"),
        pytest.param(record(Type.FREE, 0x1000, code=1), id="wrong hint"),
        pytest.param(record(Type.FREE, 0x4000, code=1), id="another kind of the same space"),
        pytest.param(record(Type.FREE, 0x3000), id="two references"),
        pytest.param(record(Type.CB_ALLOC, 0x5000), id="no buffer"),
    ],
)
def test_other_records_are_returned_without_an_effect(account: Account, special: Record) -> None:
    before = account.picture()
    rest = iter([special, record(Type.FREE, 0x1000)])
    assert apply_plain(account.ledger, 9.0, account.source, PID, rest) is special
    assert account.picture() == before
    assert len(list(rest)) == 1


def test_no_more_allocations_than_allowed(account: Account) -> None:
    sent = [record(Type.ALLOC, 0x5000 + 64 * number) for number in range(3)]
    assert apply_plain(account.ledger, 9.0, account.source, PID, iter(sent)) is sent[2]
    assert account.ledger.live_count() == LIMITS.allocations_per_process


def test_nothing_is_plain_in_a_resync_or_after_the_exit(account: Account) -> None:
    for event in (ResyncBegin(2), ProcessExited()):
        account.apply(event)
        before = account.picture()
        sent = record(Type.FREE, 0x1000)
        assert apply_plain(account.ledger, 9.0, account.source, PID, iter([sent])) is sent
        assert account.picture() == before


def test_a_buffer_with_a_known_reserved_size_is_not_plain(account: Account) -> None:
    account.apply(Allocated(0, Kind.DRAM, 0x5000, 64, extra=Extra(reserved=128)))
    sent = record(Type.FREE, 0x5000)
    assert apply_plain(account.ledger, 9.0, account.source, PID, iter([sent])) is sent


def test_nothing_is_plain_of_a_source_whose_frees_have_kinds() -> None:
    ledger = Ledger()
    client = ledger.source(0.0, ProcessInfo(PID, 7), "client", Confidence.REPORTED)
    ledger.apply(0.0, client, Allocated(0, Kind.DRAM, 0x1000, 64))
    sent = record(Type.FREE, 0x1000)
    assert apply_plain(ledger, 1.0, client, PID, iter([sent])) is sent
