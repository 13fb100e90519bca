# SPDX-License-Identifier: Apache-2.0
"""Peaks of a recording: opening their moments finds what an account of everything has kept of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.recorded_stories import MIB, story_file
from tests.unit.test_recording_file import TwoProcesses
from ttmem.documents.peak_groups import alike
from ttmem.documents.peaks import peaks
from ttmem.documents.recorded_peaks import recorded_peaks
from ttmem.recording.moments import open_moment, peak_moment
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.schema import PeakRow


def without_references(rows: list[PeakRow]) -> list[Any]:
    """References are those of the moment: the peak, or the end, where most are freed."""
    return [{**row, "largest": [{**one, "refs": None} for one in row["largest"]]} for row in rows]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_an_account_of_everything(seed: int) -> None:
    both = TwoProcesses()
    both.act_at_random(random.Random(seed), 300)
    recording = both.recorded.recording()
    whole = recording.at(from_start=True).ledger
    found = recorded_peaks(recording, recording.at().ledger)
    assert without_references([one.row for one in found]) == without_references(peaks(whole))
    assert len({one.row["time"] for one in found}) > 3
    for row, groups in found:
        if "kind" in row:
            time = row["time"]
            assert time is not None
            moment = peak_moment(row["kind"], row["chips"][0], row["per_chip"], time)
            assert groups == alike(open_moment(recording, moment).ledger, row["chips"][0], row["kind"])
            assert sum(group["count"] * group["size"] for group in groups) == row["per_chip"]
        else:
            assert groups == []
    both.close()


def test_several_peaks_of_one_time(folder: Path) -> None:
    """Two events of one time: each peak is taken after its own event."""
    with Recording(story_file(folder)) as recording:
        ledger = recording.at().ledger
        found = {(one.row["chips"][0], one.row.get("kind")): one for one in recorded_peaks(recording, ledger)}
        assert [group["size"] for group in found["770", "dram"].groups] == [200 * MIB, 100 * MIB]
        assert [group["size"] for group in found["771", "l1"].groups] == [9 * MIB]
        assert [one["size"] for one in found["770", None].row["largest"]] in ([200 * MIB, 100 * MIB], [3 * MIB])
