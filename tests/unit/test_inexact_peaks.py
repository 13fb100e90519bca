# SPDX-License-Identifier: Apache-2.0
"""A peak that is only a lower limit, because records were lost, is marked wherever it is shown. An exact one is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.schema_conformance import problems
from tests.unit.test_metrics import SERVER, page
from tests.unit.test_processes import Screen, picture_of, process
from tests.unit.test_snapshot import Account
from ttmem.account.totals import Peak
from ttmem.doctor.snapshot_checks import amounts
from ttmem.documents import unknown_rows as blank
from ttmem.documents.peaks import peaks
from ttmem.documents.run_document import _chips as run_chips
from ttmem.model import schema
from ttmem.model.events import Allocated, CaughtUp, DeviceOpened, Extra, GapBegan, MissedHigh, PeaksReset
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import BreakdownPool, Kind
from ttmem.pages.notebook import _row, _Use
from ttmem.pages.report_pools import _limit, pool_peaks, report_pools
from ttmem.recording.timeline import Timeline
from ttmem.server import metrics
from ttmem.show import smi_csv
from ttmem.show.chip_table import Names
from ttmem.show.peaks_text import render as render_peaks
from ttmem.show.run_text import _at_peaks, _figures
from ttmem.show.smi_screen import render
from ttmem.show.text import Style
from ttmem.show.top.parts.rows import Characters, Size

MIB = 1 << 20
LIMITS = ("peak_dram_at_most", "peak_l1_at_most", "peak_host_at_most", "peak_system_at_most")
CHIP = ChipInfo("777", "0000:01:00.0", 3, Arch.BLACKHOLE, "p150a", False, BOARDS["p150"]._replace(live=True))
WIDE, ASCII = Style(160), Style(160, ascii=True)


def high(gauge: str, mib: int) -> MissedHigh:
    return MissedHigh((0,), gauge, *[mib * MIB] * 6)


def caught_up(*highs: MissedHigh) -> tuple[GapBegan, CaughtUp]:
    return GapBegan(), CaughtUp(10.0, highs, (), 0, False)


def dram(address: int, mib: int) -> Allocated:
    return Allocated(0, Kind.DRAM, address, mib * MIB, extra=Extra(mib * MIB))


def account(shared: bool = True) -> Account:
    """The example of rule 17: 150 MiB were reached among lost records, while another process held 30 MiB."""
    made = Account()
    first, second = made.source(42), made.source(43)
    made.apply(first, DeviceOpened(0, CHIP), dram(0x1000, 100))
    if shared:
        made.apply(second, DeviceOpened(0, CHIP), dram(0x2000, 30))
    made.apply(first, *caught_up(high("dram", 150), high("dram_pool", 150)))
    return made


def of_system() -> Account:
    """Two kinds of a pool that has no meter. Whether both were high at the same time is not known."""
    made = Account()
    source = made.source()
    made.apply(source, DeviceOpened(0, CHIP), Allocated(0, Kind.FABRIC_KERNEL, 1, MIB))
    made.apply(source, Allocated(0, Kind.DISPATCH_KERNEL, 2, MIB))
    made.apply(source, *caught_up(high("fabric_kernel", 5), high("dispatch_kernel", 3)))
    return made


def share_of(made: Account) -> Any:
    return made.snapshot()["processes"][0]["chips"][0]


# -- the account and the documents


def test_the_limit_of_a_peak() -> None:
    peak = Peak(100)
    assert (peak.limit, peak.at_most) == (None, 100)
    peak.miss(120, 150)
    assert (peak.value, peak.limit, peak.at_most) == (120, 150, 150)
    peak.reach(160, 1, 1.0)
    assert (peak.limit, peak.at_most) == (None, 160), "it is above the limit of the lost records"


def test_a_pool_without_a_meter_has_a_range() -> None:
    share = share_of(of_system())
    assert (share["peak_system"], share["peak_system_at_most"]) == (5 * MIB, 8 * MIB)
    assert [share[name] for name in LIMITS[:-1]] == [None, None, None]


def test_a_pool_without_a_meter_that_is_below_what_was_seen() -> None:
    """Each kind was high again among the lost records; both together may have been higher than ever."""
    made = of_system()
    source = made.source()
    made.apply(source, Allocated(0, Kind.FABRIC_KERNEL, 3, 5 * MIB))
    made.apply(source, *caught_up(high("fabric_kernel", 6), high("dispatch_kernel", 3)))
    share = share_of(made)
    assert (share["peak_system"], share["peak_system_at_most"]) == (7 * MIB, 9 * MIB)


def test_a_pool_with_one_kind_is_exact() -> None:
    made = Account()
    source = made.source()
    made.apply(source, DeviceOpened(0, CHIP), Allocated(0, Kind.FABRIC_KERNEL, 1, MIB))
    made.apply(source, *caught_up(high("fabric_kernel", 5)))
    share = share_of(made)
    assert (share["peak_system"], share["peak_system_at_most"]) == (5 * MIB, None)


def test_two_sources_of_a_process_have_a_range() -> None:
    made = account(shared=False)
    client = made.source(42, "client")
    made.apply(client, DeviceOpened(0, CHIP), Allocated(0, Kind.HOST, 0x10, MIB), Allocated(0, Kind.TRACE, 0x20, MIB))
    made.apply(made.source(42), *caught_up(high("dram", 200), high("dram_pool", 200)))
    share = share_of(made)
    assert share["peak_dram"] == 200 * MIB < share["peak_dram_at_most"]
    assert share["peak_host_at_most"] is None


def test_the_process_is_exact_and_its_chip_is_not() -> None:
    snapshot = account().snapshot()
    assert [share_of(account())[name] for name in ("peak_dram", *LIMITS)] == [150 * MIB, None, None, None, None]
    dram = snapshot["chips"][0]["memory"]["dram"]
    assert (dram["peak"], dram["peak_at_most"]) == (150 * MIB, 180 * MIB)


def test_what_tt_metal_counts_has_neither_peak_nor_limit() -> None:
    found = blank.share("777")
    assert [found[name] for name in LIMITS] == [None] * 4  # type: ignore[literal-required]


def test_a_run_has_the_limits() -> None:
    for shared in (True, False):
        (chip,) = run_chips(account(shared).ledger, [])
        assert problems(chip, schema.RunChip) == []
        assert chip["kinds"]["dram"]["peak_at_most"] == (180 * MIB if shared else None)
        assert [chip[pool]["reserved_peak_exact"] for pool in ("dram", "l1")] == [not shared, True]


def test_a_reset_while_records_are_not_read() -> None:
    """Until the process is caught up, the peak since the reset is between 0 and the peak before, and it is listed."""
    made = account(shared=False)
    made.apply(made.source(42), GapBegan())
    made.apply(None, PeaksReset())
    rows = [row for row in peaks(made.ledger, recent=True) if row.get("kind") == "dram"]
    assert [(row["per_chip"], row["at_most"]) for row in rows] == [(0, 150 * MIB)]


# -- screens


@pytest.mark.parametrize(("style", "sign"), [(WIDE, "≥ "), (ASCII, ">= ")])
def test_smi_by_kind(style: Style, sign: str) -> None:
    assert f"peak {sign}150.0 MiB" in render(account().snapshot(), style)
    exact = render(account(shared=False).snapshot(), style)
    assert "peak 150.0 MiB" in exact
    assert sign not in exact


def l1_snapshot(shared: bool) -> Any:
    made = Account()
    for pid in (42, 43)[: 1 + shared]:
        made.apply(made.source(pid), DeviceOpened(0, CHIP), Allocated(0, Kind.L1, 0x100000 * pid, 10 * MIB))
    made.apply(made.source(42), *caught_up(high("l1", 15), high("l1_buffer_pool", 15)))
    return made.snapshot()


def test_smi_of_l1() -> None:
    assert "peak ≥ 20.0 MiB" in render(l1_snapshot(shared=True), WIDE)
    assert "peak 15.0 MiB" in render(l1_snapshot(shared=False), WIDE)


def shares(chips: int = 1, **more: int) -> list[Any]:
    known = {"dram": MIB, "l1": 0, "peak_dram": 1023 * MIB, "peak_l1": 2 * MIB, "source": "server"}
    return [{**blank.share(f"u{number}"), **known, **more} for number in range(chips)]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_smi_of_processes(width: int) -> None:
    """A column that does not fit is left out. A lower limit is never cut off."""
    snapshot = picture_of(process(7, chips=shares(peak_dram_at_most=2048 * MIB)))
    text = render(snapshot, Style(width))
    assert ("≥ 1023.0 MiB" in text) == ("PEAK DRAM" in text)
    assert ("≥ at least: records were lost; --json has the upper limit." in text) or width == 80
    assert "≥" not in render(picture_of(process(7, chips=shares())), Style(width))
    assert "2.0 MiB" in render(snapshot, Style(160))
    assert ">= 1023.0 MiB" in render(snapshot, ASCII)
    assert render(snapshot, ASCII).isascii()


def test_smi_of_a_server_that_does_not_report_limits() -> None:
    (share,) = shares()
    for name in LIMITS:
        del share[name]
    assert "1023.0 MiB" in render(picture_of(process(7, chips=[share])), WIDE)


def test_the_list_of_processes_in_top() -> None:
    screen = Screen(picture_of(process(7, chips=shares(peak_dram_at_most=2048 * MIB))), Size(200, 40))
    text = "\n".join(screen.rows())
    assert " ≥ 1023.0 MiB " in text
    assert "≥ at least: records were lost" in text
    assert "Peaks on chip 0: DRAM ≥ 1023.0 MiB, L1 buffers 2.0 MiB" in text
    screen.press("enter")
    assert "\n".join(screen.rows()).count("≥ 1023.0 MiB ") == 2, "the process and its chip"
    screen.signs = Characters("ascii")
    assert "Peaks on chip 0: DRAM >= 1023.0 MiB" in "\n".join(screen.rows())
    assert ">= at least: records were lost" in "\n".join(screen.rows())


def test_the_list_of_processes_with_exact_peaks() -> None:
    exact = "\n".join(Screen(picture_of(process(7, chips=shares())), Size(200, 40)).rows())
    assert "≥" not in exact
    assert "Peaks on chip 0: DRAM 1023.0 MiB" in exact


def test_a_sum_over_chips_is_an_upper_limit() -> None:
    both = [*shares(), {**shares(2)[1], "peak_dram": 1 * MIB, "peak_dram_at_most": 1025 * MIB}]
    text = "\n".join(Screen(picture_of(process(7, chips=both)), Size(200, 40)).rows())
    assert "<2.0 GiB" in text


def test_chips_with_other_limits_have_rows_of_their_own() -> None:
    unequal = [*shares(), {**shares(2)[1], "peak_dram_at_most": 1025 * MIB}]
    screen = Screen(picture_of(process(7, chips=unequal)), Size(200, 40))
    rows = [row for row in screen.press("enter") if row.strip().startswith("chip ")]
    assert ["≥" in row for row in rows] == [False, True]


def run_of(made: Account) -> Any:
    return {"started": 0.0, "chips": run_chips(made.ledger, []), "peaks": peaks(made.ledger)}


@pytest.mark.parametrize(("style", "sign"), [(WIDE, "≥ "), (ASCII, ">= ")])
def test_run(style: Style, sign: str) -> None:
    run = run_of(account())
    lines = "\n".join(text for text, _ in _figures(run["chips"], ["dram"], style))
    assert f"DRAM buffers {sign}150.0 MiB".replace(" ", "") in lines.replace(" ", "")
    assert f"peak is {sign}" in lines
    assert sign not in "\n".join(text for text, _ in _figures(run_of(account(False))["chips"], ["dram"], style))


def at_peaks(run: Any) -> list[str]:
    found = {(chip, peak["kind"]): peak for peak in run["peaks"] if "kind" in peak for chip in peak["chips"]}
    return [text for text, _ in _at_peaks(run, run["chips"][0], found, WIDE)]


def test_what_was_live_at_a_peak_among_lost_records_is_not_known() -> None:
    lost = "was among records that were lost"
    assert at_peaks(run_of(account())) == [f"  the peak of DRAM buffers, ≥ 150.0 MiB, {lost}"]
    assert at_peaks(run_of(account(shared=False))) == [f"  the peak of DRAM buffers, 150.0 MiB, {lost}"]
    seen = Account()
    seen.apply(seen.source(), DeviceOpened(0, CHIP), Allocated(0, Kind.DRAM, 0x1000, MIB))
    assert at_peaks(run_of(seen))[0] == "  at the peak of DRAM buffers, 1.0 MiB after 10.00 s, the largest were:"


def test_replay_peaks() -> None:
    made = account()
    found, names = peaks(made.ledger), Names(made.snapshot()["chips"], WIDE, {})
    lost = "among records that were lost"
    assert f"DRAM buffers: ≥ 150.0 MiB, at most 180.0 MiB, {lost}" in render_peaks(found, [[]] * 9, names, WIDE)
    assert ": >= 150.0 MiB, at most" in render_peaks(found, [[]] * 9, names, ASCII)
    exact = render_peaks(peaks(account(shared=False).ledger), [[]] * 9, names, WIDE)
    assert f"DRAM buffers: 150.0 MiB {lost}" in exact


def test_csv() -> None:
    assert smi_csv.COLUMNS[-2:] == ("dram_peak_at_most_bytes", "l1_peak_at_most_bytes")
    (row,) = smi_csv.rows(account().snapshot()).splitlines()
    assert row.split(",")[-2:] == [str(180 * MIB), ""]
    (row,) = smi_csv.rows(account(shared=False).snapshot()).splitlines()
    assert row.split(",")[-2:] == ["", ""]


# -- everything else


def test_pools_of_a_report() -> None:
    for shared in (True, False):
        chip = account(shared).ledger.chips["777"]
        assert _limit(chip, BreakdownPool.DRAM, 150 * MIB) == (180 * MIB if shared else None)
        lines = {BreakdownPool.DRAM: Timeline(np.zeros(0, np.int64), np.zeros(0, np.int64))}
        (peak,) = pool_peaks(None, None, chip, lines, 1)  # type: ignore[arg-type]
        assert (peak.value, peak.at_most) == (150 * MIB, 180 * MIB if shared else None)
        (row,) = report_pools(None, [peak], lines, None, np.zeros(0, np.int64), [])  # type: ignore[arg-type]
        assert (row["peak"], row["peak_at_most"]) == (150 * MIB, 180 * MIB if shared else None)


def test_pools_of_a_report_that_the_account_does_not_have() -> None:
    """A peak of programs among lost records is not in the timeline; the kinds limit it."""
    made = Account()
    made.apply(made.source(), DeviceOpened(0, CHIP), Allocated(0, Kind.CB, 0x1000, MIB, 1))
    chip = made.ledger.chips["777"]
    assert _limit(chip, BreakdownPool.PROGRAMS, MIB) is None
    made.apply(made.source(), *caught_up(high("cb", 5), high("program_pool", 5)))
    assert _limit(chip, BreakdownPool.PROGRAMS, MIB) == 5 * MIB
    assert _limit(chip, BreakdownPool.PROGRAMS, 5 * MIB) is None
    assert _limit(of_system().ledger.chips["777"], BreakdownPool.SYSTEM, 2 * MIB) == 8 * MIB


@pytest.mark.parametrize(("at_most", "cell"), [(2 * MIB, "<td>≥ 1.0 MiB"), (None, "<td>1.0 MiB")])
def test_a_summary_in_a_notebook(at_most: int | None, cell: str) -> None:
    line = Timeline(np.array([1]), np.array([MIB]))
    row = _row(_Use(BreakdownPool.DRAM, line, MIB, at_most, 1, 4 * MIB), 10)
    assert cell in row
    assert ("≥ 25 %" in row) == (at_most is not None)


def test_metrics() -> None:
    made = account()
    found = page(made, metrics.Totals(made.ledger, pids=False), made.snapshot())
    for name, label in (("peak", "dram"), ("recent_peak", "dram"), ("pool_peak", "dram")):
        assert found[f"ttmem_{name}_bytes", "777", label] == 150 * MIB
        assert found[f"ttmem_{name}_at_most_bytes", "777", label] == 180 * MIB
    assert ("ttmem_peak_at_most_bytes", "777", "l1") not in found, "it is exact"


def test_metrics_of_exact_peaks() -> None:
    made = account(shared=False)
    found = page(made, metrics.Totals(made.ledger, pids=False), made.snapshot())
    assert [name for name, *_ in found if "at_most" in name] == []


def test_the_help_of_a_metric_says_that_it_may_be_a_lower_limit() -> None:
    made = account()
    text = metrics.page(metrics.Totals(made.ledger, pids=False), SERVER, made.snapshot(), made.snapshot())  # type: ignore[arg-type]
    helps = {family.name: family.documentation for family in text_string_to_metric_families(text.decode())}
    for name in ("ttmem_peak", "ttmem_recent_peak", "ttmem_pool_peak"):
        assert f"a lower limit where {name}_at_most_bytes has a value" in helps[f"{name}_bytes"]


@pytest.mark.parametrize(("at_most", "level"), [(None, "warning"), (64 * 1024, "warning"), (900 * MIB, "ok")])
def test_doctor_does_not_claim_that_l1_is_hardly_used(at_most: int | None, level: str) -> None:
    class Asked:
        snapshot = account().snapshot()

    Asked.snapshot["chips"][0]["memory"]["l1"] |= {"peak": 4096, "peak_at_most": at_most}
    Asked.snapshot["chips"][0]["memory"]["dram"]["used"] = 8 << 30
    (said,) = amounts(Asked())  # type: ignore[arg-type]
    assert said.level == level
    if at_most == 64 * 1024:
        assert "never more than 64.0 KiB" in said.found
