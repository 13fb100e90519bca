# SPDX-License-Identifier: Apache-2.0
"""Native records: every event survives encoding and decoding, and bad bytes raise only NativeError."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.model import events as ev
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KINDS, Confidence, Kind
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import InvalidValue
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.client_decode import NativeStream, _mask_of_packed, decode
from ttmem.wire.client_encode import encode
from ttmem.wire.client_records import NativeError

LAW = settings(max_examples=200, report_multiple_bugs=False)

# -- events ------------------------------------------------------------------------------------------------------

NONE = st.none()
I32 = st.integers(-(2**31), 2**31 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
BANK_BYTES = st.integers(0, 1 << 40)
COUNT = st.integers(0, 1 << 48)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@st.composite
def core_sets(draw: st.DrawFn) -> int:
    """Any few rectangles of cores, or none."""
    corner = st.integers(0, 63)
    mask = 0
    for _ in range(draw(st.integers(0, 4))):
        (x0, x1), (y0, y1) = (sorted((draw(corner), draw(corner))) for _ in range(2))
        mask |= mask_of([CoreRange(x0, y0, x1, y1)])
    return mask


KIND = st.sampled_from(KINDS)
EXTRA = st.builds(
    ev.Extra,
    NONE | st.integers(0, ev.MAX_SIZE),
    core_sets(),
    U32,
    NONE | TEXT,
    st.booleans(),
    NONE | st.integers(0, 14),
    st.integers(0, 4095),
    st.booleans(),
    st.booleans(),
    NONE | TEXT,
    NONE | TEXT,
    st.booleans(),
    st.booleans(),
)
PAIR = st.tuples(BANK_BYTES, BANK_BYTES)
BANKS = st.integers(0, 1 << 16)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Any chip whose regions lie inside its memory."""
    l1_size = draw(st.integers(1, 1 << 30))
    l1_base = draw(st.integers(0, l1_size))
    bank_size = draw(BANK_BYTES)
    return Geometry(
        draw(st.sampled_from(Arch)), draw(st.integers(1, 64)), draw(st.integers(1, 64)), l1_size, l1_base,
        draw(st.integers(0, l1_base)), draw(BANKS), bank_size, draw(st.integers(0, l1_size - l1_base)),
        draw(st.integers(0, bank_size)), draw(st.booleans()),
    )  # fmt: skip


CHIP = st.builds(
    ChipInfo,
    TEXT.filter(bool),
    NONE | st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True),
    NONE | st.integers(0, 65535),
    st.sampled_from(Arch),
    NONE | TEXT,
    NONE | st.booleans(),
    NONE | geometries(),
)
EVENTS: dict[type, st.SearchStrategy[Any]] = {
    ev.Allocated: st.builds(ev.Allocated, I32, KIND, U64, U64, U64, U32, NONE | EXTRA, U64),
    ev.Freed: st.builds(ev.Freed, I32, NONE | KIND, U64, U64, U64, U32, core_sets(), U64),
    ev.ProgramRun: st.builds(ev.ProgramRun, I32, U64, core_sets()),
    ev.ProgramCompiled: st.builds(ev.ProgramCompiled, I32, U64, st.integers(0, 1 << 30), U64, NONE | TEXT, NONE | TEXT),
    ev.Described: st.builds(ev.Described, I32, KIND, U64, EXTRA, U64),
    ev.Failed: st.builds(ev.Failed, NONE | st.integers(0, 2**31 - 1), TEXT, NONE | TEXT, NONE | TEXT),
    ev.Sees: st.builds(ev.Sees, U64, NONE | TEXT),
    ev.Audited: st.builds(ev.Audited, I32, U32, PAIR, PAIR, PAIR, st.tuples(BANKS, BANKS), COUNT),
    ev.ProgramDestroyed: st.builds(ev.ProgramDestroyed, I32, U64),
    ev.DeviceOpened: st.builds(ev.DeviceOpened, I32, CHIP),
    ev.DeviceClosed: st.builds(ev.DeviceClosed, I32),
    ev.ChipFound: st.builds(ev.ChipFound, CHIP),
    ev.ResyncBegin: st.builds(ev.ResyncBegin, U64),
    ev.ResyncStep: st.builds(ev.ResyncStep, U64),
    ev.ResyncEnd: st.builds(ev.ResyncEnd, U64),
    ev.Lost: st.builds(ev.Lost, COUNT),
    ev.Uncertain: st.builds(ev.Uncertain, st.sampled_from(list(REASONS)), st.integers(1, 1 << 48)),
    ev.Rejected: st.builds(ev.Rejected, COUNT),
    ev.Claimed: st.builds(ev.Claimed, I32),
    ev.Mark: st.builds(ev.Mark, TEXT),
    ev.PhaseBegan: st.builds(ev.PhaseBegan, U64, TEXT, U64),
    ev.PhaseEnded: st.builds(ev.PhaseEnded, U64),
    ev.Viewed: st.builds(ev.Viewed, I32, U32, KIND, BANKS, BANK_BYTES, BANK_BYTES, BANK_BYTES),
    ev.ProcessExited: st.just(ev.ProcessExited()),
    ev.PeaksReset: st.just(ev.PeaksReset()),
}
EVENT = st.one_of(*EVENTS.values())
RING_ONLY = (ev.Sees, ev.Uncertain, ev.Audited, ev.Described, ev.Failed)
SERVER_ONLY = (ev.ChipFound, ev.Rejected, ev.Claimed, ev.ProcessExited, ev.PeaksReset, ev.ResyncStep, *RING_ONLY)
FROM_CLIENTS = st.one_of(*(EVENTS[kind] for kind in EVENTS if kind not in SERVER_ONLY))


def test_every_event_type_is_tried() -> None:
    """A workload has no record of its own: each of its programs has one. Only readers of rings make gaps."""
    assert set(EVENTS) == set(get_args(ev.Event)) - {ev.WorkloadRun, ev.GapBegan, ev.CaughtUp}


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(LAW, max_examples=60)
def test_round_trip(kind: type, data: st.DataObject) -> None:
    event = data.draw(EVENTS[kind])
    record = encode(event)
    again = decode(record)
    assert again == event
    assert type(again) is type(event)
    assert len(record) % 8 == 0
    assert int.from_bytes(record[2:4], "little") == len(record)
    assert record[0] > 12  # so that it is not mistaken for a legacy record


ABOUT_MESHES = (
    ev.Allocated,
    ev.Freed,
    ev.ProgramRun,
    ev.ProgramCompiled,
    ev.ProgramDestroyed,
    ev.DeviceClosed,
    ev.Viewed,
)
MESH = st.lists(st.integers(0, 1 << 20), min_size=2, max_size=40, unique=True).map(tuple)


@pytest.mark.parametrize("kind", ABOUT_MESHES, ids=lambda kind: kind.__name__)
@given(data=st.data(), mesh=MESH)
@settings(LAW, max_examples=60)
def test_round_trip_on_a_mesh(kind: type, data: st.DataObject, mesh: tuple[int, ...]) -> None:
    event = data.draw(EVENTS[kind])._replace(device=mesh)
    record = encode(event)
    assert decode(record) == event
    assert (record[0], len(record) % 8, int.from_bytes(record[2:4], "little")) == (native.ON_MESH, 0, len(record))
    assert list(NativeStream().feed(record)) == [record]


def test_a_mesh_that_cannot_be() -> None:
    event = ev.Freed((3, 4), Kind.DRAM, 0x1000)
    record = encode(event)
    with pytest.raises(NativeError, match="a mesh of 1 devices"):
        decode(record[:4] + (1).to_bytes(4, "little") + record[8:])
    with pytest.raises(NativeError, match=r"damaged|cannot be about a mesh"):
        decode(record[:4] + (200).to_bytes(4, "little") + record[8:])
    with pytest.raises(NativeError, match="cannot be about a mesh"):
        decode(record[:16] + bytes([native.MARK]) + record[17:])
    with pytest.raises(InvalidValue, match="device number"):
        decode(record[:8] + b"\xff" * 4 + record[12:])
    with pytest.raises(NativeError, match="is about one device"):
        encode(ev.DeviceOpened((0, 1), ChipInfo("7")))  # type: ignore[arg-type]
    with pytest.raises(NativeError, match="a mesh of 300 devices"):
        encode(event._replace(device=tuple(range(300))))


def test_every_field_of_an_extra_is_tried() -> None:
    """A field that is not tested could be lost on the wire without notice."""
    every = ev.Extra(
        1, 1, 1, "tag", True, 1, 1, True, True, "[1, 32]", "model.py:3 forward\nmain.py:9 main", True, True
    )
    assert all(every)
    event = ev.Allocated(0, Kind.L1, 1, 1, extra=every)
    assert decode(encode(event)) == event


def test_a_stack_that_nobody_has_numbered() -> None:
    """In a recording, a number may replace a stack. In a record from a client, such a number is invalid."""
    stacks = {7: "model.py:3 forward"}
    extra = ev.Extra(shape="[1]", stack=stacks[7])
    for event in (
        ev.Allocated(0, Kind.L1, 1, 1, extra=extra),
        ev.Described(0, Kind.L1, 1, extra),
        ev.ProgramCompiled(0, 1, 2, 3, "tag", extra.stack),
        ev.Failed(0, "it threw", "tag", extra.stack),
    ):
        record = encode(event, 7)
        assert b"model.py" not in record
        assert decode(record, stacks) == event
        with pytest.raises(NativeError, match="stack 7 is not defined"):
            decode(record)


def test_the_finest_pattern_of_cores() -> None:
    """A chequerboard needs the most rectangles."""
    mask = sum(1 << (y * 64 + x) for x in range(64) for y in range(64) if (x + y) % 2)
    for event in (
        ev.ProgramRun(0, 1, mask),
        ev.Freed(0, Kind.CB, 1, cores=mask),
        ev.Allocated(0, Kind.CB, 1, 1, extra=ev.Extra(cores=mask, tag="t" * native.MAX_TEXT_BYTES)),
    ):
        assert decode(encode(event)) == event


@LAW
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=200, max_size=400), st.integers(1, 4))
def test_long_texts_are_cut_between_characters(text: str, times: int) -> None:
    text = text * times
    tagged = ev.Allocated(0, Kind.L1, 1, 1, extra=ev.Extra(tag=text))
    marked = decode(encode(ev.Mark(text)))
    again = decode(encode(tagged))
    assert isinstance(marked, ev.Mark)
    assert isinstance(again, ev.Allocated)
    assert again.extra is not None
    assert again.extra.tag == marked.text
    assert text.startswith(marked.text)
    size = len(text.encode())
    assert min(size, native.MAX_TEXT_BYTES - 3) <= len(marked.text.encode()) <= native.MAX_TEXT_BYTES


# -- bad records -------------------------------------------------------------------------------------------------


def decoded(record: bytes) -> ev.Event | None:
    """The event, or None for invalid bytes. Any other error is a failure."""
    with suppress(NativeError, InvalidValue):
        return decode(record)
    return None


@LAW
@given(EVENT)
def test_truncated_records(event: ev.Event) -> None:
    record = encode(event)
    for length in range(len(record)):
        decoded(record[:length])


@LAW
@given(EVENT, st.data())
def test_damaged_records(event: ev.Event, data: st.DataObject) -> None:
    record = bytearray(encode(event))
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    decoded(bytes(record))


@LAW
@given(st.sampled_from([*range(0x80, 0x90), *range(0xA0, 0xA6), native.MAGIC]), st.binary(max_size=200))
def test_garbage(op: int, rest: bytes) -> None:
    """What can be decoded can be encoded again: the server records what it received."""
    event = decoded(bytes([op]) + rest)
    if event is not None:
        assert decode(encode(event)) == event


def with_body(op: int, body: bytes) -> bytes:
    length = (10 + len(body) + 7) & ~7
    head = bytes([op, 0]) + length.to_bytes(2, "little") + bytes(4) + len(body).to_bytes(2, "little")
    return (head + body).ljust(length, b"\0")


JSON = st.recursive(
    NONE | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=15,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "chip": TEXT | JSON, "pci": JSON, "kmd": JSON, "arch": st.integers(0, 4) | JSON, "board": JSON, "remote": JSON,
        "geometry": st.lists(st.integers(0, 4) | JSON, min_size=11, max_size=11) | JSON,
    },
)  # fmt: skip


@LAW
@given(st.sampled_from([native.DEVICE_OPENED, native.CHIP_FOUND]), FIELDS | JSON)
def test_a_chip_described_in_nonsense(op: int, fields: Any) -> None:
    event = decoded(with_body(op, json.dumps(fields).encode()))
    if event is not None:
        assert decode(encode(event)) == event


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 60_000, id="nested too deep"),
        pytest.param(b'{"chip":"a","kmd":' + b"9" * 5000 + b"}", id="a number too long"),
        pytest.param(b'{"chip":"a","kmd":1e999}', id="an infinite number"),
        pytest.param(b'{"chip":"a","geometry":[1]}', id="a geometry too short"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_chip_that_cannot_be(body: bytes) -> None:
    with pytest.raises(NativeError):
        decode(with_body(native.DEVICE_OPENED, body))


def test_a_chip_without_a_name() -> None:
    with pytest.raises(NativeError) as error:
        decode(with_body(native.DEVICE_OPENED, b"{}"))
    assert "is not known to version" not in str(error.value)  # the type is correct, but the name is missing
    assert "chip" in str(error.value)


def test_what_a_client_says_at_length_can_be_recorded() -> None:
    """Raw UTF-8 grows when it is escaped: it must still fit into the recording."""
    body = '{"chip":"a","board":"%s"}' % ("\u00e9" * 25_000)
    event = decoded(with_body(native.DEVICE_OPENED, body.encode()))
    if event is not None:
        assert decode(encode(event)) == event


@pytest.mark.parametrize("byte", [b"m", b"\xff", "\u00e9".encode()], ids=["plain", "not text", "two bytes"])
def test_a_long_text_is_cut_by_the_reader_too(byte: bytes) -> None:
    """Otherwise, an account that is replayed from the recording would have less data than the recorded one."""
    event = decode(with_body(native.MARK, byte * 10_001))
    assert isinstance(event, ev.Mark)
    size = len(event.text.encode())
    assert native.MAX_TEXT_BYTES - 3 <= size <= native.MAX_TEXT_BYTES
    assert event == decode(encode(event))


# -- hello and sync ----------------------------------------------------------------------------------------------


@LAW
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16).filter(lambda name: name != "legacy"),
    st.sampled_from(Confidence),
)
def test_hello(source: str, confidence: Confidence) -> None:
    record = handshake.hello(source, confidence)
    assert handshake.read_hello(record) == handshake.Hello(native.VERSION, source, confidence)
    assert list(NativeStream().feed(record)) == [record]


@LAW
@given(st.binary(max_size=80))
def test_hello_of_nonsense(rest: bytes) -> None:
    """A stream rejects anything shorter than 8 bytes."""
    for record in (
        native.MAGIC.to_bytes(1, "little") + rest.ljust(7, b"\0"),
        handshake.hello("x", Confidence.EXACT)[:8] + rest,
    ):
        with suppress(NativeError):
            handshake.read_hello(record)


def test_a_hello_from_the_future() -> None:
    record = bytearray(handshake.hello("agent", Confidence.EXACT))
    record[4] += 1
    with pytest.raises(NativeError, match=r"version 2 .* version 1"):
        handshake.read_hello(bytes(record))


@LAW
@given(U64)
def test_sync(token: int) -> None:
    assert handshake.sync_token(handshake.sync(token)) == token
    assert handshake.sync_token(handshake.synced(token)) == token
    assert list(NativeStream().feed(handshake.sync(token))) == [handshake.sync(token)]


# -- streams -----------------------------------------------------------------------------------------------------


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    out = []
    for length in cuts:
        out.append(data[:length])
        data = data[length:]
    return [*out, data]


def fed(parts: list[bytes]) -> tuple[list[bytes], str | None]:
    """The records, and the text of the error that ended the stream."""
    stream = NativeStream()
    records: list[bytes] = []
    for part in parts:
        try:
            for record in stream.feed(part):
                records.append(record)  # noqa: PERF402 (what came before an error counts)
        except NativeError as error:
            return records, str(error)
    return records, None


CUTS = st.lists(st.integers(1, 90), max_size=20)
HELLO = handshake.hello("client", Confidence.REPORTED)


@LAW
@given(st.lists(FROM_CLIENTS, max_size=8), CUTS)
def test_any_chunking(events: list[ev.Event], cuts: list[int]) -> None:
    records = [HELLO, *map(encode, events), handshake.sync(1)]
    data = b"".join(records)
    for parts in ([data], chunks(data, cuts), [data[i : i + 1] for i in range(len(data))]):
        assert fed(parts) == (records, None)


@LAW
@given(st.lists(FROM_CLIENTS, max_size=4), st.binary(min_size=8, max_size=40), CUTS)
def test_records_before_a_bad_one_are_not_lost(events: list[ev.Event], bad: bytes, cuts: list[int]) -> None:
    """Also if they arrived in the same read as the bad record."""
    records = [HELLO, *map(encode, events)]
    data = b"".join(records)
    bad = b"\x07" + bad  # a legacy type
    for parts in ([data + bad, b""], chunks(data + bad, cuts), [data, bad]):
        found, error = fed(parts)
        assert found == records
        assert error is not None


@LAW
@given(st.binary(max_size=300), CUTS)
def test_streams_of_nonsense(data: bytes, cuts: list[int]) -> None:
    for parts in ([data], chunks(data, cuts)):
        records, _ = fed(parts)
        assert data.startswith(b"".join(records))


def test_a_compiled_programs_tag_is_cut() -> None:
    long = native.body_record(native.PROGRAM_COMPILED, 0, json.dumps([1, 2, 3, "\u00e9" * 6000]).encode())
    event = decode(long)
    assert isinstance(event, ev.ProgramCompiled)
    assert event.tag == "\u00e9" * (native.MAX_TEXT_BYTES // 2)
    assert decode(encode(event._replace(tag="\u00e9" * 60_000))) == event


@pytest.mark.parametrize("numbers", [[10**400, 0, 0], [1, 10**400, 0], [1, 0, 1 << 64], [-1, 0, 0]])
def test_a_compiled_programs_numbers_have_a_size(numbers: list[int]) -> None:
    with pytest.raises(NativeError, match="64 bits"):
        decode(native.body_record(native.PROGRAM_COMPILED, 0, json.dumps([*numbers, None]).encode()))


def test_every_set_of_cores_can_be_sent() -> None:
    """The worst case: a chequerboard of all cores, and each core by itself."""
    chessboard = sum(1 << (64 * y + x) for y in range(64) for x in range(y % 2, 64, 2))
    event = ev.ProgramRun(0, 1, chessboard)
    assert decode(encode(event)) == event
    alone = [native.RANGE_FORM.pack(x, y, x, y) for y in range(64) for x in range(64)]
    assert _mask_of_packed(b"".join(alone)) == (1 << 4096) - 1


@pytest.mark.parametrize("last", [(1, 0, 63, 63), (0, 60_000, 63, 0)])
def test_ranges_that_name_cores_over_and_over_are_refused(
    last: tuple[int, int, int, int],
) -> None:
    """Merging them takes time, and one server does it for all clients."""
    for count in (100, 5000):
        ranges = native.RANGE_FORM.pack(0, 0, 63, 63) * count + native.RANGE_FORM.pack(*last)
        head = native.RUN_FORM.pack(native.PROGRAM_RUN, 0, native.RUN_FORM.size + len(ranges), 0, 1, count + 1, 0, 0)
        with pytest.raises(NativeError, match=r"more (cores )?than the 4096"):
            decode(head + ranges)
