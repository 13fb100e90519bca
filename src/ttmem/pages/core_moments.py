# SPDX-License-Identifier: Apache-2.0
"""The L1 of every core at a few moments of a recording: peaks, failed allocations, ends of phases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.documents.cores import all_cores
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.sections import Sections
from ttmem.recording.moments import Moment, open_moment
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import CoresAlike, CoresAtMoment, ReportMoment

MOST_MOMENTS = 32
MOST_LIVE = 200_000  # allocations at a moment: with more, a map takes seconds


class Wanted(NamedTuple):
    """A moment, the chip groups whose cores are shown, and its time in the report."""

    moment: Moment
    groups: tuple[int, ...]
    time_ns: int


def core_moments(
    recording: Recording,
    wanted: Iterable[Wanted],
    groups: list[ChipGroup],
    sections: Sections,
    shown: Callable[[CoresAtMoment], CoresAtMoment],
) -> list[ReportMoment]:
    """Opens each moment. ``shown`` gives what the page may contain."""
    found: list[ReportMoment] = []
    for number, one in enumerate(wanted):
        ledger = open_moment(recording, one.moment).ledger
        for place in one.groups:
            cores = cores_at(ledger, groups[place].shown_chip)
            if cores is not None:
                section = sections.add_json(f"cores/{number}/{place}", shown(cores))
                found.append({"time_ns": one.time_ns, "words": one.moment.words, "group": place, "cores": section})
    return sorted(found, key=lambda one: (one["time_ns"], one["group"]))


def cores_at(ledger: Ledger, chip_id: str) -> CoresAtMoment | None:
    """The cores of a chip in an account; None if no process used it, or its geometry is not known."""
    chip = ledger.chips.get(chip_id)
    if chip is None or chip.geometry is None or not chip.covered or ledger.live_count() > MOST_LIVE:
        return None
    document, details = all_cores(chip, chip.geometry)
    alike: dict[str, CoresAlike] = {}
    for detail in details:
        place = [detail["x"], detail["y"]]
        key = json.dumps({**detail, "x": 0, "y": 0}, sort_keys=True)
        alike.setdefault(key, {"at": [], "detail": dict(detail)})["at"].append(place)
    return {"cores": dict(document), "details": list(alike.values())}
