# SPDX-License-Identifier: Apache-2.0
"""Matching of unique ids with PCI chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.snapshots import driver_chip
from ttmem.documents.chip_matching import find, place_of, remember

Join = tuple[str, str]
Uses = list[tuple[dict[str, Any], set[str]]]

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def join(
    chip_ids: list[str], *chips: Any, uses: Sequence[Any] = (), before: Mapping[str, Join] | None = None
) -> dict[str, Join]:
    memory = {chip_id: (*known, (None, None)) for chip_id, known in (before or {}).items()}
    return find(chip_ids, list(chips), list(uses), memory)


def test_a_trained_blackhole_says_its_serial_number_and_its_place_on_the_board() -> None:
    # This example was checked on hardware: board 0x403319141bb, unique id 0x806632283760, which is position 0.
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


# -- never the wrong chip


@pytest.mark.parametrize(
    ("board", "found"), [("p150a", True), ("p100a", True), ("p300a", False), ("galaxy-blackhole", False)]
)
def test_the_only_chip_in_sight_of_a_board_with_several_is_not_all_of_them(board: str, found: bool) -> None:
    """A container, a virtual machine or a failed chip leaves one chip; the serial number is that of the board."""
    chip = driver_chip(0, board, arch="blackhole", serial="00000403319141BB")
    assert bool(join([str(0x806632283761)], chip)) is found


def test_a_wormhole_tray_has_one_serial_number_for_many_chips() -> None:
    assert join(["1000000"], driver_chip(0, "galaxy-wormhole", serial="00000000000F4240")) == {}


def test_who_holds_an_n300_may_use_the_chip_behind_it() -> None:
    chip = driver_chip(0, "n300")
    assert join(["78"], chip, uses=[({"78": 1}, {FIRST})]) == {}
    assert join(["78"], chip, uses=[({"78": None}, {FIRST})]) == {}
    assert join(["77"], chip, uses=[({"77": 0}, {FIRST})]) == {"77": (FIRST, "order")}, "numbers are an assumption"
    assert find(["77"], [chip], [({"77": 5}, {FIRST})], {}, {"77": (None, False)}) == {"77": (FIRST, "holder")}
    hidden = {**chip, "board": None}
    assert join(["78"], hidden, uses=[({"78": 1}, {FIRST})]) == {}, "in reset it does not say which board it is"


def test_half_of_a_t3k_with_remote_chips() -> None:
    """tt-metal's chips 4 and 5 are remote, although as many chips are used as are held."""
    chips = [driver_chip(kmd, "n300") for kmd in range(4)]
    places = {chip["pci"] for chip in chips}
    found = join(["70", "71", "74", "75"], *chips, uses=[({"70": 0, "71": 1, "74": 4, "75": 5}, places)])
    assert found == {"70": (FIRST, "order"), "71": (SECOND, "order")}


def test_what_follows_from_an_assumption_is_one() -> None:
    third = "0000:03:00.0"
    chips = [driver_chip(kmd) for kmd in range(3)]
    uses: Uses = [({"77": 0, "78": 1}, {FIRST, SECOND}), ({"78": 0, "79": 1}, {SECOND, third})]
    assert set(join(["77", "78", "79"], *chips, uses=uses).values()) == {(p, "order") for p in (FIRST, SECOND, third)}


def test_two_who_contradict_each_other_prove_nothing() -> None:
    chips = driver_chip(0), driver_chip(1)
    assert join(["77"], *chips, uses=[({"77": 0}, {FIRST}), ({"77": 0}, {SECOND})]) == {}
    assert join(["77", "78"], *chips, uses=[({"77": 0}, {FIRST}), ({"78": 0}, {FIRST})]) == {}
    assert join(["77"], *chips, uses=[({"77": 0}, {FIRST}), ({"77": 1}, {FIRST})]) == {"77": (FIRST, "holder")}


def test_what_is_shown_now_is_stronger_than_what_was_remembered() -> None:
    chips = driver_chip(0), driver_chip(1)
    for how in ("order", "holder"):
        found = join(
            ["77", "78"], *chips, uses=[({"77": 0}, {SECOND})], before={"77": (FIRST, how), "78": (SECOND, how)}
        )
        assert found == {"77": (SECOND, "holder")}, how


def test_another_card_in_the_same_place_is_not_remembered() -> None:
    before: dict[str, Any] = {}
    remember(before, {"77": (FIRST, "holder")}, [driver_chip(0)])
    assert find(["77"], [driver_chip(0)], [], before)
    assert find(["77"], [driver_chip(0, asic_id=None, serial=None)], [], before), "it is in reset"
    assert find(["77"], [driver_chip(0, asic_id=None)], [], before)
    assert find(["77"], [driver_chip(0, asic_id="00000000000000EE")], [], before) == {}
    assert find(["77"], [driver_chip(0, asic_id=None, serial="00000000000000EE")], [], before) == {}


def test_a_chip_of_another_family_is_another_chip() -> None:
    """A process holds a device, but uses a simulated one."""
    uses: Uses = [({"77": 0}, {FIRST})]
    assert find(["77"], [driver_chip(0)], uses, {}, {"77": ("blackhole", None)}) == {}
    assert find(["77"], [driver_chip(0)], uses, {}, {"77": ("wormhole_b0", None)}) == {"77": (FIRST, "holder")}
