# SPDX-License-Identifier: Apache-2.0
"""Logs of any length, with colours and other bytes: every failure once, with the line of its last occurrence."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import ROOT
from ttmem.analyze.failure_types import Clash, CutsInto, OutOfMemory
from ttmem.analyze.log_scanner import KEPT_FAILURES, LogScan, Mention

LAW = settings(max_examples=60)

LOG = (ROOT / "tests/data/explain/pipeline.log").read_bytes()


def scanned(data: bytes, piece: int = 1 << 16) -> LogScan:
    scan, file = LogScan(), io.BytesIO(data)
    while part := file.read(piece):
        scan.feed(part)
    scan.end()
    return scan


def cuts(number: int) -> bytes:
    return f"TT_FATAL: Shrink size {number} cuts into allocated block at address {2 * number}".encode()


def test_a_real_looking_log() -> None:
    out_of_memory, clash = scanned(LOG).mentions
    assert isinstance(out_of_memory.failure, OutOfMemory)
    assert (out_of_memory.line, out_of_memory.times, out_of_memory.failure.largest) == (5, 2, 522240)
    assert isinstance(clash.failure, Clash)
    assert (clash.line, clash.times, clash.failure.end) == (7, 1, 1250432)


@pytest.mark.parametrize("piece", [7, 1 << 16])
def test_a_message_that_is_logged_without_its_backtrace_and_thrown_with_one(piece: int) -> None:
    message = (
        b"Out of Memory: Not enough space to allocate 7 B L1 buffer across 7 banks, where each bank needs to store "
        b"1 B, but bank size is 5 B (allocated: 4 B, free: 1 B, largest free block: 1 B)."
    )
    thrown = message + b"\nbacktrace:\n --- a\n --- x::GlobalCircularBuffer::y()\n"
    for log in (message + b" (assert.hpp:104)\n" + thrown, thrown + message + b"\n"):
        (mention,) = scanned(log * 2, piece).mentions
        assert isinstance(mention.failure, OutOfMemory)
        assert (mention.failure.global_circular, mention.times) == (True, 4)


@LAW
@given(st.integers(1, 400))
def test_pieces_of_any_size(piece: int) -> None:
    assert scanned(LOG, piece).mentions == scanned(LOG).mentions


noise = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"\x1b[", b"\x1b[31m", b"\x1b", b"\r", b"\r\n", b"\n", b"\0", b"\xff\xfe", b"Out of Memory: ", b"\x1b]0;t\x07"]
    ),
)


@LAW
@given(st.lists(st.tuples(noise, st.integers(1, 9))), st.integers(1, 64))
def test_among_any_bytes(parts: list[tuple[bytes, int]], piece: int) -> None:
    """Each message on a separate line; the text between them must not end within a message."""
    data = b""
    expected: list[Mention] = []
    for junk, number in parts:
        data += junk + b"\x1b[0m\n" + cuts(number) + b"\n"
        line = data.count(b"\n")
        times = sum(other.failure == CutsInto(number, 2 * number) for other in expected) + 1
        expected.append(Mention(CutsInto(number, 2 * number), cuts(number).decode()[10:], line, times))
    last = {mention.failure: mention for mention in expected}
    found = {mention.failure: mention for mention in scanned(data, piece).mentions}
    assert found == last
    assert scanned(data, piece).mentions[-1:] == expected[-1:]


def test_a_colour_in_the_middle_of_a_message() -> None:
    text = b"Shrink size \x1b[1m1\x1b[0m cuts into \x1b[38;5;9mallocated block at address\x1b[m 2"
    for piece in range(1, len(text)):
        assert [mention.failure for mention in scanned(text, piece).mentions] == [CutsInto(1, 2)]


@pytest.mark.parametrize(
    "filler", [b"x" * 1000, b"tokens per second: 12.5\n" * 40, b"\x1b[" * 500, b"Out of Memory: Not enough " * 40]
)
def test_memory_is_bounded(filler: bytes) -> None:
    scan = LogScan()
    scan.feed(cuts(1))
    scan.feed(filler * 10)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(40):
        scan.feed(filler * 60)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    scan.feed(b"\n" + cuts(2))
    scan.end()
    assert [mention.failure for mention in scan.mentions] == [CutsInto(1, 2), CutsInto(2, 4)]
    assert after - before < 100_000
    assert peak - before < 20 * len(filler * 60)


def test_only_so_many_are_kept() -> None:
    found = scanned(b"\n".join(cuts(number) for number in range(1, KEPT_FAILURES + 11)))
    assert (len(found.mentions), found.dropped) == (KEPT_FAILURES, 10)
    assert found.mentions[-1].failure == CutsInto(KEPT_FAILURES + 10, 2 * (KEPT_FAILURES + 10))


@pytest.mark.parametrize("piece", [1000, 1 << 16])
def test_lines_far_apart(piece: int) -> None:
    """The distance between them is longer than any message, so each is found in a separate piece."""
    data = (b"step\r\n" * 2000 + cuts(1) + b"\r\n") + (b"step\n" * 3000 + cuts(2) + b"\n") + b"step\n" * 3000
    assert [(one.failure, one.line) for one in scanned(data, piece).mentions] == [
        (CutsInto(1, 2), 2001),
        (CutsInto(2, 4), 5002),
    ]
