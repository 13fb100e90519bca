# SPDX-License-Identifier: Apache-2.0
"""A run's report: what is left and why, the figures as data, and the summary as text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.schema_conformance import problems
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents.run_document import BREAKDOWNS, LEAK, cause_of
from ttmem.model import schema
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    Lost,
    ProcessExited,
    Sees,
)
from ttmem.model.geometry import Arch, board_geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KERNEL_KINDS, KINDS, Confidence, Kind, Pool
from ttmem.recording.moment import ProgramAtMoment, account_of
from ttmem.run import result
from ttmem.run import session as collect
from ttmem.run.agent_listener import AgentListener
from ttmem.run.launch import Ended
from ttmem.run.result import RunResult, result_of
from ttmem.run.session import Session
from ttmem.show import run_text
from ttmem.show.text import Style, style_of

KIB = 1024
GEOMETRY = board_geometry("n150", Arch.WORMHOLE_B0)
PROGRAM_PARTS = {Kind.CB, Kind.DFB, Kind.SCRATCHPAD, *KERNEL_KINDS}


def render(document: schema.Run, by: Any = "op") -> str:
    """As `ttmem run` prints it into a pipe."""
    return run_text.render(document, style_of(sys.stderr), by)


class Story:
    """A run that is described, not executed."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.collector = Session(self.warnings.append)
        self._began = self.collector.clock.now() - 10

    def process(self, pid: int, chip_id: str = "4711") -> Source:
        source = self.collector.ledger.source(
            self._began, ProcessInfo(pid=pid, start=1, name="python"), "agent", Confidence.EXACT
        )
        self.tell(
            source,
            0,
            Sees((1 << Kind.FIRMWARE) - 1, None),
            DeviceOpened(0, ChipInfo(chip_id, board="n150", geometry=GEOMETRY)),
        )
        return source

    def tell(self, source: Source, after: float, *events: Event) -> None:
        for event in events:
            self.collector.ledger.apply(self._began + after, source, event)

    def ends(self, source: Source) -> None:
        """It closes its device while it holds allocations, and exits."""
        self.collector.keep_left(source)
        self.tell(source, 9, DeviceClosed(0), ProcessExited())

    def report(self, code: int = 0, unseen: dict[int, str] | None = None) -> RunResult:
        took = self.collector.clock.now() - self._began  # 10 s and the duration of the test
        return result_of(["python", "model.py"], Ended(code, took, unseen or {}), self.collector, "host")


def buffer(kind: Kind, address: int, kib: int, tag: str | None = None) -> Allocated:
    return Allocated(0, kind, address, kib * KIB, 0, 0, Extra(2 * kib * KIB, 0, 1, tag))


def part(kind: Kind, program: int, kib: int, tag: str | None = None, shared: bool = False) -> Allocated:
    return Allocated(0, kind, 0x19000, kib * KIB, program, 0, Extra(None, 0b11, 0, tag, shared))


@pytest.fixture
def story() -> Iterator[Story]:
    made = Story()
    with made.collector:
        yield made


@pytest.fixture
def told(story: Story) -> Story:
    """A peak in the middle, and at the end one tensor, one program and one buffer of a program."""
    one = story.process(42)
    story.tell(one, 1.001, buffer(Kind.DRAM, 0x1000, 64, "ttnn.zeros"), part(Kind.CB, 3, 8, "ttnn.add"))
    story.tell(one, 2.503, buffer(Kind.L1, 0x2000, 32, "ttnn.relu"), buffer(Kind.DRAM, 0x8000, 16))
    story.tell(one, 3.001, Freed(0, Kind.DRAM, 0x1000, 0, 0, 1), part(Kind.KERNEL, 4, 4, "reader (data: 9 B)"))
    story.tell(one, 4.001, Freed(0, Kind.L1, 0x2000, 0, 0, 1), buffer(Kind.L1_SMALL, 0x3000, 1))
    story.ends(one)
    return story


@pytest.mark.parametrize("kind", KINDS)
def test_causes(story: Story, kind: Kind) -> None:
    source = story.process(1)
    story.tell(source, 1, part(kind, 3, 1) if kind in PROGRAM_PARTS else buffer(kind, 0x1000, 1))
    (allocation,) = story.collector.ledger.allocations()
    expected = "program cache" if kind in PROGRAM_PARTS else "tensor"
    if kind in (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL, Kind.FIRMWARE):
        expected = "system"
    assert cause_of(allocation) == ("program cache, likely" if kind is Kind.L1_SMALL else expected)


def test_tensors_are_told_from_what_else_is_left(told: Story) -> None:
    report = told.report()
    left = report.document["left"]
    assert [(row["kind"], row["size"]) for row in left if row["cause"] == LEAK] == [("dram", 16 * KIB)]
    assert [row["size"] // KIB for row in left] == [16, 8, 4, 1]


def test_the_highest_of_a_pool_is_what_allocators_took(told: Story) -> None:
    report = told.report()
    assert report.reserved_peaks[Pool.DRAM] == 2 * 80 * KIB
    assert report.reserved_peaks[Pool.L1] == 2 * 32 * KIB


def test_the_highest_is_that_of_one_chip(story: Story) -> None:
    for pid, kib in ((1, 10), (2, 30), (3, 20)):
        story.tell(story.process(pid, str(pid)), 1, buffer(Kind.DRAM, 0x1000, kib))
    assert story.report().reserved_peaks[Pool.DRAM] == 2 * 30 * KIB


def test_the_data(told: Story) -> None:
    data = told.report(7).document
    assert json.loads(json.dumps(data)) == data
    assert problems(data, schema.Run) == []
    assert (data["schema"], data["exit_code"], round(data["duration_s"])) == ("ttmem.run/1", 7, 10)
    assert data["command"] == ["python", "model.py"]
    (peak,), (final,) = (data[snapshot]["chips"] for snapshot in ("peak", "final"))
    assert (peak["memory"]["dram"]["used"], peak["memory"]["l1"]["buffers"]) == (80 * KIB, 32 * KIB)
    assert (peak["memory"]["l1"]["cb"]["held"], peak["memory"]["l1"]["kernels"]) == (8 * KIB, 0)
    assert (final["memory"]["dram"]["used"], final["memory"]["l1"]["buffers"]) == (16 * KIB, 0)
    assert (final["memory"]["l1"]["cb"]["held"], final["memory"]["l1"]["kernels"]) == (8 * KIB, 4 * KIB)
    assert [(allocation["kind"], allocation["cause"]) for allocation in data["left"]] == [
        *(("dram", "tensor"), ("cb", "program cache"), ("kernel", "program cache")),
        ("l1_small", "program cache, likely"),
    ]


def test_the_document_has_the_figures_of_each_chip(told: Story) -> None:
    (chip,) = told.report().document["chips"]
    assert (chip["chip"], chip["board"], chip["arch"]) == ("4711", "n150", "wormhole_b0")
    assert chip["kinds"] == {
        "dram": {"peak": 80 * KIB, "peak_at_most": None, "end": 16 * KIB},
        "l1": {"peak": 32 * KIB, "peak_at_most": None, "end": 0},
        "l1_small": {"peak": KIB, "peak_at_most": None, "end": KIB},
        "cb": {"peak": 8 * KIB, "peak_at_most": None, "end": 8 * KIB},
        "kernel": {"peak": 4 * KIB, "peak_at_most": None, "end": 4 * KIB},
    }
    assert (chip["dram"]["reserved_peak"], chip["dram"]["reserved_end"]) == (160 * KIB, 32 * KIB)
    assert (chip["l1"]["reserved_peak"], chip["l1"]["reserved_end"]) == (64 * KIB, 2 * KIB)
    assert GEOMETRY is not None
    assert chip["dram"]["buffer_capacity"] == GEOMETRY.dram_capacity


def test_the_peak_is_broken_down_in_every_way_that_can_be_shown(told: Story) -> None:
    document: Any = told.report().document
    assert list(document["breakdown"]) == list(BREAKDOWNS)
    sizes = {"dram": 80 * KIB, "l1_buffers": 32 * KIB, "programs": 8 * KIB}
    for by, pools in document["breakdown"].items():
        assert {pool["pool"]: pool["bytes"] for pool in pools} == sizes
        for pool in pools:
            assert sum(row["bytes"] for row in pool["rows"]) == pool["bytes"]
            assert all(by in row for row in pool["rows"])
    assert round(document["peak_time"] - document["started"], 1) == 2.5
    assert round(document["ended"] - document["started"], 3) == round(document["duration_s"], 3)


@pytest.mark.parametrize("by", BREAKDOWNS)
def test_the_text_of_a_document_that_was_written_and_read(told: Story, by: str) -> None:
    document = told.report().document
    assert render(json.loads(json.dumps(document)), by) == render(document, by)


def test_the_accounts_of_the_past_are_folded_once(told: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    fold = account_of

    def counting(allocations: list[Allocation], programs: list[ProgramAtMoment]) -> Ledger:
        folded.append(len(allocations))
        return fold(allocations, programs)

    monkeypatch.setattr(result, "account_of", counting)
    report = told.report()
    for by in BREAKDOWNS:
        render(report.document, by)
    assert len(folded) == 2, "the peak and the end"


def test_processes_that_end_one_after_the_other_all_count(story: Story) -> None:
    for pid in (1, 2):
        source = story.process(pid)
        story.tell(source, pid, buffer(Kind.DRAM, 0x1000, 10 * pid))
        story.ends(source)
    data = story.report().document
    assert [(allocation["pid"], allocation["size"] // KIB) for allocation in data["left"]] == [(2, 20), (1, 10)]
    assert data["peak"]["chips"][0]["memory"]["dram"]["used"] == 20 * KIB


def test_lines_of_a_list_begin_in_one_column(story: Story) -> None:
    source = story.process(1)
    made = [("ttnn.relu", "m.py:1 f"), ("ttnn.matmul", "m.py:2 f"), ("a name without a line", None)]
    for place, (tag, line) in enumerate(made, 1):
        extra = Extra(tag=tag, stack=line)
        story.tell(source, 1, Allocated(0, Kind.L1, 0x1000 * place, place * KIB, extra=extra))
    story.ends(source)
    lines = [line for line in render(story.report().document).splitlines() if "  m.py:" in line and " 0x" in line]
    assert len(lines) == 4, "at the peak, and at the end"
    assert len({line.index("m.py:") for line in lines}) == 1


def test_the_summary(told: Story) -> None:
    assert render(told.report().document).splitlines() == [
        "",
        "ttmem run: exit 0 after 10.0 s; 0 records, none lost; not audited",
        "",
        "n150 chip 0 (id 4711)",
        "  sum of cores or banks         peak  at the end",
        "  DRAM buffers              80.0 KiB    16.0 KiB",
        "  L1 buffers                32.0 KiB         0 B",
        "  L1_SMALL buffers           1.0 KiB     1.0 KiB",
        "  circular buffers           8.0 KiB     8.0 KiB   of all cached programs, which use L1 in turn",
        "  kernels                    4.0 KiB     4.0 KiB   of all cached programs, which use L1 in turn",
        "  DRAM reserved            160.0 KiB    32.0 KiB   peak is 0.0013 % of 12.0 GiB",
        "  L1 reserved by buffers    64.0 KiB     2.0 KiB   peak is 0.073 % of 85.0 MiB",
        "  at the peak of DRAM buffers, 80.0 KiB after 2.50 s, the largest were:",
        "      64.0 KiB  DRAM buffer      0x1000     ttnn.zeros",
        "      16.0 KiB  DRAM buffer      0x8000",
        "  at the peak of L1 buffers, 32.0 KiB after 2.50 s, the largest were:",
        "      32.0 KiB  L1 buffer        0x2000     ttnn.relu",
        "",
        "what was live at the peak of the buffers, after 2.50 s, by operation:",
        "  DRAM: 80.0 KiB in 2 allocations",
        "        SIZE  COUNT  OPERATION",
        "    64.0 KiB      1  ttnn.zeros",
        "    16.0 KiB      1  no ttnn operation",
        "",
        "  L1 buffers: 32.0 KiB in 1 allocation, sum over all cores",
        "        SIZE  COUNT  OPERATION",
        "    32.0 KiB      1  ttnn.relu",
        "",
        "  cached programs, which use L1 in turn: 8.0 KiB in 1 allocation, sum over all cores",
        "        SIZE  COUNT  OPERATION",
        "     8.0 KiB      1  ttnn.add",
        "",
        "left at the end: 16.0 KiB of DRAM in 1 allocation, 1.0 KiB of L1 (sum over all cores) in 1",
        "    allocation, 12.0 KiB of programs that use L1 in turn (sum over all cores) in 2 allocations",
        "  tensors: 16.0 KiB of DRAM in 1 buffer; never freed; largest:",
        "      16.0 KiB  DRAM buffer      0x8000",
        "  program cache: 12.0 KiB of programs that use L1 in turn (sum over all cores) in 2 allocations;",
        "      clear_program_cache() frees them",
        "  program cache, likely: 1.0 KiB of L1 (sum over all cores) in 1 allocation; clear_program_cache()",
        "      frees them",
        "",
        "Anomalies: none",
    ]


def test_the_summary_in_colour(story: Story) -> None:
    """Headings are bold; pools that are nearly full, leaks and failed allocations stand out. Nothing else changes."""
    source = story.process(1)
    assert GEOMETRY is not None
    for kind, address, size, taken in (
        (Kind.DRAM, 0x1000, 64 * KIB, int(0.8 * GEOMETRY.dram_capacity)),
        (Kind.L1, 0x2000, 32 * KIB, int(0.99 * GEOMETRY.cores * (GEOMETRY.l1_size - GEOMETRY.l1_base))),
    ):
        story.tell(source, 1, Allocated(0, kind, address, size, extra=Extra(taken, tag="\x1b[2Jevil")))
    story.tell(source, 2, refused(500_000))
    story.ends(source)
    document = story.report(1).document
    shown = run_text.render(document, Style(colour=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == run_text.render(document, Style())
    assert "\x1b" not in run_text.render(document, Style())
    for start in (
        "\x1b[1mttmem run: exit 1", "\x1b[1mn150 chip 0 (id 4711)", "\x1b[33m  DRAM reserved",
        "\x1b[31m  L1 reserved by buffers",
        "\x1b[1mleft at the end:", "\x1b[33m  tensors:", "\x1b[31mout of memory: ", "\x1b[33mheld by",
    ):  # fmt: skip
        assert f"\n{start}" in shown, start
    assert "\n  \x1b[1mpossible fixes" in shown


def test_many_tensors_are_cut_short(story: Story) -> None:
    source = story.process(1)
    story.tell(source, 1, *(buffer(Kind.DRAM, 0x1000 * number, number) for number in range(1, 9)))
    story.ends(source)
    lines = render(story.report().document).splitlines()
    at = lines.index("  tensors: 36.0 KiB of DRAM in 8 buffers; never freed; largest:")
    assert [line.split()[0] for line in lines[at + 1 : at + 6]] == ["8.0", "7.0", "6.0", "5.0", "4.0"]
    assert lines[at + 6] == "    and 6.0 KiB of DRAM in 3 more buffers"


def test_what_leaks_in_a_loop_is_one_line(story: Story) -> None:
    source = story.process(1)
    story.tell(source, 1, *(buffer(Kind.DRAM, 0x1000 * number, 2, "ttnn.add") for number in range(1, 501)))
    story.tell(source, 2, buffer(Kind.DRAM, 0xA00000, 9, "ttnn.zeros"))
    story.ends(source)
    lines = render(story.report().document).splitlines()
    at = lines.index("  tensors: 1009.0 KiB of DRAM in 501 buffers; never freed; largest:")
    assert lines[at + 1 : at + 4] == [
        "    1000.0 KiB  DRAM buffer      500 x      ttnn.add",
        "       9.0 KiB  DRAM buffer      0xa00000   ttnn.zeros",
        "",
    ]


def test_two_chips_that_are_no_mesh(story: Story) -> None:
    """Each has a different buffer, although the buffers are equal."""
    source = mesh(story, 1)
    story.tell(source, 1, DeviceOpened(1, ChipInfo("9", board="n150", geometry=GEOMETRY)))
    story.tell(source, 2, buffer(Kind.DRAM, 0x7000, 64, "ttnn.ones")._replace(device=1))
    story.ends(source)
    lines = render(story.report().document).splitlines()
    assert "      64.0 KiB  DRAM buffer      1 x        ttnn.ones  on each of 2 chips" in lines


def test_what_lies_inside_a_tensor_is_not_added(story: Story) -> None:
    source = story.process(1)
    story.tell(source, 1, buffer(Kind.L1, 0x1000, 10), part(Kind.CB, 3, 10, shared=True))
    story.ends(source)
    report = story.report()
    text = " ".join(render(report.document).split())
    assert (
        "left at the end: 10.0 KiB of L1 (sum over all cores) in 1 allocation, 0 B of programs that use L1 in turn "
        "(sum over all cores) in 1 allocation tensors: "
    ) in text
    assert report.document["final"]["chips"][0]["memory"]["l1"]["cb"]["held"] == 0


def test_what_was_left_at_an_earlier_closing_of_a_device(story: Story) -> None:
    """It is summed by pool. Allocations that were left at the last closing are not included; they are listed."""
    source = story.process(1)
    listener = AgentListener(source, cast(Any, None), story.collector.keep_left)
    story.collector.agents.append(listener)
    first = [(Kind.DRAM, 0x1000, 4), (Kind.L1, 0x2000, 2), (Kind.L1, 0x3000, 1)]
    for held in (first, [(Kind.DRAM, 0x1000, 8)]):
        story.tell(source, 1, *(buffer(kind, address, kib) for kind, address, kib in held))
        listener.closing()
        for kind, address, kib in held:
            story.tell(source, 2, Freed(0, kind, address, 0, 0, 1))
            listener.freed_by_close(kind, kib * KIB)
    report = story.report()
    assert problems(report.document, schema.Run) == []
    l1 = {"count": 2, "bytes": 3 * KIB}
    pools = {"dram": {"count": 1, "bytes": 4 * KIB}, "l1_buffers": l1}
    assert report.document["left_earlier"] == {"tensors": 3, "pools": pools}
    assert [(row["size"], row["cause"]) for row in report.document["left"]] == [(8 * KIB, LEAK)]
    text = " ".join(render(report.document).split())
    assert (
        "left when devices were closed before that: 4.0 KiB of DRAM in 1 tensor, 3.0 KiB of L1 (sum over all cores) in "
        "2 tensors left at the end: 8.0 KiB of DRAM in 1 allocation "
    ) in text


def test_nothing_left(story: Story) -> None:
    source = story.process(1)
    story.tell(source, 1, buffer(Kind.L1, 0x1000, 10), Freed(0, Kind.L1, 0x1000, 0, 0, 1))
    story.ends(source)
    report = story.report()
    assert "left at the end: nothing" in render(report.document).splitlines()
    assert (report.document["left"], report.document["final"]["chips"]) == ([], [])


def test_no_device(story: Story) -> None:
    assert render(story.report(3).document).splitlines()[1:] == [
        "ttmem run: exit 3 after 10.0 s; 0 records, none lost; not audited",
        *("", "No process of this command was seen to open a device.", "", "Anomalies: none"),
    ]


def test_devices_that_nobody_could_see(story: Story) -> None:
    lines = render(story.report(unseen={77: "python"}).document).splitlines()
    assert "Nothing was seen of the devices that were used." in lines
    assert lines[-1].startswith("pid 77 (python) used a device through tt-metal and the agent saw nothing of it:")
    assert story.report(unseen={77: "python"}).document["unseen"] == [{"pid": 77, "name": "python"}]


def test_trouble_and_losses_are_told(story: Story) -> None:
    source = story.process(1)
    story.tell(
        source, 1, Sees(1, "no kernels: this wheel hides them\nno scratchpads"), buffer(Kind.DRAM, 1, 1), Lost(5)
    )
    story.collector.rings.lost = 5
    lines = render(story.report().document).splitlines()
    assert lines[1] == "ttmem run: exit 0 after 10.0 s; 0 records, 5 lost; not audited"
    assert "Anomalies: dropped events 5" in lines
    assert any(line.startswith("5 records were overwritten before they could be read") for line in lines)
    assert [line for line in lines if line.startswith("The agent says:")] == [
        "The agent says: no kernels: this wheel hides them",
        "The agent says: no scratchpads",
    ]


# -- meshes ---------------------------------------------------------------------------------------------------------


def mesh(story: Story, chips: int) -> Source:
    """A process that has opened several chips, with the same allocations on each."""
    source = story.process(1, "4710")
    for number in range(1, chips):
        story.tell(source, 0, DeviceOpened(number, ChipInfo(str(4710 + number), board="n150", geometry=GEOMETRY)))
    for number in range(chips):
        story.tell(source, 1, buffer(Kind.DRAM, 0x1000, 64, "ttnn.ones")._replace(device=number))
        story.tell(source, 2, buffer(Kind.DRAM, 0x9000, 32, "ttnn.add")._replace(device=number))
    return source


def test_what_is_the_same_on_each_chip_of_a_mesh_is_told_once(story: Story) -> None:
    source = mesh(story, 32)
    story.ends(source)
    lines = render(story.report().document).splitlines()
    assert lines[3] == "n150 chips 0-31: the same on each of 32 chips"
    assert lines[4].startswith("  ids 4710, 4711, ")
    assert sum(line.lstrip().startswith("DRAM buffers ") for line in lines) == 1
    assert "what was live at the peak of the buffers, after 2.00 s, by operation:" in lines
    at = lines.index("  DRAM: 3.0 MiB on 32 chips (96.0 KiB per chip) in 64 allocations")
    assert lines[at + 2].split() == ["2.0", "MiB", "64.0", "KiB", "32", "32", "ttnn.ones"]
    at = lines.index("  tensors: 3.0 MiB of DRAM on 32 chips (96.0 KiB per chip) in 64 buffers; never freed; largest:")
    assert lines[at + 1 : at + 3] == [
        "      64.0 KiB  DRAM buffer      0x1000     ttnn.ones  on each of 32 chips",
        "      32.0 KiB  DRAM buffer      0x9000     ttnn.add  on each of 32 chips",
    ]
    assert len(lines) < 30


def test_an_allocation_on_a_mesh_is_one_row(story: Story) -> None:
    source = story.process(1, "4710")
    for number in range(1, 4):
        story.tell(source, 0, DeviceOpened(number, ChipInfo(str(4710 + number), board="n150", geometry=GEOMETRY)))
    for address in (0x1000, 0x2000):
        story.tell(source, 1, buffer(Kind.DRAM, address, 64, "ttnn.ones")._replace(device=(0, 1, 2, 3)))
    story.tell(source, 2, buffer(Kind.DRAM, 0x9000, 64, "ttnn.ones")._replace(device=2))
    story.ends(source)
    report = story.report()
    assert problems(report.document, schema.Run) == []
    chips = ["4710", "4711", "4712", "4713"]
    assert [(row["address"], row["chips"]) for row in report.document["left"]] == [
        *((0x1000, chips), (0x2000, chips), (0x9000, ["4712"])),
    ]
    assert {row["cause"] for row in report.document["left"]} == {LEAK}
    ends = [chip["kinds"]["dram"]["end"] for chip in report.document["chips"]]
    assert ends == [128 * KIB, 128 * KIB, 192 * KIB, 128 * KIB]
    text = " ".join(render(report.document).split())
    assert (
        "tensors: 576.0 KiB of DRAM on 4 chips (up to 192.0 KiB per chip) in 3 buffers; never freed; largest: "
        "128.0 KiB DRAM buffer 2 x ttnn.ones on each of 4 chips 64.0 KiB DRAM buffer 0x9000 ttnn.ones "
    ) in text


def test_the_routers_of_a_mesh_do_not_keep_its_chips_apart(story: Story) -> None:
    source = mesh(story, 4)
    for number in range(4):
        router = part(Kind.FABRIC_KERNEL, 9, 6 + number, "fabric_erisc_router (ethernet: 6144 B)")
        story.tell(source, 3, router._replace(device=number))
    for number in range(4):
        story.tell(source, 4, buffer(Kind.DRAM, 0x4000, 1, "ttnn.add")._replace(device=number))
    story.ends(source)
    lines = render(story.report().document).splitlines()
    assert "n150 chips 0-3: the same on each of 4 chips" in lines
    assert (
        "  fabric kernels             9.0 KiB     9.0 KiB   on the chip with most, 6.0 KiB on the one with least"
        in lines
    )
    at = lines.index("  the runtime's own: 30.0 KiB on 4 chips (up to 9.0 KiB per chip) in 4 allocations, sum over all")
    assert lines[at + 1].strip() == "cores"
    assert lines[at + 3].split() == ["30.0", "KiB", "≤", "9.0", "KiB", "4", "4", "no", "ttnn", "operation"]


def test_a_chip_that_differs_is_told_by_itself(story: Story) -> None:
    source = mesh(story, 3)
    story.tell(source, 3, buffer(Kind.L1, 0x5000, 1)._replace(device=1))
    story.ends(source)
    lines = render(story.report().document).splitlines()
    assert "n150 chips 0,2: the same on each of 2 chips" in lines
    assert "n150 chip 1 (id 4711)" in lines


def test_more_than_there_is_says_why(story: Story) -> None:
    """A mesh and a submesh each gave out nearly all of L1."""
    source = story.process(1)
    for allocator in (1, 2):
        extra = Extra(64 * 1_000_000, 0, allocator, "ttnn.ones")
        story.tell(source, 1, Allocated(0, Kind.L1, 499_136, 64 * 1_000_000, 0, 0, extra))
    lines = render(story.report().document).splitlines()
    at = next(number for number, line in enumerate(lines) if "peak is 144 % of 85.0 MiB" in line)
    assert lines[at + 1].startswith("    That is more than there is: a mesh and each part of it have an allocator")


def test_a_group_too_wide_for_the_terminal(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    source = story.process(1)
    kinds = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)
    story.tell(source, 1, *(buffer(kind, 0x1000 * (kind + 1), 1, "ttnn.conv2d") for kind in kinds))
    lines = render(story.report().document).splitlines()
    at = lines.index("  L1 buffers: 2.0 KiB in 2 allocations, sum over all cores")
    assert lines[at + 2].split()[:5] == ["2.0", "KiB", "2", "ttnn.conv2d", "l1"]
    assert max(map(len, lines[at:])) <= 60
    assert "  DRAM reserved              2.0 KiB         0 B   peak is under 0.0001 % of 12.0 GiB" in lines


# -- refusals -------------------------------------------------------------------------------------------------------


def refused(per_bank: int) -> Failed:
    """Refused in a bank of L1 that contains the tensor of ``full``."""
    text = (
        f"Out of Memory: Not enough space to allocate {64 * per_bank} B L1 buffer across 64 banks, where each bank "
        f"needs to store {per_bank} B, but bank size is 1393312 B (allocated: 1000000 B, free: 393312 B, largest free "
        "block: 393312 B)"
    )
    return Failed(0, text, "ttnn.zeros", "model.py:7 forward")


@pytest.fixture
def full(story: Story) -> Source:
    source = story.process(1)
    extra = Extra(64 * 1_000_000, 0, 1, "ttnn.ones")
    story.tell(source, 1, Allocated(0, Kind.L1, 499_136, 64 * 1_000_000, 0, 0, extra))
    return source


def test_what_is_thrown_for_other_reasons_is_no_refusal(story: Story, full: Source) -> None:
    other = Failed(0, "Failed to generate binaries for reader: Cannot open kernel source file", "ttnn.generic_op")
    story.tell(full, 2, other, refused(500_000), other)
    report = story.report()
    assert (report.document["failed"], len(report.document["failures"])) == (1, 1)
    assert "An allocation failed once, and the command continued; --json explains it. out of memory: " in render(
        report.document
    )


def test_the_last_of_many_refusals_is_looked_at_like_the_first(
    story: Story, full: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_EXPLAINING_SHARE", 1e9)  # as in a run in which they do not arrive all at once
    story.tell(full, 2, *(refused(500_000 + 32 * number) for number in range(collect._ALWAYS_EXPLAINED + 50)))
    report = story.report(1)
    verdict = report.document["failures"][-1]["verdict"]
    assert (verdict["operation"], verdict["line"], verdict["held"]) == ("ttnn.zeros", "model.py:7 forward", 1)
    assert "  allocations failed before that: 249 times; --json has the last 99" in render(report.document)


def test_of_a_refusal_that_was_not_looked_at_it_is_said(
    story: Story, full: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_EXPLAINING_SHARE", 0.0)
    story.tell(full, 2, *(refused(500_000) for _ in range(collect._ALWAYS_EXPLAINED + 1)))
    report = story.report(1)
    verdict = report.document["failures"][-1]["verdict"]
    assert (verdict["operation"], verdict["line"]) == ("ttnn.zeros", "model.py:7 forward")
    assert verdict["unknown"] == [collect.NOT_LOOKED_AT]
    assert "`ttmem run` lists it" not in render(report.document)
