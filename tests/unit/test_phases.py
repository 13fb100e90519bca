# SPDX-License-Identifier: Apache-2.0
"""Phases in the account: cases beyond test_ledger_properties, and the data for readers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ttmem.account.ledger import Ledger
from ttmem.account.phases import phases_json
from ttmem.account.state import Limits
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    DeviceOpened,
    Event,
    Freed,
    PeaksReset,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    ResyncBegin,
    ResyncEnd,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind

DRAM, L1 = Kind.DRAM, Kind.L1
Row = dict[str, Any]


class Run:
    """One process that reports one event per second."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.ledger = Ledger(limits)
        self.source = self.ledger.source(0.0, ProcessInfo(42, 1, user_id=1000), "client", Confidence.REPORTED)
        self.process = self.source.process
        self.time = 0.0

    def tell(self, *events: Event) -> Run:
        for event in events:
            self.ledger.apply(self.time, self.source, event)
            self.time += 1.0
        return self

    @property
    def json(self) -> Any:
        return phases_json(self.process)

    def ended(self, path: str) -> Row:
        found: Row
        (found,) = (entry for entry in self.json["ended"] if entry["path"] == path)
        return found

    def row(self, path: str, name: str = "pool", value: str = "dram") -> Row:
        found: Row
        (found,) = (row for row in self.ended(path)["rows"] if row.get(name) == value)
        return found


def buffer(place: int, size: int, kind: Kind = DRAM) -> Allocated:
    return Allocated(0, kind, place << 12, size)


def test_begin_peak_and_end() -> None:
    run = Run().tell(
        buffer(1, 1000),
        PhaseBegan(1, "prefill"),
        buffer(2, 500),
        Freed(0, DRAM, 2 << 12),
        buffer(3, 200),
        PhaseEnded(1),
        buffer(4, 90_000),
    )
    last = {"begin": 1000, "peak": 1500, "end": 1200, "delta": 200}
    pool = {"chip": "assumed:0", "pool": "dram", "peak": 1500, "delta": 200, "last": last}
    kind = {"chip": "assumed:0", "device": 0, "kind": "dram", "peak": 1500, "delta": 200, "last": last}
    assert run.json["ended"] == [
        {"path": "prefill", "runs": 1, "partial": 0, "seconds": 4.0, "since": 1.0, "until": 5.0, "rows": [pool, kind]}
    ]
    assert run.json["open"] == []


def test_an_inner_phase_is_part_of_the_outer_one() -> None:
    """The outer phase's peak is in the inner one; the inner phase does not get the earlier peak of the outer one."""
    run = Run().tell(
        PhaseBegan(1, "decode"),
        buffer(1, 700),
        Freed(0, DRAM, 1 << 12),
        PhaseBegan(2, "attention", 1),
        buffer(1, 300),
        PhaseEnded(2),
        PhaseBegan(3, "mlp", 1),
        buffer(2, 600),
        PhaseEnded(3),
        PhaseEnded(1),
    )
    assert [run.row(path)["peak"] for path in ("decode", "decode/attention", "decode/mlp")] == [900, 300, 900]
    assert [run.row(path)["delta"] for path in ("decode", "decode/attention", "decode/mlp")] == [900, 300, 600]


def test_phases_of_two_threads_overlap() -> None:
    run = Run().tell(
        PhaseBegan(1, "one"), buffer(1, 100), PhaseBegan(2, "two"), buffer(2, 50), PhaseEnded(1), buffer(3, 10),
        PhaseEnded(2),
    )  # fmt: skip
    assert (run.row("one")["last"], run.row("two")["last"]) == (
        {"begin": 0, "peak": 150, "end": 150, "delta": 150},
        {"begin": 100, "peak": 160, "end": 160, "delta": 60},
    )


def test_a_loop_is_one_entry() -> None:
    run = Run()
    for step, size in enumerate((100, 900, 300), start=1):
        run.tell(
            PhaseBegan(step, "token"), buffer(step, size), buffer(9, 50), Freed(0, DRAM, 9 << 12), PhaseEnded(step)
        )
    entry = run.ended("token")
    assert (entry["runs"], entry["partial"], entry["seconds"]) == (3, 0, 12.0)
    row = run.row("token")
    assert (row["peak"], row["delta"], row["last"]["delta"], row["last"]["begin"]) == (1350, 1300, 300, 1000)


def test_an_open_phase_is_shown_as_it_stands() -> None:
    run = Run().tell(buffer(1, 10), PhaseBegan(1, "load"), buffer(2, 90), Freed(0, DRAM, 2 << 12))
    (phase,) = run.json["open"]
    assert (phase["path"], phase["since"], phase["complete"]) == ("load", 1.0, True)
    assert phase["rows"][0] == {
        "chip": "assumed:0", "pool": "dram", "begin": 10, "peak": 100, "end": 10, "delta": 0
    }  # fmt: skip
    assert run.json["ended"] == []


def test_a_closed_device_ends_no_phase() -> None:
    run = Run().tell(buffer(1, 10), PhaseBegan(1, "load"), buffer(2, 90), DeviceClosed(0), PhaseEnded(1))
    assert run.row("load")["last"] == {"begin": 10, "peak": 100, "end": 0, "delta": -10}


def test_death_ends_what_is_open_with_what_was_held() -> None:
    run = Run().tell(
        buffer(1, 10), PhaseBegan(1, "decode"), PhaseBegan(2, "attention", 1), buffer(2, 90), ProcessExited()
    )  # fmt: skip
    assert run.json["open"] == []
    assert run.json["state"] == "exited"
    for path in ("decode", "decode/attention"):
        assert run.ended(path)["partial"] == 1
        assert run.row(path)["last"] == {"begin": 10, "peak": 100, "end": 100, "delta": 90}


def test_a_phase_that_is_named_again_goes_on() -> None:
    run = Run().tell(PhaseBegan(1, "load"), buffer(1, 100), Freed(0, DRAM, 1 << 12))
    run.tell(ResyncBegin(2), PhaseBegan(1, "load"), ResyncEnd(2), PhaseEnded(1))
    assert (run.ended("load")["partial"], run.row("load")["peak"]) == (0, 100)


def test_a_phase_that_is_not_named_again_has_ended() -> None:
    run = Run().tell(PhaseBegan(1, "load"), buffer(1, 100), ResyncBegin(2), buffer(1, 100)._replace(refs=1))
    run.tell(ResyncEnd(2), PhaseEnded(1))
    assert (run.ended("load")["runs"], run.ended("load")["partial"]) == (1, 1)


def test_a_server_that_starts_in_a_phase_says_so() -> None:
    run = Run().tell(
        ResyncBegin(1), buffer(1, 100)._replace(refs=1), PhaseBegan(1, "decode"), ResyncEnd(1), buffer(2, 10),
        PhaseEnded(1),
    )  # fmt: skip
    assert run.ended("decode")["partial"] == 1
    assert run.row("decode")["last"] == {"begin": 100, "peak": 110, "end": 110, "delta": 10}


def test_the_end_of_an_unknown_phase_changes_nothing() -> None:
    run = Run().tell(PhaseEnded(7))
    assert (run.json["open"], run.json["ended"], +run.ledger.anomalies) == ([], [], {})


@pytest.mark.parametrize(
    ("limits", "kept", "left_out"),
    [
        (Limits(open_phases=3), 3, 7),
        (Limits(phase_paths=4), 4, 6),
        (Limits(phase_rows=5), 10, 8),  # two rows per path: enough for two and a half paths
    ],
)
def test_everything_that_grows_has_a_cap(limits: Limits, kept: int, left_out: int) -> None:
    run = Run(limits).tell(buffer(1, 64))
    for ident in range(10):
        run.tell(PhaseBegan(ident, f"phase {ident}"))
    for ident in range(10):
        run.tell(PhaseEnded(ident))
    assert len(run.json["ended"]) == kept
    assert run.json["left_out"] == left_out
    assert not +run.ledger.anomalies, "no event was missed"
    assert sum(len(entry["rows"]) for entry in run.json["ended"]) == min(2 * kept, limits.phase_rows)


def test_a_deep_nest_has_no_endless_path() -> None:
    run = Run()
    for ident in range(1, 60):
        run.tell(PhaseBegan(ident, "x" * 100, ident - 1))
    assert max(len(phase["path"]) for phase in run.json["open"]) <= 512


def test_names_are_the_users_own() -> None:
    run = Run().tell(PhaseBegan(1, "secret"), PhaseBegan(2, "open"), PhaseEnded(1))
    hidden = phases_json(run.process, lambda user_id: user_id == 7)
    assert [entry["path"] for entry in (*hidden["open"], *hidden["ended"])] == [None, None]
    shown = phases_json(run.process, lambda user_id: user_id == 1000)
    assert [entry["path"] for entry in (*shown["open"], *shown["ended"])] == ["open", "secret"]


def test_a_phase_costs_no_more_for_those_that_are_open() -> None:
    """The event loop of a server waits for each of them: no call per total, and none per total of each open phase."""
    run = Run()
    for device in range(32):
        run.tell(*(Allocated(device, kind, (kind + 1) << 12, 64) for kind in KINDS))
    for ident in range(1, 61):
        run.tell(PhaseBegan(ident, f"phase {ident}", ident - 1))
    run.tell(*(Allocated(device, DRAM, 1 << 20, 64) for device in range(32)))
    calls = 0

    def count(frame: object, what: str, argument: object) -> None:
        nonlocal calls
        calls += what == "call"

    sys.setprofile(count)
    try:
        run.tell(PhaseBegan(100, "token", 60), PhaseEnded(100))
    finally:
        sys.setprofile(None)
    assert calls < 200, "512 totals, 60 phases"
    assert run.json["open"][0]["rows"][0] == {
        "chip": "assumed:0", "pool": "dram", "begin": 128, "peak": 192, "end": 192, "delta": 64
    }  # fmt: skip


def test_what_ended_out_of_order_is_still_part_of_the_older() -> None:
    run = Run().tell(
        PhaseBegan(1, "outer"), PhaseBegan(2, "first"), buffer(1, 900), Freed(0, DRAM, 1 << 12),
        PhaseBegan(3, "second"), buffer(1, 50), PhaseEnded(2), PhaseEnded(3), PhaseEnded(1),
    )  # fmt: skip
    assert [run.row(path)["peak"] for path in ("outer", "first", "second")] == [900, 900, 50]


def test_a_reset_of_peaks_takes_nothing_from_a_phase() -> None:
    run = Run().tell(PhaseBegan(1, "load"), buffer(1, 700), Freed(0, DRAM, 1 << 12))
    run.ledger.apply(run.time, None, PeaksReset())
    assert run.tell(buffer(1, 10), PhaseEnded(1)).row("load")["peak"] == 700


def test_a_device_that_turns_out_to_be_another_chip() -> None:
    """Old and new values cannot be compared: the phase begins again, and is marked as incomplete."""
    run = Run().tell(buffer(1, 1000), PhaseBegan(1, "load"), buffer(2, 500), Freed(0, DRAM, 2 << 12))
    run.tell(DeviceOpened(0, ChipInfo("X")), buffer(3, 10), PhaseEnded(1))
    last = {"begin": 1000, "peak": 1010, "end": 1010, "delta": 10}
    assert run.ended("load")["partial"] == 1
    assert [(row["chip"], row["last"]) for row in run.ended("load")["rows"]] == [("X", last)] * 2
    run.tell(PhaseBegan(2, "load"), PhaseEnded(2))
    assert (run.ended("load")["runs"], run.ended("load")["partial"]) == (2, 1)


def test_a_stronger_source_within_a_phase() -> None:
    run = Run().tell(buffer(1, 1000), PhaseBegan(1, "load"))
    agent = run.ledger.source(0.0, run.process.info, "agent", Confidence.EXACT)
    run.ledger.apply(0.0, agent, buffer(1, 600))
    run.tell(PhaseEnded(1))
    last = {"begin": 0, "peak": 600, "end": 600, "delta": 600}
    assert run.ended("load")["partial"] == 1
    assert [row["last"] for row in run.ended("load")["rows"]] == [last] * 2


def test_a_chip_that_was_left_and_is_met_again_is_the_same_row() -> None:
    run = Run().tell(buffer(1, 100), PhaseBegan(1, "load"), PhaseEnded(1), DeviceOpened(0, ChipInfo("X")))
    run.tell(
        Allocated(1, DRAM, 0x1000, 7), DeviceOpened(1, ChipInfo("assumed:0")), PhaseBegan(2, "load"), PhaseEnded(2)
    )
    pools = {row["chip"]: row["last"]["end"] for row in run.ended("load")["rows"] if row.get("pool") == "dram"}
    assert pools == {"assumed:0": 7, "X": 100}


def test_a_process_that_moves_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttmem.account.phases._MOST_COLUMNS", 10)
    run = Run().tell(buffer(1, 100), PhaseBegan(1, "load"))
    for number in range(20):
        run.tell(DeviceOpened(0, ChipInfo(f"X{number}")))
    run.tell(PhaseEnded(1))
    assert len({row["chip"] for row in run.ended("load")["rows"]}) <= 5
    assert run.json["left_out"] > 0
