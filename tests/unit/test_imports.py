# SPDX-License-Identifier: Apache-2.0
"""Imported recordings of ttnn, compared with ttnn's own account at the end of the capture."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.schema_conformance import problems
from ttmem.account.entities import Process, Source
from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.verdict_types import Verdict
from ttmem.imports.board_lookup import BoardLookup, describe
from ttmem.imports.detection import find, read
from ttmem.imports.graph import Call, GraphCapture, NotACapture
from ttmem.imports.import_result import summary, write
from ttmem.imports.to_events import BEFORE, EventTranslation, step_at
from ttmem.model import schema
from ttmem.model.core_sets import mask_from
from ttmem.model.events import Allocated, DeviceOpened, Failed, Freed, ProgramDestroyed, Sees
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording.recording_file import Recording

DATA = Path(__file__).parent.parent / "data" / "imports"
ACCOUNTS = json.loads((DATA / "accounts.json").read_text())
ALL = "{[0-0 - 7-7]}"
Node = dict[str, Any]


def fold(translation: EventTranslation) -> tuple[Ledger, Source]:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(pid=0), "capture", translation.confidence)
    for time, event in translation.events():
        ledger.apply(time, source, event)
    return ledger, source


def places(source: Source) -> Counter[tuple[int, int, int]]:
    return Counter(
        (holding.numbers[0], int(allocation.kind), allocation.address)
        for holding in source.holdings.values()
        for allocation in holding.buffers.values()
    )


def by_ttnn(name: str) -> Counter[tuple[int, int, int]]:
    account = ACCOUNTS[name]
    return Counter((chip, kind, at) for chip in account["chips"] for kind, at in account["buffers"])


@pytest.fixture
def database(folder: Path) -> Path:
    """The report database as ttnn wrote it."""
    path = folder / "db.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((DATA / "n300_db.sql").read_text())
    connection.close()
    return path


def changed(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


# -- nodes made by hand ---------------------------------------------------------------------------------------------


def node(what: str, counter: int = 0, connections: tuple[int, ...] = (), **params: Any) -> Node:
    return {"node_type": what, "counter": counter, "connections": [*connections], "params": params or None}


def start(name: str, hit: bool | None = None) -> Node:
    more: dict[str, Any] = {} if hit is None else {"program_cache_hit": hit}
    return node("function_start", name=name, **more)


def end(took: int | None = None) -> Node:
    return node("function_end", name="any") | ({} if took is None else {"duration_ns": took})


def buffer(what: str, address: Any, size: Any = 8192, kind: Any = 1, **more: Any) -> Node:
    given = {"device_id": 1, "buffer_type": kind, "address": address, "size": size, "max_size_per_bank": 128}
    return node(f"buffer_{what}", **{**given, **more})


def cb(address: int, size: int, device: int = 0, cores: str = ALL, shared: str = "0") -> Node:
    what = "circular_buffer_allocate"
    return node(what, device_id=device, address=address, size=size, core_range_set=cores, globally_allocated=shared)


def recorded(*nodes: Node) -> GraphCapture:
    recording = GraphCapture("by hand")
    recording.add(nodes)
    return recording


def account(*nodes: Node, board: str | None = "n150") -> tuple[Ledger, Source]:
    return fold(EventTranslation(recorded(*nodes), board))


PROGRAM = node("circular_buffer_deallocate_all", device_id=1)


# -- real files -----------------------------------------------------------------------------------------------------


def test_a_bare_capture_has_all_buffers_but_one_that_nothing_touched() -> None:
    recording = read(DATA / "n150_capture.json")
    ledger, source = fold(EventTranslation(recording, "n150"))
    (missing,) = (by_ttnn("n150_capture.json") - places(source)).items()
    assert missing == ((0, Kind.L1, 1462272), 1)  # made before and not used
    assert not places(source) - by_ttnn("n150_capture.json")
    assert not ledger.anomalies
    chip = ledger.chips["assumed:0"]
    views = ACCOUNTS["n150_capture.json"]["views"]
    # All of L1_SMALL was allocated during the capture, so its reserved bytes are known, too.
    assert chip.kinds[Kind.L1_SMALL].reserved_bytes == views["L1_SMALL"]["allocated_per_bank"] * 64
    assert chip.kinds[Kind.L1].reserved_bytes is not None
    assert chip.kinds[Kind.DRAM].reserved_bytes is None  # of earlier weights, only the size is recorded
    assert (recording.version, recording.began, recording.timed, recording.cached) == (None, None, True, 1)
    peak_time = chip.kinds[Kind.L1_SMALL].peak.time
    assert peak_time is not None
    at_peak = step_at(recording, peak_time)
    assert at_peak is not None
    assert at_peak.operation == "ttnn.conv2d"


def test_circular_buffers_of_a_real_capture() -> None:
    """Added up by hand from the nodes: two additions of 3 x 4096 on 64 cores; halo and convolution on 32."""
    nodes = json.loads((DATA / "n150_capture.json").read_text())
    told = [n["params"] for n in nodes if n["node_type"] == "circular_buffer_allocate"]
    own = sum(p["size"] * mask_from(p["core_range_set"]).bit_count() for p in told if p["globally_allocated"] == "0")
    ledger, source = fold(EventTranslation(read(DATA / "n150_capture.json")))
    assert ledger.chips["assumed:0"].kinds[Kind.CB].used == own == 2 * 3 * 4096 * 64 + (2 * 16 + 3 * 2048 + 64) * 32
    assert len(told) > 15
    programs = source.holdings[0].programs.values()
    assert sum(allocation.refs for program in programs for allocation in program.parts.values()) == len(told)
    names = {(p.tag, t.extra.tag) for p in programs for t in p.parts.values() if t.extra is not None}
    assert names == {
        ("ttnn.add", "BinaryNgDeviceOperation"), ("ttnn.conv2d", "HaloDeviceOperation"),
        ("ttnn.conv2d", "Conv2dDeviceOperation"),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["report", "database"])
def test_a_detailed_report_has_everything(form: str, database: Path) -> None:
    (database.parent / "cluster_descriptor.yaml").write_text(
        json.loads((DATA / "n300_report.json").read_text())["cluster_descriptor"]
    )
    translation = EventTranslation(read(DATA / "n300_report.json" if form == "report" else database))
    ledger, source = fold(translation)
    assert places(source) == by_ttnn("n300_report.json")
    assert not ledger.anomalies
    views = ACCOUNTS["n300_report.json"]["views"]
    assert [chip.info.board for chip in ledger.chips.values()] == ["n300", "n300"]
    for chip in ledger.chips.values():
        assert chip.id.isdecimal()
        assert chip.geometry is not None
        assert (chip.geometry.live, chip.geometry.arch, chip.geometry.cores) == (True, Arch.WORMHOLE_B0, 56)
        assert chip.geometry.l1_small_size == views["L1_SMALL"]["total_per_bank"]
        for kind in (Kind.DRAM, Kind.L1):
            view = views[kind.name]
            assert chip.kinds[kind].reserved_bytes == view["allocated_per_bank"] * view["banks"]
        assert chip.kinds[Kind.CB].used == 3 * 4096 * 56
    assert translation.machine.meshes == {0: [0, 1]}  # the number of the mesh is that of a chip
    assert "earlier buffers that no operation used" not in translation.lacks()
    extras = [t.extra for h in source.holdings.values() for t in h.buffers.values() if t.extra is not None]
    stacks = {extra.tag: extra.stack.split("\n") for extra in extras if extra.stack is not None}
    assert {tag: [frame.partition(":")[2] for frame in frames] for tag, frames in stacks.items()} == {
        "ttnn.add": ["41 workload", "83 main", "97 <module>"], "ttnn.matmul": ["43 workload", "83 main", "97 <module>"],
    }  # fmt: skip
    assert {(extra.tag, extra.shape) for extra in extras} == {
        (BEFORE, "[1, 1, 256, 128] bfloat16 tile"), (BEFORE, "[1, 1, 128, 256] bfloat16 tile"), (BEFORE, None),
        ("ttnn.add", "[1, 1, 256, 128] bfloat16 tile"), ("ttnn.matmul", "[1, 1, 256, 256] bfloat16 tile"),
    }  # fmt: skip
    stamp = json.loads((DATA / "n300_report.json").read_text())["metadata"]
    assert translation.began == stamp["capture_timestamp_ns"] / 1e9


def test_a_capture_without_execution() -> None:
    translation = EventTranslation(read(DATA / "n150_virtual.json"), "n150")
    assert translation.confidence is Confidence.ESTIMATED
    events = [event for _, event in translation.events()]
    parts = [e for e in events if isinstance(e, Allocated) and e.kind >= Kind.CB]
    base = BOARDS["n150"].l1_base
    assert [(e.kind, e.address, e.size) for e in parts] == [
        *((Kind.CB, base + n * 4096, 4096 * 64) for n in range(3)),
        *((Kind.DFB, base + n * 4096, 4096 * 64) for n in range(3)),
    ]
    ledger, _ = fold(translation)
    assert not ledger.anomalies
    chip = ledger.chips["assumed:0"]
    assert chip.kinds[Kind.CB].used == 0  # the next program replaces them
    assert chip.kinds[Kind.DFB].used == chip.kinds[Kind.CB].peak.value == 3 * 4096 * 64
    without = fold(EventTranslation(read(DATA / "n150_virtual.json")))[0].chips["assumed:0"]
    assert [total.peak.value for total in without.kinds] == [total.peak.value for total in chip.kinds]


def test_what_is_written_is_what_was_folded(folder: Path) -> None:
    out = folder / "out.ttmem"
    translation = EventTranslation(read(DATA / "n300_report.json"))
    ledger, count = write(translation, out, "n300_report.json")
    again = Ledger()
    with Recording(str(out)) as recording:
        recording.replay(again)
    assert [
        (chip.id, [(t.used, t.reserved, t.peak.value, t.peak.time) for t in chip.totals()])
        for chip in again.chips.values()
    ] == [
        (chip.id, [(t.used, t.reserved, t.peak.value, t.peak.time) for t in chip.totals()])
        for chip in ledger.chips.values()
    ]
    said = summary(translation, ledger, count, "db.sqlite", "db.ttmem")
    assert problems(said, schema.Import) == []
    l1 = said["chips"][1]["kinds"]["l1"]
    assert (l1["peak_operation"], l1["peak_line"]) == ("ttnn.matmul", "/project/ttnn_import.py:43 workload")
    assert said["failures"] == 0
    assert json.loads(json.dumps(said)) == said
    assert [path.name for path in folder.iterdir()] == ["out.ttmem"]


def test_a_failed_write_leaves_nothing(folder: Path) -> None:
    translation = EventTranslation(recorded(start("ttnn.add"), buffer("allocate", 4096), end()))
    (folder / "out.ttmem").mkdir()
    with pytest.raises(IsADirectoryError):
        write(translation, folder / "out.ttmem", "x")
    assert [path.name for path in folder.iterdir()] == ["out.ttmem"]


# -- by hand --------------------------------------------------------------------------------------------------------


def test_what_was_freed_or_used_without_having_come_was_there_before() -> None:
    tensor: dict[str, Any] = {"device_id": 1, "buffer_type": 0, "address": 64, "size": 100}
    nodes = [
        start("ttnn.add"),
        node("tensor", 2, **tensor),
        node("buffer", 3, (2,), device_id=1, buffer_type=0, size=128, layout="INTERLEAVED"),
        node("tensor", 8, **{**tensor, "address": 0}),  # in a buffer without an address
        node("buffer", 9, (8,), device_id=1, buffer_type=0, size=128, layout="INTERLEAVED"),
        buffer("allocate", 4096, layout="HEIGHT_SHARDED", num_cores=4),
        node("tensor", 5, **{**tensor, "buffer_type": 1, "address": 4096}),  # its own result
        end(),
        start("deallocate"),
        buffer("deallocate", 8192, size=640),
        end(),
    ]
    translation = EventTranslation(recorded(*nodes), "n150")
    events = [event for _, event in translation.events()]
    came = [e for e in events if isinstance(e, Allocated)]
    assert [(e.kind, e.address, e.size, e.extra and e.extra.tag, e.extra and e.extra.reserved) for e in came] == [
        (Kind.DRAM, 64, 128, BEFORE, None),
        (Kind.L1, 8192, 640, BEFORE, 128 * 64),
        (Kind.L1, 4096, 8192, "ttnn.add", 128 * 64),
    ]
    assert came[2].extra is not None
    assert (came[2].extra.layout, came[2].extra.core_count) == (2, 4)
    assert [e.address for e in events if isinstance(e, Freed)] == [8192]


def test_the_shape_is_that_of_the_last_tensor_in_a_buffer() -> None:
    """As the operation returns it; also for an earlier buffer that is freed, and without addresses."""

    def tensor(counter: int, shape: str, **more: Any) -> Node:
        kind = {"dtype": "DataType::UINT32", "layout": "Layout::ROW_MAJOR", "device_id": 1, "buffer_type": 1}
        return node("tensor", counter, **{**kind, "shape": f"Shape({shape})", **more})

    def shapes(address: int) -> list[str | None]:
        nodes = [
            start("ttnn.reshape"),
            tensor(2, "[7]", address=8192),
            node("buffer", 3, (2,), device_id=1, buffer_type=1, size=640),
            node("buffer", 4, (6, 7, 99), device_id=1, buffer_type=1, size=8192),
            {**buffer("allocate", address), "connections": [4]},
            tensor(6, "[64, 32]", address=address),
            tensor(7, "[1, 2048]", address=address),
            end(),
            buffer("deallocate", 8192, size=640),
        ]
        events = [event for _, event in EventTranslation(recorded(*nodes), "n150").events()]
        return [e.extra.shape for e in events if isinstance(e, Allocated) and e.extra is not None]

    assert shapes(4096) == ["[7] uint32 row_major", "[1, 2048] uint32 row_major"]
    assert shapes(0)[-1] == "[1, 2048] uint32 row_major"


def test_an_address_is_used_again_after_a_free_that_was_not_told() -> None:
    ledger, source = account(start("a"), buffer("allocate", 4096, 100), buffer("allocate", 4096, 300), end())
    assert [allocation.size for allocation in source.holdings[0].buffers.values()] == [300]
    assert ledger.chips["assumed:0"].kinds[Kind.L1].peak.value == 300
    assert not ledger.anomalies


def test_numbers_may_be_text_and_older_releases_say_less() -> None:
    """Before 0.69: no buffer_type, no bytes in a bank; still older: a free names its buffer only by the node."""
    nodes = [
        start("ttnn::add"),
        node("buffer_allocate", 2, (1,), address="4096", size="8192", type="L1", layout="INTERLEAVED", device_id="1"),
        node("buffer_allocate", 4, (3,), address="64", size="512", type="DRAM", layout="INTERLEAVED", device_id="1"),
        PROGRAM,
        cb(105824, 2048, shared="0"),
        end(),
        node("buffer_deallocate", 6, (3,), size="512", type="DRAM", layout="INTERLEAVED", device_id="1"),
    ]
    ledger, source = account(*nodes)
    assert places(source) == {(0, Kind.L1, 4096): 1}
    chip = ledger.chips["assumed:0"]
    assert (chip.kinds[Kind.L1].used, chip.kinds[Kind.L1].reserved_bytes) == (8192, None)
    assert (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.DRAM].peak.value) == (0, 512)
    assert chip.kinds[Kind.CB].used == 2048 * 64
    assert not ledger.anomalies


def test_circular_buffers_of_cached_programs_are_unknown_not_none() -> None:
    ran = [start("add", hit=True), PROGRAM, node("program_execution", device_id=1, physical_device_id=3), end()]
    translation = EventTranslation(recorded(*ran), "n150")
    (sees,) = (event for _, event in translation.events() if isinstance(event, Sees))
    assert not sees.kinds >> Kind.CB & 1
    assert "cached before (1 run here)" in (sees.trouble or "")
    made = EventTranslation(recorded(start("add", hit=False), PROGRAM, cb(105824, 64), end()), "n150")
    (sees,) = (event for _, event in made.events() if isinstance(event, Sees))
    assert sees.kinds >> Kind.CB & 1
    assert not sees.kinds >> Kind.DFB & 1
    assert translation.machine.meshes == {1: [3]}


def test_a_mesh_and_its_chips() -> None:
    """The mesh has the number of one of its chips. Buffers are recorded once, circular buffers for each chip."""
    tensors = json.dumps([{"device_id": chip, "mesh_device_id": 4, "address": 64} for chip in (4, 5, 6)])
    nodes = [
        start("ttnn.add"),
        buffer("allocate", 4096, device_id=4),
        node("tensor", 3, device_id=4, buffer_type=1, address=4096, device_tensors=tensors),
        start("Add", hit=False),
        node("circular_buffer_deallocate_all", device_id=4),
        cb(105824, 64, 5),
        end(),
        end(),
    ]
    ledger, source = account(*nodes)
    assert places(source) == {(chip, Kind.L1, 4096): 1 for chip in (4, 5, 6)}
    assert [chip.kinds[Kind.CB].used for chip in ledger.chips.values()] == [0, 64 * 64, 0]


def test_views_of_one_tensor() -> None:
    """Their bytes count with the tensor. An equal view adds a reference, a view of another size does not."""
    views = [cb(4096, 512, shared="1"), cb(4096, 512, shared="1"), cb(4096, 64, shared="1"), cb(105824, 16)]
    ledger, source = account(start("Move", hit=False), PROGRAM, *views, end())
    (program,) = source.holdings[0].programs.values()
    assert [(t.address, t.size, t.refs) for t in program.parts.values()] == [(4096, 512 * 64, 2), (105824, 1024, 1)]
    assert ledger.chips["assumed:0"].kinds[Kind.CB].used == 1024
    assert not ledger.anomalies


def test_time_is_what_the_functions_took() -> None:
    nodes = [
        start("first"),
        start("inner"),
        buffer("allocate", 64),
        end(took=5_000_000),
        buffer("allocate", 128),
        end(took=20_000_000),
        start("second"),
        buffer("allocate", 192),
        end(took=1_000),
    ]
    recording = recorded(*nodes)
    times = [step.time for step in recording.steps if hasattr(step.item, "came")]
    assert times == pytest.approx([0, 0.005, 0.02], abs=1e-5)
    assert times == sorted(set(times))
    found = [step_at(recording, time) for time in (0.0, *times, 9.0)]
    assert [step and step.operation for step in found] == [None, "first", "first", "second", None]
    assert not recorded(start("a"), buffer("allocate", 64), end()).timed


def test_parts_outside_of_any_operation_are_said_to_be_left_out() -> None:
    recording = recorded(PROGRAM, cb(105824, 64), start("a"), buffer("allocate", 64), end())
    assert recording.stray == 1
    assert "which programs the 1 parts outside of any operation belong to" in EventTranslation(recording).lacks()


def test_a_capture_that_ends_inside_an_operation() -> None:
    ledger, source = account(
        start("ttnn.add"), start("Add", hit=False), buffer("allocate", 4096), PROGRAM, cb(105824, 64)
    )
    assert places(source) == {(0, Kind.L1, 4096): 1}
    assert ledger.chips["assumed:0"].kinds[Kind.CB].used == 64 * 64


# -- failures -------------------------------------------------------------------------------------------------------

OUT_OF_MEMORY = (
    "TT_FATAL @ bank_manager.cpp:514: false\ninfo:\nOut of Memory: Not enough space to allocate 83886080 B L1 buffer "
    "across 64 banks, where each bank needs to store 1310720 B, but bank size is 1393312 B (allocated: 256 B, free: "
    "1393056 B, largest free block: 1299200 B).\nbacktrace:\n --- somewhere"
)
CLASHED = (
    "Statically allocated circular buffers in program 6 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer "
    "allocated at 106496 and static circular buffer region ends at 109920"
)
# By the user, when it has caught the error.
FREE = [
    *(start("Tensor::deallocate"), buffer("deallocate", 1405824), end()),
    *(start("Tensor::deallocate"), buffer("deallocate", 106496), end()),
]
STACK = "/project/model.py:41 forward\n/project/model.py:97 <module>"


def failing(*nodes: Node, error: str = OUT_OF_MEMORY, stack: str | None = STACK) -> GraphCapture:
    """Two buffers, and an operation that failed."""
    recording = recorded(start("make"), buffer("allocate", 1405824), buffer("allocate", 106496), end())
    recording.add(nodes, call=Call(stack, error))
    return recording


def explained(recording: GraphCapture) -> tuple[list[Verdict | None], Ledger, Source]:
    """The verdicts, each with the account at its time, and the account at the end."""
    found: list[Verdict | None] = []

    def look(time: float, process: Process, event: Failed) -> None:
        found.append(verdict_at(event, process))

    ledger = Ledger(failure_observer=look)
    translation = EventTranslation(recording, "n150")
    source = ledger.source(0.0, ProcessInfo(pid=0), "capture", translation.confidence)
    for time, event in translation.events():
        ledger.apply(time, source, event)
    assert translation.failures == len(found)
    return found, ledger, source


def test_a_failure_is_explained_with_what_was_live_then() -> None:
    """Buffers that are freed after the error, by unwinding or by the user, were live at the error."""
    made = start("create_device_tensor"), end()
    recording = failing(start("ttnn.add"), buffer("allocate", 4096), buffer("deallocate", 4096), *made, *FREE, end())
    recording.add([start("next"), buffer("allocate", 4096), end()])
    (verdict,), _, source = explained(recording)
    assert verdict is not None
    assert [(block.address, block.per_bank, block.tag) for one in verdict.holders for block in one.blocks] == [
        (106496, 128, "make"), (1405824, 128, "make"),
    ]  # fmt: skip
    assert (verdict.tag, verdict.line) == ("ttnn.add", "/project/model.py:41 forward")
    assert not verdict.unknown
    assert places(source) == {(0, Kind.L1, 4096): 1}
    (event,) = (event for _, event in EventTranslation(recording, "n150").events() if isinstance(event, Failed))
    assert event.text.endswith("1299200 B).")  # without the stack of C++


def test_a_program_that_clashed_is_known_then_and_gone_after() -> None:
    """When it abandons a program, ttnn clears the circular buffers with the number of the chip, not of the mesh."""
    given_up = node("circular_buffer_deallocate_all", device_id=0)
    nodes = [start("ttnn.add"), start("Add", hit=False), buffer("allocate", 4096), PROGRAM, cb(105824, 4096), given_up]
    recording = failing(*nodes, buffer("deallocate", 4096), end(), end(), error=CLASHED)
    (verdict,), ledger, source = explained(recording)
    assert verdict is not None
    assert verdict.program is not None
    assert (verdict.program.metal_id, verdict.program.tag) == (6, "ttnn.add")
    assert [(piece.start, piece.end) for piece in verdict.pieces] == [(105824, 109920)]
    assert verdict.wall is not None
    assert verdict.wall.address == 106496
    assert EventTranslation(recording).machine.meshes == {1: [0]}
    assert not source.holdings[0].programs
    assert ledger.chips["assumed:0"].kinds[Kind.CB].used == 0
    assert not ledger.anomalies


def test_a_finished_program_stays_when_its_operation_fails_later() -> None:
    first = start("Halo", hit=False), PROGRAM, cb(105824, 64), end()
    (verdict,), _, source = explained(failing(start("conv"), *first, start("create_device_tensor"), end(), end()))
    assert verdict is not None
    assert [program.tag for program in source.holdings[0].programs.values()] == ["conv"]


def test_another_error_is_none_of_memory_but_ends_its_program() -> None:
    nodes = [start("ttnn.add"), start("Add", hit=False), PROGRAM, cb(105824, 64), end(), end()]
    recording = failing(*nodes, error="TT_FATAL: shapes do not match")
    events = [event for _, event in EventTranslation(recording, "n150").events()]
    assert not [event for event in events if isinstance(event, Failed)]
    assert [event for event in events if isinstance(event, ProgramDestroyed)] == [(0, 1)]


def test_an_operation_of_a_database_fails_once() -> None:
    """Its graph has nodes before and after it, and may have several functions."""
    around = node("capture_start"), start("ttnn.add"), end(), start("Tensor::deallocate"), end(), node("capture_end")
    verdicts, _, _ = explained(failing(*around))
    assert len(verdicts) == 1


def test_an_error_that_a_node_tells() -> None:
    said = node("error", error_type="exception", error_message=OUT_OF_MEMORY, error_operation="ttnn.add")
    recording = recorded(start("make"), buffer("allocate", 1405824), buffer("allocate", 106496), end())
    recording.add([start("ttnn.add"), start("create_device_tensor"), end(), *FREE, said, end()])
    (verdict,), _, _ = explained(recording)
    assert verdict is not None
    assert (verdict.tag, verdict.held) == ("ttnn.add", 2)


def test_a_dram_bank_of_which_a_trace_region_that_nobody_told_is_the_top() -> None:
    """No file contains the size of the region. A buffer below the usual begin of the bank shows that there is one.

    Here the region is 65536 B of a bank of 1 GiB: the bank begins at 1048640, and its message states what is left.
    """
    size = 1073741824 - 1048640 - 65536
    text = (
        "Out of Memory: Not enough space to allocate 12884901888 B DRAM buffer across 12 banks, where each bank needs "
        f"to store 1073741824 B, but bank size is {size} B (allocated: 128 B, free: {size - 128} B, largest free "
        f"block: {size - 128} B)"
    )
    recording = recorded(start("make"), buffer("allocate", 1048640, 1024, kind=0), end())
    recording.add([start("big"), end()], call=Call(None, text))
    (verdict,), _, _ = explained(recording)
    assert verdict is not None
    assert [block.address for one in verdict.holders for block in one.blocks] == [1048640]
    assert not verdict.unknown


@pytest.mark.parametrize("form", ["report", "database"])
def test_errors_are_read_from_where_ttnn_keeps_them(form: str, database: Path) -> None:
    """Beside a report, and in the table of a database. The second operation of the real files is changed to fail."""
    path = database
    if form == "database":
        with sqlite3.connect(database) as connection:
            row = (2, "ttnn.matmul", "RuntimeError", OUT_OF_MEMORY, "", "", 0)
            connection.execute("INSERT INTO errors VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.close()
    else:
        path = database.with_name("report.json")
        path.write_text((DATA / "n300_report.json").read_text())
        calls = json.loads((DATA / "n300_report.python_io.json").read_text())
        calls[1]["error"] = {"type": "RuntimeError", "message": OUT_OF_MEMORY}
        path.with_suffix(".python_io.json").write_text(json.dumps(calls))
    (event,) = (event for _, event in EventTranslation(read(path)).events() if isinstance(event, Failed))
    assert event.text == OUT_OF_MEMORY.partition("\nbacktrace")[0]
    assert event.tag == "ttnn.matmul"
    assert event.stack is not None
    assert event.stack.startswith("/project/ttnn_import.py:43 workload\n")


def test_a_sidecar_that_makes_no_sense_is_left_alone(folder: Path) -> None:
    path = folder / "report.json"
    path.write_text((DATA / "n300_report.json").read_text())
    for text in ('[{"name": "ttnn.add", "error": "oh"}]', "{", "[1]"):
        path.with_suffix(".python_io.json").write_text(text)
        assert read(path).operations == read(DATA / "n300_report.json").operations


# -- the machine ----------------------------------------------------------------------------------------------------

ROW = {
    "device_id": 1, "num_x_compute_cores": 11, "num_y_compute_cores": 10, "worker_l1_size": 1572864,
    "address_at_first_l1_cb_buffer": 111744, "l1_bank_size": 1461120,
}  # fmt: skip


def machine(board: str | None = None, **more: Any) -> BoardLookup:
    recording = recorded(start("a"), buffer("allocate", 4096), end())
    recording.devices = [{**ROW, **more}]
    return BoardLookup(recording, board)


def test_a_database_does_not_tell_dram_and_it_is_not_guessed() -> None:
    assert machine().info(0).geometry is None  # a p100 has fewer banks than a p150
    told = machine("p100").info(0).geometry
    assert told is not None
    assert (told.arch, told.cores, told.dram_banks, told.live) == (Arch.BLACKHOLE, 110, 7, True)
    row: dict[str, Any] = {"arch": "BLACKHOLE", "num_dram_channels": 8, "dram_size_per_channel": 4278190080}
    assert machine(**row).reserved(1, Kind.DRAM, 65) == 128 * 8
    assert machine(**row).reserved(1, Kind.L1, 64) == 64 * 110
    assert machine(**row).reserved(1, Kind.L1, 0) is None


def test_chips_of_a_database_have_no_names_if_it_counted_them_anew() -> None:
    nodes = [start("a", hit=True), PROGRAM, node("program_execution", device_id=1, physical_device_id=6), end()]
    recording = recorded(*nodes, start("b"), buffer("allocate", 4096), end())
    recording.meshes = {1: {2}}
    recording.descriptor = "chip_unique_ids:\n  2: 12345\n  6: 66666\n"
    assert BoardLookup(recording, None).info(2).id == "12345"
    recording.renumbered = True
    assert BoardLookup(recording, None).info(2).id == "assumed:2"
    recording.executed = {1: {2}}
    assert BoardLookup(recording, None).info(2).id == "12345"


def test_a_descriptor_that_is_none() -> None:
    assert describe("") == describe("chip_unique_ids: {}\nboards: []\n\n- 4") == ({}, {})


# -- files that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("hello", "neither JSON of ttnn nor an SQLite database"),
        ('[{"node_type": "capture_start", "params": null}, {"node_ty', "the file is cut off"),
        ("[1, 2]", "entry 1 is not a node of a graph capture"),
        ('[{"node_type": "buffer_allocate", "params": {"size": 1}}]', "does not have ttnn's format: KeyError"),
        ('[{"node_type": "buffer_allocate", "params": [1]}]', "params is not an object"),
        (json.dumps([buffer("allocate", 64, size=1 << 70)]), "device 1, address 64, size 1180591620717411303424"),
        ('{"a": 1, "b": [2]}', "not a report of ttnn: a JSON object without a graph; its keys are a, b"),
        ('{"graph": [], "version": 2}', "a report of version 2; this ttmem reads version 1"),
        (
            '{"graph": [], "per_operation_buffers": {"1": [{}]}}',
            "the buffers after operation 1 do not have ttnn's format",
        ),
        ("[] []", "not JSON: more after the end"),
        ('{"graph" []}', "not JSON: '[' where ':' is expected"),
        ("\udcff", "not text in UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ("TTMEMREC\1\0\0\0\0\0\0\0", "this is already a ttmem recording"),
        ("SQLite format 3\0 and then nothing", "SQLite cannot read it"),
    ],
)
def test_a_bad_file_gets_a_clear_answer(content: str, words: str, folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(NotACapture, match=words.replace("[", r"\[")):
        read(path)


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["UPDATE operations SET operation_id = NULL"], "an entry of its tables does not have ttnn's format: int"),
        (["UPDATE operations SET rank = 'first'"], "an entry of its tables does not have ttnn's format: .*'first'"),
        (["UPDATE report_metadata SET value = '4.0' WHERE key = 'schema_version'"], "schema 4.0; this ttmem reads"),
        (["DROP TABLE buffers", "DROP TABLE captured_graph"], "neither table buffers nor captured_graph"),
        (["UPDATE captured_graph SET captured_graph = '[{'"], "the graph of operation 1 is incomplete"),
        (["UPDATE captured_graph SET captured_graph = '{}'"], "the graph of operation 1 is not a list of nodes"),
        (["INSERT INTO operations VALUES (1, 'x', 0, 1)"], "it contains ranks 0, 1; choose one with --rank"),
        (["INSERT INTO captured_graph SELECT * FROM captured_graph"], "more than one report was imported into it"),
    ],
)
def test_a_database_that_cannot_be_read(statements: list[str], words: str, database: Path) -> None:
    with pytest.raises(NotACapture, match=words):
        read(changed(database, *statements))


def test_one_rank_of_several(database: Path) -> None:
    changed(database, "INSERT INTO operations VALUES (1, 'x', 0, 1)")
    assert read(database, rank=0).operations == 2
    assert read(database, rank=1).operations == 1
    with pytest.raises(NotACapture, match="there is no rank 7 in it; it contains 0, 1"):
        read(database, rank=7)
    with pytest.raises(NotACapture, match="--rank is for databases"):
        read(DATA / "n300_report.json", rank=0)


def test_a_database_without_graphs(database: Path) -> None:
    """As older releases wrote them: only a list of buffers after each operation, and no schema number."""
    changed(database, "DROP TABLE captured_graph", "DROP TABLE report_metadata", "ALTER TABLE buffers DROP COLUMN rank")
    recording = read(database)
    assert recording.form == "report database, a schema without a number, as before 0.67"
    translation = EventTranslation(recording)
    ledger, source = fold(translation)
    # The chips of mesh 0 are not recorded, so it is assumed to be chip 0. A report has one more free, after the end.
    assert translation.machine.meshes == {0: [0]}
    assert places(source) == Counter({key: 1 for key in by_ttnn("n300_report.json") if key[0] == 0})
    view = ACCOUNTS["n300_report.json"]["views"]["L1"]
    assert ledger.chips["assumed:0"].kinds[Kind.L1].used == view["allocated_per_bank"] * view["banks"]


def test_a_damaged_database(database: Path) -> None:
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NotACapture, match="SQLite cannot read it"):
        read(database)


def test_a_folder_has_one_allocation_to_read(folder: Path) -> None:
    with pytest.raises(NotACapture, match="a folder without a report"):
        find(folder)
    (folder / "db.sqlite").touch()
    for other in ("config.json", "report.python_io.json"):
        (folder / other).touch()
    assert find(folder).name == "db.sqlite"
    (folder / "report.json").touch()
    assert find(folder).name == "report.json"  # the database has less data
    (folder / "report2.json").touch()
    with pytest.raises(NotACapture, match=r"a folder with 2 of them: report\.json, report2\.json; name one"):
        find(folder)


def test_opened_devices_come_first() -> None:
    translation = EventTranslation(read(DATA / "n300_report.json"))
    events = [event for _, event in translation.events()]
    assert [type(event) for event in events[:3]] == [Sees, DeviceOpened, DeviceOpened]
    times = [time for time, _ in translation.events()]
    assert times == sorted(times)
