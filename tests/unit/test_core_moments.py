# SPDX-License-Identifier: Apache-2.0
"""The cores of a moment: one document for the chip, and each core in the detail that `ttmem l1 --core` shows."""

from __future__ import annotations

import asyncio

from tests.unit.test_residency import Launches
from ttmem.documents.cores import Cores
from ttmem.model.kinds import Kind
from ttmem.pages.core_moments import cores_at


def test_each_core_has_the_detail_of_the_server() -> None:
    script = Launches(5)
    agent = script.agents[0]
    agent.allocate(50, 1024, 0x100000, kind=Kind.L1, per_bank=1024, core_count=1)
    agent.allocate(51, 64 * 2048, 0x120000, kind=Kind.L1, per_bank=2048)
    recording = script.recording(80)
    ledger = recording.at().ledger
    found = cores_at(ledger, "555")
    assert found is not None
    places = [tuple(place) for alike in found["details"] for place in alike["at"]]
    assert sorted(places) == sorted((core["x"], core["y"]) for core in found["cores"]["cores"])  # type: ignore[attr-defined]
    assert 1 < len(found["details"]) < len(places)
    for alike in found["details"]:
        for x, y in alike["at"]:
            expected = asyncio.run(Cores(ledger).document("555", (x, y), lambda user_id: True))["core"]
            assert expected is not None
            assert {**alike["detail"], "x": x, "y": y} == expected
    script.close()


def test_a_chip_that_is_not_known() -> None:
    script = Launches(1)
    assert cores_at(script.recording(5).at().ledger, "999") is None
    script.close()
