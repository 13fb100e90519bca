# SPDX-License-Identifier: Apache-2.0
"""tt-metal's failure messages are parsed with all their numbers, in every wording; other text is not."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import ROOT
from ttmem.analyze import op_messages as refusals
from ttmem.analyze.failure_messages import find, parse
from ttmem.analyze.failure_types import BELOW, FIXED, Clash, Failure, OutOfMemory, RingFull, TooLittleL1
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind

LAW = settings(max_examples=40)

# From the source of tt-metal: release, name, text. {} stands for the numbers, in the order of the fields.
FORMATS = [line.split("\t") for line in (ROOT / "tests/data/explain/formats.txt").read_text().splitlines()]
HOLE = re.compile(r"\{[A-Z]*\}")
numbers = st.integers(0, 2**63)
small = st.integers(0, 63)
KINDS = {"DRAM": Kind.DRAM, "L1": Kind.L1, "L1_SMALL": Kind.L1_SMALL, "TRACE": Kind.TRACE}


def flat(failure: Any) -> list[int]:
    """The numeric fields, in order."""
    return [value for value in failure if type(value) is int]


@pytest.mark.parametrize(("release", "name", "text"), FORMATS)
@LAW
@given(data=st.data())
def test_every_number_survives(release: str, name: str, text: str, data: st.DataObject) -> None:
    filled: list[int] = []
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    x0, y0, dx, dy = (data.draw(st.integers(0, 31)) for _ in range(4))
    cores = CoreRange(x0, y0, x0 + dx, y0 + dy)
    written = data.draw(
        st.sampled_from(
            (
                f"[{x0}-{y0} - {cores.x1}-{cores.y1}]",
                f"[(x={x0},y={y0}) - (x={cores.x1},y={cores.y1})]",
            )
        )
    )

    def fill(hole: re.Match[str]) -> str:
        if hole[0] == "{}":
            filled.append(data.draw(numbers))
            return str(filled[-1])
        return {"{KIND}": kind, "{CORES}": written, "{SKIP}": "7", "{TEXT}": "{[0-0 - 1-1]}"}[hole[0]]

    message = HOLE.sub(fill, text)
    before, after = data.draw(
        st.tuples(st.sampled_from(("", "E   ", "| critical | ")), st.sampled_from(("", " (x.cpp:1)")))
    )
    wrapped = message.replace(" ", data.draw(st.sampled_from((" ", "\n", "  "))))
    failure = parse(before + wrapped + after)
    assert failure is not None
    assert type(failure).__name__ == name
    assert flat(failure) == filled
    if "{KIND}" in text:
        assert isinstance(failure, OutOfMemory)
        assert failure.kind is KINDS[kind]
        assert failure.dependent == ("dependencies" in text)
    if "{CORES}" in text:
        assert failure.cores == cores  # type: ignore[union-attr]
    if name in ("Clash", "Beyond"):
        assert failure.kind is (Kind.DFB if "dataflow" in text else Kind.CB)  # type: ignore[union-attr]
    if isinstance(failure, Clash):
        assert failure.service == ("service" in text)


def test_there_is_a_wording_for_each_failure() -> None:
    assert {name for _, name, _ in FORMATS} == {one.__name__ for one in get_args(Failure)}


pieces = st.sampled_from(sorted({word for _, _, text in FORMATS for word in text.split(" ")}))


@LAW
@given(
    st.one_of(
        st.text(), st.lists(pieces).map(" ".join), st.lists(st.sampled_from([t for _, _, t in FORMATS])).map("".join)
    )
)
def test_garbage_is_nothing_and_never_raises(text: str) -> None:
    assert parse(text) is None or re.search(r"\d", text)
    assert list(find(text * 2)) is not None


@LAW
@given(st.sampled_from([text for _, _, text in FORMATS]), st.data())
def test_half_a_message_is_none_of_it(text: str, data: st.DataObject) -> None:
    """Cut within the words that are the same in every release, it is not a message."""
    core = re.split(r" TENSIX| store \{\} B|, but bank size|\. Tried to|\. Allocation at|\. After", text)[0]
    core = core[: core.rfind("{}") + 2]
    message = HOLE.sub(lambda hole: {"{KIND}": "L1", "{CORES}": "[0-0 - 1-1]"}.get(hole[0], "12"), core)
    cut = data.draw(st.integers(0, min(len(message) - 3, message.rfind("12"))))
    assert parse(message[:cut]) is None


RESHAPE = "RM reshape dest staging does not fit in L1: need at least 1800080 B dest + 1200256 B source, have 760544 B"
HEADS = "Workload of Tiles 512 at Tile Size 2048 (times 2 for output) exceeds L1 capacity 1499136"


def test_numbers_that_make_up_one() -> None:
    assert parse(RESHAPE) == TooLittleL1("ttnn.reshape", 3000336, 760544, BELOW)
    assert parse(HEADS) == TooLittleL1("create_qkv_heads", 2 * 512 * 2048, 1499136, FIXED)


def test_every_refusal_of_an_operation_has_its_wording() -> None:
    """Otherwise, one of them would never be tested."""
    tried = [RESHAPE, HEADS, *(text for _, name, text in FORMATS if name == "TooLittleL1")]
    for form in refusals._FORMS:
        words = re.split("[#{<]", form.text)[0].strip()
        assert any(text.startswith(words) for text in tried), words


TABLE = """Program size (21152) too large for kernel config buffer (640) on TENSIX, 20512 B over:
  runtime args                 160 B
  semaphores                   0 B
  circular buffers             48 B
  dataflow buffers             0 B
  kernel text                  20944 B
    brisc                      4176 B
    trisc2                     2088 B
    text-sizing group, cores   {[0-0 - 7-7]}
    text-sizing group, kernels writer_no_bcast, reader_no_bcast"""
PARTS = (
    ("runtime args", 160), ("semaphores", 0), ("circular buffers", 48), ("dataflow buffers", 0), ("kernel text", 20944),
    ("brisc", 4176), ("trisc2", 2088),
)  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "E       ", "worker-3 | "])
@pytest.mark.parametrize("after", ["", " (assert.hpp:104)", "\nbacktrace:\n --- x.so(+0x1)"])
def test_the_table_of_the_ring(prefix: str, after: str) -> None:
    text = "\n".join(prefix + line for line in TABLE.splitlines()) + after
    assert parse(text) == RingFull(21152, 640, "TENSIX", PARTS, "writer_no_bcast, reader_no_bcast")


BEYOND = "Statically allocated circular buffers on core range [{}] grow to 1 B which is beyond max L1 size of 1 B"


@pytest.mark.parametrize(
    "text",
    [
        "Out of Memory: Not enough space to allocate 1 B L9 buffer across 1 banks, where each bank needs to store 1 B",
        BEYOND.format("7-0 - 0-0"),
        BEYOND.format("0-7 - 0-0"),
        BEYOND.format("0-0 - 99-0"),
        "torch.OutOfMemoryError: CUDA out of memory.",
        "Out of memory: Killed process 4711 (python)",
        "Program size (4096) too large for kernel config buffer",
    ],
)
def test_what_is_not_meant(text: str) -> None:
    assert parse(text) is None
    assert parse(f"{text}\nShrink size 1 cuts into allocated block at address 2") is not None


MESSAGE = (
    "Out of Memory: Not enough space to allocate 7000000 B L1 buffer across 7 banks, where each bank needs to store "
    "1000000 B, but bank size is 1393312 B (allocated: 614400 B, free: 778912 B, largest free block: 778912 B)."
)
FRAME = " --- tt::tt_metal::experimental::GlobalCircularBufferImpl::setup_cb_buffers(unsigned int)"


@pytest.mark.parametrize(
    ("after", "known"),
    [
        ("", False),
        (f"\nbacktrace:\n --- tt::tt_metal::Buffer::create()\n{FRAME}\n --- main", True),
        ("\nbacktrace:\n --- GlobalCircularBuffer", True),  # the part that the agent keeps
        (f" (assert.hpp:104)\nE   backtrace:\nE   {FRAME}\n", True),  # in the form that pytest prints
        ("\nbacktrace:\n --- main\nGlobalCircularBuffer", False),
        (f"\n{FRAME}", False),
        ("\nbacktrace:\n" + " --- x\n" * 40 + FRAME, False),
    ],
)
def test_a_global_circular_buffer_is_known_by_its_backtrace(after: str, known: bool) -> None:
    failure = parse(f"info:\n{MESSAGE}{after}")
    assert isinstance(failure, OutOfMemory)
    assert failure.global_circular is known
    assert failure._replace(global_circular=False) == parse(MESSAGE)
