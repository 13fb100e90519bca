# SPDX-License-Identifier: Apache-2.0
"""The legacy stream decoder: any mixture of sizes in any chunking gives the records that were sent."""

from __future__ import annotations

import struct
from itertools import chain
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ttmem.wire.legacy_stream import LegacyStream

LAW = settings(max_examples=200, report_multiple_bugs=False)
LESS = settings(LAW, max_examples=100)
PID = 4242
SIZES = (72, 112, 128, 144)
QUERIES = (3, 6)
SHORT_OPS = (8, 9, 10, 11)

Fields = tuple[int, int, int, int, int, int, int]  # op, device, size, code, pid, id, timestamp


class Sent(NamedTuple):
    """A record as a client writes it. It is packed here, not by ttmem, which must give the same bytes."""

    fields: Fields
    length: int

    @property
    def raw(self) -> bytes:
        op, device, size, _, pid, ident, _ = self.fields
        if self.length == 32:
            return struct.pack("<B3xiQQi4x", op, device, size, ident, pid)
        return struct.pack("<B3xiQB3xiQQ", *self.fields).ljust(self.length, b"\0")


U64 = st.integers(0, 2**64 - 1)
SOME_U64 = st.sampled_from([0, 1, 3, 5, 12, 4096, PID, 1 << 32, 0x0005_0003_0002_0000, 2**64 - 1]) | U64
DEVICES = st.integers(-1, 8) | st.integers(-(2**31), 2**31 - 1)
# The 32-byte form is recognised by the position of the pid. An id with the pid in its upper half is not this form.
SHORT_IDS = SOME_U64.filter(lambda ident: ident >> 32 != PID)


def long_fields(pid: st.SearchStrategy[int]) -> st.SearchStrategy[Fields]:
    return st.tuples(st.integers(1, 12), DEVICES, SOME_U64, st.integers(0, 255), pid, SOME_U64, SOME_U64)


def short_fields(pid: int, idents: st.SearchStrategy[int]) -> st.SearchStrategy[Fields]:
    zero = st.just(0)
    return st.tuples(st.sampled_from(SHORT_OPS), DEVICES, SOME_U64, zero, st.just(pid), idents, zero)


LONG = st.builds(Sent, long_fields(st.just(PID)), st.sampled_from(SIZES))
QUESTION = st.tuples(st.sampled_from([3, 5, 6, 12]), st.integers(-1, 9), *[st.just(0)] * 5)
SHORT = st.builds(Sent, short_fields(PID, SHORT_IDS), st.just(32))
RECORDS = st.lists(LONG | LONG | SHORT | st.builds(Sent, QUESTION, st.sampled_from(SIZES)), max_size=12)
CUTS = st.lists(st.integers(1, 200), max_size=30)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes in pieces of these lengths, and the rest in one piece."""
    out = []
    for length in cuts:
        out.append(data[:length])
        data = data[length:]
    return [*out, data]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def decode(parts: list[bytes], pid: int = PID) -> tuple[list[Fields], LegacyStream]:
    """Every record of a connection, up to its end."""
    stream = LegacyStream()
    found = [record for part in parts for _, batch in stream.feed(part, pid) for record in batch]
    found += [record for _, batch in stream.finish(pid) for record in batch]
    return found, stream


def joined(records: list[Sent]) -> bytes:
    return b"".join(record.raw for record in records)


# -- whole streams -----------------------------------------------------------------------------------------------


@LAW
@given(RECORDS, CUTS)
@example(  # 32 bytes and a query's header look like one record of 72
    [Sent((1, 0, 64, 0, PID, 4096, 0), 72)] * 2 + [Sent((8, 0, 64, 0, PID, 1, 0), 32), Sent((3, 0, 0, 0, 0, 0, 0), 72)],
    [144],
)
def test_any_mixture_in_any_chunking(records: list[Sent], cuts: list[int]) -> None:
    data = joined(records)
    for parts in ([data], chunks(data, cuts), one_by_one(data)):
        found, stream = decode(parts)
        assert found == [record.fields for record in records]
        assert stream.rejected == 0


@LESS
@given(st.lists(LONG, min_size=1, max_size=3), st.sampled_from(SIZES), st.integers(1, 400), CUTS)
def test_many_records_of_one_size(some: list[Sent], length: int, count: int, cuts: list[int]) -> None:
    """So long that whole reads are decoded at once."""
    records = [record._replace(length=length) for record in some] * count
    for parts in ([joined(records)], chunks(joined(records), cuts)):
        found, stream = decode(parts)
        assert found == [record.fields for record in records]
        assert stream.rejected == 0


@LAW
@given(
    st.lists(st.builds(Sent, long_fields(st.integers(1, 2**31 - 1)), st.sampled_from(SIZES)), max_size=8),
    CUTS,
)
@example([Sent((8, 0, 4096, 0, 77, 0, 1), 144)], [])
def test_without_a_stamp_from_the_kernel(records: list[Sent], cuts: list[int]) -> None:
    """A process of another pid namespace: the stamp is 0, and the claimed pid is the pid in that namespace."""
    found, stream = decode(chunks(joined(records), cuts), pid=0)
    assert found == [record.fields for record in records]
    assert stream.rejected == 0


@LAW
@given(st.lists(st.builds(Sent, short_fields(77, st.integers(0, 2**32 - 1)), st.just(32)), max_size=8), CUTS)
@pytest.mark.parametrize("stamp", [0, PID])
def test_short_records_of_another_namespace(stamp: int, records: list[Sent], cuts: list[int]) -> None:
    """The claimed pid is not the stamp; a small id leaves only one possible position of a pid."""
    found, stream = decode(chunks(joined(records), cuts), pid=stamp)
    assert found == [record.fields for record in records]
    assert stream.rejected == 0


# -- garbage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize("count", [8, 40])
def test_a_byte_that_must_be_zero(count: int, length: int) -> None:
    """Each of them is noticed in a read of many records, and only the record with that byte can be damaged."""
    records = [Sent((1, 0, 64, 0, PID, 4096 * number, 0), length) for number in range(1, count + 1)]
    for offset in (1, 2, 3, 17, 18, 19, *range(40, length)):
        data = bytearray(joined(records))
        data[5 * length + offset] = 0x77
        found, stream = decode([bytes(data)])
        assert stream.rejected == 1, offset
        assert found == [record.fields for record in records if record is not records[5] or offset >= 40]


GARBAGE = st.binary(min_size=1, max_size=90) | st.lists(
    st.sampled_from([b"\0", b"\0\0\0", b"\x01", b"\x03", b"\x0a", b"\x0c\0\0\0", b"\xff", struct.pack("<i", PID)]),
    min_size=1, max_size=30,
).map(b"".join)  # fmt: skip
# Enough records for the decoder to synchronise: garbage can hide the start of what follows it.
BLOCK = st.lists(LONG | LONG | SHORT, min_size=6, max_size=8)
SWALLOWED = 4  # the length of long searches: three records, four if short ones are among them


def numbered(blocks: list[list[Sent]]) -> list[list[Sent]]:
    """Each record has its own size, which identifies it. Queries and dumps have no size and are replaced by frees."""
    out: list[list[Sent]] = []
    number = 0x4000_0000
    for block in blocks:
        out.append([])
        for (op, device, _, code, pid, ident, stamp), length in block:
            number += 1
            op = op if op in (1, 2, *SHORT_OPS) else 2
            out[-1].append(Sent((op, abs(device) % 1024, number, code, pid, ident, stamp), length))
    return out


@LAW
@given(st.lists(BLOCK, min_size=2, max_size=3), st.lists(GARBAGE, min_size=2, max_size=2), CUTS)
def test_garbage_between_records(blocks: list[list[Sent]], garbage: list[bytes], cuts: list[int]) -> None:
    blocks = numbered(blocks)
    data = joined(blocks[0])
    for junk, block in zip(garbage, blocks[1:]):
        data += junk + joined(block)
    found, stream = decode(chunks(data, cuts))

    true = {record.fields for record in chain.from_iterable(blocks)}
    for i, block in enumerate(blocks):
        here = [fields for fields in found if fields in {record.fields for record in block}]
        lost = len(block) - len(here)
        assert here == [record.fields for record in block][lost:]
        assert lost <= (SWALLOWED if i else 0)
    made_up = [fields for fields in found if fields not in true]
    if any(junk.strip(b"\0") for junk in garbage[: len(blocks) - 1]):
        assert stream.rejected or made_up


@LESS
@given(BLOCK, st.integers(1, 71), BLOCK)
def test_a_record_cut_short_by_its_sender(before: list[Sent], kept: int, after: list[Sent]) -> None:
    """Old clients send without blocking, and leave half a record when the socket is full."""
    before, after = numbered([before, after])
    cut = before[-1].raw[:kept].rstrip(b"\0")
    found, _ = decode([joined(before[:-1]) + cut + joined(after)])
    assert found[: len(before) - 1] == [record.fields for record in before[:-1]]
    assert found[-(len(after) - SWALLOWED) :] == [record.fields for record in after[SWALLOWED:]]


@LESS
@given(BLOCK, GARBAGE, BLOCK)
def test_garbage_from_another_namespace(before: list[Sent], junk: bytes, after: list[Sent]) -> None:
    """In a container every record claims a pid that is not the stamp, before the garbage and after it."""
    blocks = [
        [Sent((*record.fields[:4], 77, *record.fields[5:]), max(record.length, 72)) for record in block]
        for block in numbered([before, after])
    ]
    found, _ = decode([joined(blocks[0]) + b"\xff" + junk + joined(blocks[1])], pid=PID + 1)
    assert found[-(len(after) - SWALLOWED) :] == [record.fields for record in blocks[1][SWALLOWED:]]


@LAW
@given(st.binary(max_size=600) | st.lists(GARBAGE | LONG.map(lambda r: r.raw), max_size=8).map(b"".join), CUTS)
def test_arbitrary_bytes(data: bytes, cuts: list[int]) -> None:
    """No error, and the chunking has no effect."""
    found, stream = decode([data])
    for parts in (chunks(data, cuts), one_by_one(data)):
        again, other = decode(parts)
        assert again == found
        assert other.rejected == stream.rejected
    assert len(found) <= len(data) // 32
    if data.strip(b"\0"):
        assert found or stream.rejected


@LAW
@given(st.lists(st.tuples(st.binary(max_size=60), st.sampled_from([0, 1, PID])), max_size=20))
def test_arbitrary_bytes_of_several_processes(parts: list[tuple[bytes, int]]) -> None:
    stream = LegacyStream()
    for part, pid in parts:
        for _, batch in stream.feed(part, pid):
            list(batch)
    list(stream.finish(PID))


# -- replies -----------------------------------------------------------------------------------------------------

ASKED = st.tuples(st.sampled_from(QUERIES), st.integers(-1, 300), st.sampled_from([0, PID]))


def query(asked: tuple[int, int, int], length: int) -> Sent:
    op, device, pid = asked
    return Sent((op, device, 0, 0, pid, 0, 0), length)


def answers(stream: LegacyStream, parts: list[bytes]) -> list[tuple[int, Fields]]:
    """(size of the reply, query) of each query that is answered."""
    found = [(size, record) for part in parts for size, batch in stream.feed(part, PID) for record in batch]
    return [(size, record) for size, record in found if record[0] in QUERIES]


@pytest.mark.parametrize("length", SIZES)
@given(asked=st.lists(ASKED, min_size=1, max_size=4))
@LESS
def test_queries_sent_whole_are_answered_in_their_size(length: int, asked: list[tuple[int, int, int]]) -> None:
    """As every monitor does: one send, then it waits for a reply of exactly that size."""
    stream = LegacyStream()
    for one in asked:
        sent = query(one, length)
        assert answers(stream, [sent.raw]) == [(length, sent.fields)]
    assert list(stream.finish(PID)) == []


@pytest.mark.parametrize("length", SIZES)
@given(asked=st.lists(ASKED, min_size=1, max_size=4))
@LESS
def test_queries_sent_together(length: int, asked: list[tuple[int, int, int]]) -> None:
    sent = [query(one, length) for one in asked]
    assert answers(LegacyStream(), [joined(sent)]) == [(length, one.fields) for one in sent]


@LAW
@given(st.sampled_from(SIZES), st.lists(LONG, min_size=2, max_size=5), ASKED, CUTS)
@example(144, [Sent((1, 0, 64, 0, PID, 4096, 0), 0)] * 2, (3, 0, 0), [288, 72])
@example(128, [Sent((1, 0, 64, 0, PID, 4096, 0), 0)] * 2, (3, 0, 0), [256, 112])
def test_a_query_after_records_of_one_size(
    length: int, some: list[Sent], asked: tuple[int, int, int], cuts: list[int]
) -> None:
    """A process uses one build of the client, so its record size is known after the first record, for any chunking."""
    records = [record._replace(length=length) for record in some if record.fields[0] not in QUERIES]
    records += [Sent((1, 0, 64, 0, PID, 4096, 0), length)] * (2 - len(records))
    sent = query(asked, length)
    data = joined([*records, sent])
    for parts in ([data], chunks(data, cuts), one_by_one(data)):
        assert answers(LegacyStream(), parts) == [(length, sent.fields)]


# -- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", SIZES)
def test_finish_answers_a_query_that_was_held_back(length: int) -> None:
    sent = query((3, 0, PID), length)
    stream = LegacyStream()
    held = answers(stream, [sent.raw[:41], sent.raw[41:]])
    settled = [(size, record) for size, batch in stream.finish(PID) for record in batch]
    assert held + settled == [(length, sent.fields)]
    assert list(stream.finish(PID)) == []
    assert stream.rejected == 0


@LAW
@given(RECORDS, LONG | SHORT, st.integers(1, 31))
def test_finish_rejects_a_record_cut_off(records: list[Sent], last: Sent, kept: int) -> None:
    found, stream = decode([joined(records) + last.raw[:kept]])
    assert found == [record.fields for record in records]
    assert stream.rejected == 1


@pytest.mark.parametrize("data", [b"", b"\0", b"\0" * 1000])
def test_finish_of_nothing(data: bytes) -> None:
    found, stream = decode([data])
    assert (found, stream.rejected) == ([], 0)


def test_netcat() -> None:
    """``echo "" | nc -U socket`` sends one line feed, which is the type of a kernel load."""
    found, stream = decode([b"\n"])
    assert (found, stream.rejected) == ([], 1)
