# SPDX-License-Identifier: Apache-2.0
"""Applies records of an agent's ring to the account in one loop while they are plain: the hot path of a ring.

A cached operation allocates its output, launches its programs and frees an output, and nearly all records are of this
sort. A record is *plain* if it allocates or frees an ordinary buffer with a slot of the live table, on a mesh that has
had a buffer of this kind before, or launches programs that are known; and if no total reaches a new high by it, and no
allocation leaves that was part of a peak. The loop gives the same account as `Ledger.allocated`, `Ledger.freed` and
`Ledger.apply`, to which all other records are left, but with less work:

- The totals are changed once at the end (see `leaf_runs`).
- A buffer that is allocated and freed in the same loop never becomes an `Allocation`.
- Of several launches of the same programs only the last counts, because a launch replaces what ran before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttmem.account import launches
from ttmem.account.allocations import REMEMBERED_FREES, Allocation, Holding
from ttmem.account.entities import Source
from ttmem.account.free_matching import NUMBERED
from ttmem.account.leaf_runs import LeafRun, LeafRuns
from ttmem.account.ledger import Ledger
from ttmem.account.program_events import Launched, known_launch
from ttmem.account.totals import Total
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.model.events import MAX_SIZE
from ttmem.model.kinds import BUFFER_KINDS, KINDS, Kind
from ttmem.wire.agent_ring import PER_CORE, SHARED, WHOLESALE, Record, RingEvent

_ALLOCATED, _FREED, _RUN = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.RUN)
_NOT_PLAIN = SHARED | WHOLESALE | PER_CORE
_L1 = int(Kind.L1)
_KINDS = len(BUFFER_KINDS)
_KIND_BITS = 8


class _MeshRun(LeafRun):
    """The buffers of one kind on one mesh."""

    __slots__ = ("banks", "mesh", "most_per_bank")

    def __init__(self, holding: Holding, kind: Kind, leaf: Total, mesh: int, banks: int) -> None:
        super().__init__(holding, kind, leaf)
        self.mesh = mesh
        self.banks = banks
        self.most_per_bank = MAX_SIZE // max(1, banks)


_Waiting = tuple[_MeshRun, int, tuple[int, ...], int, int]  # run, sequence number, record, size, reserved


class PlainRecords:
    """The plain records of one ring. ``offset`` added to the agent's clock gives wall time."""

    def __init__(
        self,
        ledger: Ledger,
        source: Source,
        offset: float,
        meshes: RingMeshes,
        programs: RingPrograms,
        slots: KnownSlots,
    ) -> None:
        self._ledger = ledger
        self._source = source
        self._offset = offset
        self._meshes = meshes
        self._programs = programs
        self._slots = slots

    def apply(self, batch: Sequence[tuple[int, ...]], newest: int) -> int:
        """Apply records up to the first that is not plain. Returns its index; it has had no effect.

        ``newest`` is the agent's clock when the records were read: a later time is wrong.
        """
        ledger, source = self._ledger, self._source
        process = source.process
        if process.exited is not None or source.generation is not None:
            return 0
        largest, most = ledger.limits.size, ledger.limits.allocations_per_process
        slots = self._slots.most
        ran = self._programs.ran
        seq, count = ledger.seq, process.count
        totals = LeafRuns()
        runs: dict[int, _MeshRun] = {}
        waiting: dict[int, _Waiting] = {}  # allocated by these records
        launched: dict[int, int] = {}  # workload -> its last launch
        known: dict[int, Launched] = {}
        index = 0
        try:
            for index, record in enumerate(batch):
                _, _, happened, code, _, flags, _, address, size, per_bank, slot, mesh, _, _, program, _ = record
                if happened == _RUN:
                    if per_bank != ran:
                        if per_bank not in known:
                            launch = self._launch(per_bank)
                            if launch is None:
                                return index
                            known[per_bank] = launch
                        ran = per_bank
                        seq += 1
                        launched[per_bank] = seq
                    continue
                if program or flags & _NOT_PLAIN or slot >= slots:
                    return index
                place = mesh << _KIND_BITS | code
                if place not in runs:
                    new = self._begin(totals, mesh, code)
                    if new is None:
                        return index
                    runs[place] = new
                run = runs[place]
                key = slot + 1 << 2 | NUMBERED
                if happened == _ALLOCATED:
                    reserved = per_bank * run.banks
                    used, taken = run.used + size, run.reserved + reserved
                    if used > run.room or taken > run.reserved_room or key in waiting or key in run.buffers:
                        return index
                    if not 0 < size <= largest or per_bank > run.most_per_bank or count >= most:
                        return index
                    if address > 0xFFFFFFFF and code == _L1:  # may be a write to one core (rule 10)
                        return index
                    seq += 1
                    count += 1
                    run.used = used
                    run.reserved = taken
                    run.known += 1
                    waiting[key] = run, seq, record, size, reserved
                elif happened == _FREED:
                    entry = waiting.get(key)
                    if entry is not None:
                        if entry[0] is not run:
                            return index
                        del waiting[key]
                        size, reserved = entry[3], entry[4]
                    else:
                        allocation = run.buffers.get(key)
                        if allocation is None or allocation.born <= run.watch or allocation.kind is not run.kind:
                            return index
                        extra = allocation.extra
                        if allocation.refs != 1 or extra is None or extra.reserved is None:
                            return index
                        if extra.shared or extra.per_core:
                            return index
                        del run.buffers[key]
                        allocation.refs = 0
                        size, reserved = allocation.size, extra.reserved
                    seq += 1
                    count -= 1
                    run.used -= size
                    run.reserved -= reserved
                    run.known -= 1
                    freed = run.holding.freed
                    freed.add(address)
                    if len(freed) >= REMEMBERED_FREES:
                        run.holding.forget_old_frees()
                else:
                    return index
            index = len(batch)
        finally:
            ledger.seq, process.count = seq, count
            totals.end()
            self._keep(waiting.values(), newest)
            self._programs.ran = ran
            for workload in sorted(launched, key=launched.__getitem__):
                launches.note(source, *known[workload], launched[workload])
        return index

    def _begin(self, totals: LeafRuns, mesh: int, code: int) -> _MeshRun | None:
        """The run of a kind on a mesh; None if its buffers are not plain."""
        view = self._meshes.views.get(mesh)
        holding = None if view is None else self._source.holdings.get(view.device)
        leaf = None if holding is None or code >= _KINDS else holding.leaves[code]
        if view is None or holding is None or leaf is None:
            return None
        run = _MeshRun(holding, KINDS[code], leaf, mesh, view.banks[code])
        return run if totals.begin(run) else None

    def _launch(self, workload: int) -> Launched | None:
        """The programs of a workload; None if any of them is not known."""
        event = self._programs.known_run(workload)
        return None if event is None else known_launch(self._source, event)

    def _keep(self, waiting: Iterable[_Waiting], newest: int) -> None:
        """Add the buffers that were not freed again to the account. Their sizes are in the totals already.

        This must not fail. It reads names only, and the agent's memory cannot become shorter.
        """
        meshes = self._meshes
        for run, seq, record, size, _ in waiting:
            fields = Record._make(record)
            self._slots.put(fields.slot, fields.sequence, fields.name, fields.flags)
            time = min(fields.time, newest) * 1e-9 + self._offset
            extra = meshes.extra(meshes.views[run.mesh], fields)
            key = fields.slot + 1 << 2 | NUMBERED
            run.buffers[key] = Allocation(run.holding, run.kind, fields.address, size, seq, time, extra)
