# SPDX-License-Identifier: Apache-2.0
"""Device numbers of a process that sees only some chips."""

from __future__ import annotations

import pytest

from tests.snapshots import counters, slot
from ttmem.ingest.device_numbers import chips_of_slots, chips_of_visible
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.machine_rows import CounterFile

MACHINE = [ChipInfo(f"0000:0{n}:00.0", pci=f"0000:0{n}:00.0", kmd=n, board="p150a") for n in range(1, 5)]
UNKNOWN = "0000:7f:00.0"


@pytest.mark.parametrize(
    ("visible", "kmds"),
    [
        ([], []),
        (["1"], [1]),
        (["3"], [3]),
        (["2", "4"], [2, 4]),
        (["4", "2"], [2, 4]),  # numbered in the order of the driver, regardless of the order in the list
        (["2", "2"], [2]),
        (["0000:03:00.0"], [3]),
        (["03:00.0"], [3]),
        (["0000:02:00.0", "1"], [1, 2]),
        (["2", "02:00.0"], [2]),
    ],
)
def test_known_chips(visible: list[str], kmds: list[int]) -> None:
    found = chips_of_visible(visible, MACHINE)
    assert [number for number, _ in found] == list(range(len(kmds)))
    assert [chip.kmd for _, chip in found] == kmds
    assert all(chip in MACHINE for _, chip in found)


def test_letters_of_a_pci_address() -> None:
    machine = [ChipInfo("0000:c1:00.0", pci="0000:c1:00.0", kmd=0)]
    assert chips_of_visible(["0000:C1:00.0"], machine) == chips_of_visible(["C1:00.0"], machine) == [(0, machine[0])]


def test_an_index_the_machine_does_not_list() -> None:
    """Inside a container, sysfs may show nothing; the chips of two processes are distinguished anyway."""
    assert chips_of_visible(["3"], []) == [(0, ChipInfo("kmd:3", kmd=3))]
    assert chips_of_visible(["3"], []) != chips_of_visible(["5"], [])


def test_an_unlisted_pci_address_comes_last() -> None:
    found = chips_of_visible([UNKNOWN, "2"], MACHINE)
    assert [(number, chip.id) for number, chip in found] == [(0, "0000:02:00.0"), (1, UNKNOWN)]
    assert found[1][1] == ChipInfo(UNKNOWN, pci=UNKNOWN)


@pytest.mark.parametrize("odd", ["all", "-1", "1-3", "٣", "n150", "0x1", "1.0"])
def test_forms_we_do_not_know_mean_nothing(odd: str) -> None:
    assert chips_of_visible([odd], MACHINE) == []
    assert chips_of_visible(["1", odd], MACHINE) == [], "half a numbering would be wrong"


@pytest.mark.parametrize("digits", [20, 5000])
def test_an_absurd_index_does_no_harm(digits: int) -> None:
    """It is the environment of another user: the server must not fail, and must not use it to number a chip."""
    assert chips_of_visible(["9" * digits], MACHINE) == []


# -- by slots


def counted(chip_id: int, metal_id: int, *pids: int, attached: int | None = None) -> CounterFile:
    file: CounterFile = counters(chip_id, *[slot(pid, 5) for pid in pids], metal_id=metal_id)
    file["attached"] = len(pids) if attached is None else attached
    return file


ME = ProcessInfo(7, 100)


def test_the_slot_of_the_only_process() -> None:
    files = [counted(77, 0, 7), counted(78, 1, 7), counted(79, 2, 8)]
    assert chips_of_slots(ME, {0, 1, 2}, files) == [(0, ChipInfo("77")), (1, ChipInfo("78"))]
    assert chips_of_slots(ME, {1}, files) == [(1, ChipInfo("78"))]
    assert chips_of_slots(ProcessInfo(7, 999), {0, 1}, files) == [], "another process of that number"


def test_the_number_of_whoever_attached_last_is_not_ours() -> None:
    """The other process has opened the device and allocated nothing, so it has no slot."""
    assert chips_of_slots(ME, {0}, [counted(77, 0, 7, attached=2)]) == []
    assert chips_of_slots(ME, {0}, [counted(77, 0, 7, 8)]) == []


def test_two_chips_with_our_number() -> None:
    assert chips_of_slots(ME, {0, 1}, [counted(77, 0, 7), counted(78, 0, 7)]) == []
    assert chips_of_slots(ME, {0, 1}, [counted(77, 0, 7), counted(78, 0, 7, 8)]) == []


def test_a_file_without_a_unique_id() -> None:
    assert chips_of_slots(ME, {1}, [counted(1, 1, 7)]) == []
