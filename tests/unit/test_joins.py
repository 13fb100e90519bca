# SPDX-License-Identifier: Apache-2.0
"""Which unique id is which PCI chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.pictures import driver_chip
from ttmem.sources.joins import find, place_of

Join = tuple[str, str]
Uses = list[tuple[dict[str, Any], set[str]]]

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def join(
    uids: list[str], *chips: dict[str, Any], uses: Sequence[Any] = (), before: Mapping[str, Join] | None = None
) -> dict[str, Join]:
    return find(uids, list(chips), list(uses), before or {})


def test_a_trained_blackhole_says_its_serial_number_and_its_place_on_the_board() -> None:
    # The example that was checked on hardware: board 0x403319141bb, unique id 0x806632283760, which is place 0.
    chip = driver_chip(0, "p150a", arch="blackhole", serial="00000403319141BB")
    assert join([str(0x806632283760)], chip) == {str(0x806632283760): (FIRST, "id")}
    assert join([str(0x806632283760)], {**chip, "arch": "wormhole_b0"}) == {}


@pytest.mark.parametrize("name", ["asic_id", "serial"])
def test_an_untrained_chip_is_called_by_its_asic_id_or_serial_number(name: str) -> None:
    chip = driver_chip(1, **{name: "00000000000F4240"})
    assert join(["1000000"], driver_chip(0), chip) == {"1000000": (SECOND, "id")}


def test_two_chips_of_one_board_are_not_told_apart_by_its_serial_number() -> None:
    chips = [driver_chip(n, "p300a", arch="blackhole", serial="00000403319141BB") for n in (0, 1)]
    assert join([str(0x806632283760)], *chips) == {}


@pytest.mark.parametrize("text", [None, "", "0000000000000000", "zz"])
def test_ids_that_say_nothing(text: str | None) -> None:
    assert join(["0"], driver_chip(0, serial=text, asic_id=text)) == {}


def test_who_uses_one_chip_and_holds_one() -> None:
    assert join(["77"], driver_chip(0), driver_chip(1), uses=[({"77": 0}, {SECOND})]) == {"77": (SECOND, "holder")}


def test_who_holds_two_and_uses_one_proves_nothing() -> None:
    assert join(["77"], driver_chip(0), driver_chip(1), uses=[({"77": 0}, {FIRST, SECOND})]) == {}


def test_what_one_process_proves_helps_with_another() -> None:
    uses: Uses = [({"77": 0, "78": 1}, {FIRST, SECOND}), ({"78": 0}, {FIRST})]
    assert join(["77", "78"], driver_chip(0), driver_chip(1), uses=uses) == {
        "78": (FIRST, "holder"),
        "77": (SECOND, "holder"),
    }


def test_several_chips_go_by_number_and_say_so() -> None:
    uses: Uses = [({"77": 1, "78": 0}, {FIRST, SECOND})]
    assert join(["77", "78"], driver_chip(0), driver_chip(1), uses=uses) == {
        "78": (FIRST, "order"),
        "77": (SECOND, "order"),
    }


def test_unknown_or_equal_numbers_have_no_order() -> None:
    chips = driver_chip(0), driver_chip(1)
    assert join(["77", "78"], *chips, uses=[({"77": None, "78": 0}, {FIRST, SECOND})]) == {}
    assert join(["77", "78"], *chips, uses=[({"77": 0, "78": 0}, {FIRST, SECOND})]) == {}


def test_an_n300_has_its_remote_chip_behind_the_local_one() -> None:
    uses: Uses = [({"77": 0, "78": 1}, {FIRST})]
    assert join(["77", "78"], driver_chip(0, "n300"), uses=uses) == {"77": (FIRST, "order")}
    assert join(["77", "78"], driver_chip(0, "n150"), uses=uses) == {}


def test_what_was_found_holds_on_when_the_process_is_gone() -> None:
    before: dict[str, Join] = {"77": (FIRST, "holder")}
    assert join(["77"], driver_chip(0), before=before) == before
    assert join(["77"], before=before) == {}, "that chip has gone"
    assert join([], driver_chip(0), before=before) == {}


def test_an_id_is_stronger_than_what_was_found_before() -> None:
    chip = driver_chip(0, asic_id=f"{78:016X}")
    assert join(["77", "78"], chip, before={"77": (FIRST, "holder")}) == {"78": (FIRST, "id")}


def test_tt_umd_knows_the_unique_id_of_a_chip() -> None:
    told = {**driver_chip(1), "unique_id": "77"}
    assert join(["77"], driver_chip(0, asic_id=f"{77:X}"), told) == {"77": (SECOND, "id")}


def test_a_chip_without_pci_address_goes_by_its_number() -> None:
    assert place_of(driver_chip(3, pci=None)) == "kmd:3"
