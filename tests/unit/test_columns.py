# SPDX-License-Identifier: Apache-2.0
"""Byte columns: records become the same records again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.recording.blocks import RecordingError
from ttmem.recording.columns import FAILED, PHASES, packed, unpacked
from ttmem.wire.agent_ring import RECORD, RECORD_SIZE, RingEvent

FIRST = 1 << 40
RAW = st.lists(st.binary(min_size=RECORD_SIZE - 8, max_size=RECORD_SIZE - 8), max_size=20)


def records(parts: list[bytes]) -> bytes:
    return b"".join((FIRST + number).to_bytes(8, "little") + part for number, part in enumerate(parts))


@given(RAW)
def test_there_and_back(parts: list[bytes]) -> None:
    raw = records(parts)
    assert unpacked(packed(raw)[0], FIRST) == raw
    assert unpacked(packed(raw, sequences=True)[0], None) == raw


def test_equal_bytes_are_stored_once() -> None:
    columns, flags = packed(records([bytes(RECORD_SIZE - 8)] * 10_000))
    assert len(columns) < 100
    assert flags == 0


@pytest.mark.parametrize(
    ("event", "flags"),
    [(RingEvent.FAILED, FAILED), (RingEvent.PHASE_BEGAN, PHASES), (RingEvent.PHASE_ENDED, PHASES), (RingEvent.RUN, 0)],
)
def test_flags_say_what_a_block_has(event: RingEvent, flags: int) -> None:
    plain = RECORD.pack(FIRST, 1, RingEvent.ALLOCATED, *[0] * 13)
    assert packed(plain + RECORD.pack(FIRST + 1, 2, event, *[0] * 13))[1] == flags


@given(RAW.filter(bool), st.data())
def test_what_is_cut_is_refused(parts: list[bytes], data: st.DataObject) -> None:
    columns = packed(records(parts))[0]
    with pytest.raises(RecordingError):
        unpacked(columns[: data.draw(st.integers(0, len(columns) - 1))], FIRST)
