# SPDX-License-Identifier: Apache-2.0
"""The meshes of one agent: which are open, what each record needs to know of its mesh, and their audits."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from ttmem.account.size_extremes import Sizes
from ttmem.ingest.ring_listener import RingListener
from ttmem.model.events import Audited, Device, DeviceClosed, DeviceOpened, Event, Extra
from ttmem.model.kinds import Kind
from ttmem.model.validation import MAX_BANKS, check, check_reserved
from ttmem.wire.agent_ring import (
    BINARY,
    KEPT,
    MESH_OPEN,
    MESH_SIZE,
    PER_CORE,
    SHARED,
    Mesh,
    Record,
    Ring,
    RingChip,
    RingError,
    chip_info,
    geometry_of,
)

_GONE = (0, 0)
_FIRST_PART = int(Kind.CB)
_UNKNOWN_LAYOUT = 255
_MOST_EXTRAS = 50_000  # of one mesh


class MeshView:
    """What each record of a mesh needs to know of it."""

    __slots__ = ("allocator", "banks", "device", "extras", "numbers", "sizes")

    def __init__(self, mesh: Mesh, numbers: tuple[int, ...], sizes: Sizes | None) -> None:
        self.numbers = numbers  # Metal's, of its chips
        self.device: Device = numbers[0] if len(numbers) == 1 else numbers
        self.allocator = mesh.parent + 1
        self.banks = tuple(bank.banks for bank in mesh.banks)  # by buffer kind
        self.sizes = sizes
        self.extras: dict[tuple[int, ...], Extra] = {}  # buffers share them: the same few occur again and again


class RingMeshes:
    """Meshes by their index in the agent's memory. An index is used again when its mesh was closed."""

    def __init__(self, ring: Ring, listener: RingListener) -> None:
        self._ring = ring
        self._listener = listener
        self.views: dict[int, MeshView] = {}
        self.completeness: float | None = None  # the worst of all audits so far
        self._rows: dict[int, bytes] = {}  # open meshes that are no submeshes, each with its row at the last look
        self._opened_as: dict[int, tuple[int, ...]] = {}  # open meshes, and which of all meshes of that index each is
        self._copied: dict[int, Mesh] = {}  # by index, as of the last loss, until a later mesh has the index
        self._audits: dict[int, int] = {}  # mesh -> audits seen
        self.sizes: dict[int, Sizes] = {}  # of open meshes whose sizes the listener wants

    @property
    def any_open(self) -> bool:
        return bool(self._rows)

    def view(self, number: int) -> MeshView:
        known = self.views.get(number)
        if known is not None:
            return known
        mesh = self._copied.get(number) or self._ring.mesh(number)
        return self._new_view(number, mesh, self._ring.chips_of(mesh))

    def _new_view(self, number: int, mesh: Mesh, chips: list[RingChip]) -> MeshView:
        ring = self._ring
        if mesh.state == 0:
            raise RingError(f"mesh {number} was never opened")
        if mesh.parent >= ring.mesh_count:
            raise RingError(f"mesh {number} is a submesh of mesh {mesh.parent}, which cannot be")
        if any(bank.banks > MAX_BANKS for bank in mesh.banks):
            raise RingError(f"mesh {number} has more than {MAX_BANKS} banks")
        numbers = tuple(chip.number for chip in chips)
        sizes = self.sizes.get(mesh.parent)
        if sizes is not None and len(numbers) > len(sizes.numbers):
            sizes.numbers = numbers
        view = self.views[number] = MeshView(mesh, numbers, sizes)
        return view

    def extra(self, view: MeshView, record: Record) -> Extra:
        """What is known of an allocation beside where it is. Buffers with the same properties share one object."""
        flags = record.flags
        key = record.kind, record.layout, flags, record.per_bank, record.core_count, record.name
        known = view.extras.get(key)
        if known is not None:
            return known
        tag, shape, stack = self._ring.cause(record.name)
        if record.kind >= _FIRST_PART:
            if tag is not None and "\t" in tag:  # a kernel: name, class, bytes of each binary
                tag = "{} ({}: {} B)".format(*tag.split("\t", 2))
            return Extra(None, self._ring.mask(record.cores), 0, tag, bool(flags & SHARED), stack=stack)
        reserved = record.per_bank * (record.core_count if flags & PER_CORE else view.banks[record.kind])
        check_reserved(reserved)
        extra = Extra(
            reserved,
            allocator=view.allocator,
            tag=tag,
            layout=None if record.layout == _UNKNOWN_LAYOUT else record.layout,
            core_count=record.core_count,
            binary=bool(flags & BINARY),
            shape=shape,
            stack=stack,
            kept=bool(flags & KEPT),
            per_core=bool(flags & PER_CORE),
        )
        if len(view.extras) >= _MOST_EXTRAS:
            view.extras.clear()
        view.extras[key] = extra
        return extra

    def took_per_core(self, view: MeshView) -> None:
        """A buffer has a separate address on each core: no allocator of these chips has the same free L1 on all."""
        chips = set(view.numbers)
        for sizes in self.sizes.values():
            if chips.intersection(sizes.numbers):
                sizes.took_per_core()

    # -- opening and closing -------------------------------------------------------------------------------------

    def opened(self, record: Record) -> Iterator[Event]:
        """A mesh was opened."""
        mesh = self._ring.opened_mesh(record.mesh, record.name, record.sequence)
        yield from self._opened(record.mesh, mesh, before=record.size)

    def _opened(self, number: int, mesh: Mesh, before: int = 0) -> Iterator[Event]:
        """``before`` is the bytes in its banks that were allocated before the agent could see it."""
        ring = self._ring
        self._forget(number)
        self._copied.pop(number, None)
        self._opened_as[number] = _identity(mesh)
        chips = ring.chips_of(mesh)
        if mesh.parent != number:
            self._new_view(number, mesh, chips)
            return  # a submesh: its chips are open already
        geometry = geometry_of(mesh, ring.mask(mesh.cores))
        if geometry is not None and number not in self.sizes:
            sizes = self._listener.opened(mesh, geometry, before)
            if sizes is not None:
                self.sizes[number] = sizes
        self._new_view(number, mesh, chips)
        for chip in chips:
            self._rows[number] = b""
            yield DeviceOpened(chip.number, chip_info(chip, geometry))

    def closed(self, number: int) -> Iterator[Event]:
        """A mesh was closed, and its submeshes with it."""
        view = self.view(number)
        self._take_audit(number, self._ring.mesh(number))  # the last one, made when it began to close
        self._audits.pop(number, None)
        self._rows.pop(number, None)
        devices = {one.device: None for one in self.views.values() if one.allocator == view.allocator}
        self._forget(number)
        self._opened_as.pop(number, None)
        self.sizes.pop(number, None)
        others = {one.device for one in self.views.values()}
        for device in {view.device: None, **devices}:
            if device in others:
                yield Audited(device, view.allocator, _GONE, _GONE, _GONE, _GONE)
            else:
                yield DeviceClosed(device)

    def changed(self, meshes: Sequence[Mesh], until: int) -> Iterator[Event]:
        """Close and open the meshes that were closed and opened since the last record that was read.

        ``meshes`` are those of now, by their index. What was opened after the record ``until`` is left to its record.
        """
        # A mesh that was closed after that record is used by the records in between, and its row is soon another's.
        self._copied = {number: mesh for number, mesh in enumerate(meshes) if mesh.state and mesh.opened <= until}
        before = dict(self._opened_as)
        now = {number: _identity(mesh) for number, mesh in enumerate(meshes) if mesh.state == MESH_OPEN}
        for number, mesh in enumerate(meshes):
            if mesh.opened > until:
                now.pop(number, None)
                if number in before:
                    now[number] = before[number]
        for number, identity in before.items():
            if now.get(number) != identity:
                yield from self._closed_unseen(number, is_submesh=identity[-1] != number)
        for number in self.views.keys() - now.keys():  # made for records after its row was that of a closed mesh
            del self.views[number]
        for number in sorted(now, key=lambda number: meshes[number].opened):  # a parent first: it forgets its submeshes
            if before.get(number) != now[number]:
                yield from self._opened(number, meshes[number])

    def opened_and_closed(self, known: Container[int]) -> Iterator[Event]:
        """Open and close the chips that the process had open only among lost records: all that are not known."""
        ring = self._ring
        for index in range(min(ring.field("chips_used"), ring.chip_count)):
            chip = ring.chip(index)
            if chip.number not in known:
                yield DeviceOpened(chip.number, chip_info(chip, None))
                yield DeviceClosed(chip.number)

    def _closed_unseen(self, number: int, *, is_submesh: bool) -> Iterator[Event]:
        view = self.views.get(number)
        self._audits.pop(number, None)
        self._opened_as.pop(number, None)
        self._forget(number)
        if is_submesh:
            return
        self._listener.lost_close()
        self.sizes.pop(number, None)
        self._rows.pop(number, None)
        if view is not None:
            yield Audited(view.device, number + 1, _GONE, _GONE, _GONE, _GONE)

    def _forget(self, number: int) -> None:
        """Forget a mesh and its submeshes. The index may be another mesh's from now on."""
        for index in [i for i, view in self.views.items() if i == number or view.allocator == number + 1]:
            del self.views[index]

    # -- audits --------------------------------------------------------------------------------------------------

    def audits(self) -> Iterator[tuple[int, Audited]]:
        """The last audit of each open mesh and its time, if it is new. Only rows that changed are decoded."""
        rows = self._ring.mesh_rows(max(self._rows, default=-1) + 1)
        for number, before in self._rows.items():
            row = rows[number * MESH_SIZE : (number + 1) * MESH_SIZE]
            if row == before or row[0] & 1:  # an odd turn: it is being changed, or its writer was killed meanwhile
                continue
            self._rows[number] = row
            mesh = self._ring.mesh(number)
            event = self._take_audit(number, mesh) if mesh.state == MESH_OPEN and self._is_now(number, mesh) else None
            if event is not None:
                yield mesh.audited, event._replace(device=self.view(number).device)

    def _is_now(self, number: int, mesh: Mesh) -> bool:
        """Is this row that of the mesh that has this index as of the last record? It may be that of a later one."""
        return self._opened_as.get(number, _identity(mesh)) == _identity(mesh)

    def _take_audit(self, number: int, mesh: Mesh) -> Audited | None:
        """A mesh's last audit, if it is a new one."""
        if mesh.turn & 1 or mesh.audits == self._audits.get(number, 0):
            return None  # its writer is changing it now, or was killed while it did
        self._audits[number] = mesh.audits
        event = _audit_of(mesh)
        check(event)
        both, either = event.agreement
        share = both / either if either else 1.0
        self.completeness = share if self.completeness is None else min(share, self.completeness)
        return event


def _identity(mesh: Mesh) -> tuple[int, ...]:
    """Distinguishes the meshes that have the same index one after the other."""
    return mesh.opened, mesh.chips, mesh.parent


def _audit_of(mesh: Mesh) -> Audited:
    dram, l1, _, small, trace = (mesh.banks[i] for i in range(5))
    return Audited(
        0,
        mesh.parent + 1,
        (dram.ours + trace.ours, l1.ours + small.ours),
        (dram.theirs + trace.theirs, l1.theirs + small.theirs),
        (dram.largest_free, l1.largest_free),
        (dram.banks, l1.banks),
        mesh.mismatches,
    )
