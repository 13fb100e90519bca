# SPDX-License-Identifier: Apache-2.0
"""Attacks with a name: each is one fault that the grammar found, made on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.fuzz_grammar import Numbers
from tests.ring_memory import RingMemory
from ttmem.model.events import Allocated, DeviceOpened, Extra, ProgramRun
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.agent_ring import RingEvent
from ttmem.wire.client_encode import encode

if TYPE_CHECKING:
    from tests.fuzz_lab import Lab, Party

Attack = Callable[["Lab", "list[Party]", Numbers], None]


def records(*events: Any) -> bytes:
    return handshake.hello("client", Confidence.EXACT) + b"".join(map(encode, events))


def chip(x: int, y: int, **more: Any) -> ChipInfo:
    return ChipInfo(
        "666",
        geometry=Geometry(Arch.WORMHOLE_B0, x, y, 1499136, 104928, 35168, 12, 1 << 30, live=True)._replace(**more),
    )


def huge_grid() -> bytes:
    return records(DeviceOpened(0, chip(1 << 20, 1 << 20)), Allocated(0, Kind.L1, 200000, 64, extra=Extra(64)))


def huge_grid_with_a_program() -> bytes:
    part = Allocated(0, Kind.CB, 120000, 64, 1, extra=Extra(cores=1))
    return records(DeviceOpened(0, chip(1 << 62, 1 << 62)), part, ProgramRun(0, 1, 1))


def empty_grid() -> bytes:
    return records(DeviceOpened(0, chip(0, 0)), Allocated(0, Kind.L1, 200000, 64, extra=Extra(64)))


def no_banks() -> bytes:
    return records(DeviceOpened(0, chip(8, 8, dram_banks=0)), Allocated(0, Kind.DRAM, 64, 64, extra=Extra(64)))


def huge_reserved() -> bytes:
    return records(
        DeviceOpened(0, chip(8, 8)), Allocated(0, Kind.DRAM, 64, 64, extra=Extra(1 << 63)),
        Allocated(0, Kind.L1, 200000, 64, extra=Extra((1 << 64) - 1)),
    )  # fmt: skip


def many_huge_allocations() -> bytes:
    """The sum of sizes that are each allowed does not fit 63 bits."""
    return records(
        DeviceOpened(0, chip(8, 8)),
        *(Allocated(0, Kind.DRAM, n << 40, 100 << 30, extra=Extra((1 << 63) - 1)) for n in range(1, 9)),
    )


def many_wide_parts() -> bytes:
    """The same on all the cores that there can be, where bytes are counted on each."""
    everywhere = Extra(cores=(1 << 4096) - 1)
    parts = (Allocated(0, Kind.CB, n << 38, 100 << 30, 1, extra=everywhere) for n in range(20_000))
    return records(DeviceOpened(0, chip(64, 64)), *parts, ProgramRun(0, 1, everywhere.cores))


def lone_surrogate() -> bytes:
    body = b'{"chip":"\\ud800","board":"\\udfff","pci":"\\ud800","geometry":null}'
    opened = native.body_record(native.DEVICE_OPENED, 0, body)
    return records() + opened + encode(Allocated(0, Kind.DRAM, 64, 64))


def huge_references() -> bytes:
    return records(*(Allocated(0, Kind.DRAM, 64, 100 << 30, 0, (1 << 32) - 1) for _ in range(3)))


def bytes_of(make: Callable[[], bytes]) -> Attack:
    return lambda lab, attackers, draw: attackers[0].send(make())


def ring_chip_number(memory: RingMemory) -> None:
    memory.plain(chips=(1 << 31, (1 << 32) - 1))
    memory.append(RingEvent.ALLOCATED, 0, kind=0, address=64, size=64, per_bank=64)


def ring_parent(memory: RingMemory) -> None:
    memory.plain()
    memory.put_mesh(0, parent=0xFFFFFFFF)
    memory.append(RingEvent.ALLOCATED, 0, kind=0, address=64, size=64, per_bank=64)


def ring_wide_mask(memory: RingMemory) -> None:
    memory.plain()
    mask = memory.blob(b"\xff" * 4096)
    memory.append(RingEvent.PROGRAM, 0, program=1, size=64, per_bank=1, cores=mask)
    memory.append(RingEvent.ALLOCATED, 1, kind=5, address=120000, size=64, per_bank=64, program=1, cores=mask)
    memory.append(RingEvent.RUN, 0, program=1, per_bank=1)
    memory.append(RingEvent.FREED, 1, kind=5, address=120000, size=64, program=1, cores=mask)


def ring_grid_mask(memory: RingMemory) -> None:
    """A compute grid of as many bits as a blob has."""
    memory.plain()
    memory.put_mesh(0, cores=memory.blob(b"\xff" * 4096))
    memory.append(RingEvent.ALLOCATED, 1, kind=1, address=120000, size=64, per_bank=64)


def ring_huge_banks(memory: RingMemory) -> None:
    memory.plain()
    memory.put_mesh(0, [{"banks": 0xFFFFFFFF, "size": (1 << 64) - 1}] * 5)
    for slot, kind in enumerate((0, 1, 3, 4)):
        memory.append(RingEvent.ALLOCATED, slot, kind=kind, address=64, size=64, per_bank=0xFFFFFFFF)


def ring_of(write: Callable[[RingMemory], None]) -> Attack:
    def attack(lab: Lab, attackers: list[Party], draw: Numbers) -> None:
        memory = RingMemory()
        write(memory)
        attackers[0].hand_over(memory)
        lab.tick()

    return attack


RECORDS: dict[str, Callable[[], bytes]] = {
    one.__name__: one
    for one in (
        huge_grid, huge_grid_with_a_program, empty_grid, no_banks, huge_reserved, many_huge_allocations,
        many_wide_parts, lone_surrogate, huge_references,
    )
}  # fmt: skip
RINGS: dict[str, Callable[[RingMemory], None]] = {
    one.__name__: one for one in (ring_chip_number, ring_parent, ring_wide_mask, ring_grid_mask, ring_huge_banks)
}
KNOWN: dict[str, Attack] = {name: bytes_of(make) for name, make in RECORDS.items()}
KNOWN.update({name: ring_of(write) for name, write in RINGS.items()})
