# SPDX-License-Identifier: Apache-2.0
"""Applies legacy records to the account in one loop while they are plain: the hot path of a socket.

A record is *plain* if it is an allocation or a free of a buffer, can have one meaning only, and its device has had a
buffer of this kind before; and if no total reaches a new high by it, and no allocation leaves that was part of a peak.
The loop gives the same result as `Ledger.allocated` and `Ledger.freed`, to which all other buffers are left.
"""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Source
from ttmem.account.leaf_runs import LeafRun, LeafRuns
from ttmem.account.ledger import Ledger
from ttmem.model.core_sets import split_core_id
from ttmem.model.geometry import noc_limits
from ttmem.model.kinds import BUFFER_KINDS, SPACE_OF, Kind
from ttmem.wire.legacy_records import Record, Type

_ALLOC, _FREE = int(Type.ALLOC), int(Type.FREE)
_CODES = len(BUFFER_KINDS)
_L1 = int(Kind.L1)


def apply_plain(ledger: Ledger, time: float, source: Source, pid: int, records: Iterator[Record]) -> Record | None:
    """Apply records of a process up to the first that is not plain. That one is returned, and has had no effect."""
    process = source.process
    if process.exited is not None or source.generation is not None or not source.kindless:
        return next(records, None)
    kinds, spaces = BUFFER_KINDS, SPACE_OF
    largest, most = ledger.limits.size, ledger.limits.allocations_per_process
    seq, count = ledger.seq, process.count
    runs = LeafRuns()
    devices: dict[int, tuple[Holding, list[LeafRun | None]]] = {}  # with a run for each code that occurred
    last: int | None = None
    try:
        for record in records:
            op, device, size, code, claimed, address, _ = record
            if device != last:
                if device not in devices:
                    if device not in source.holdings:
                        return record
                    devices[device] = source.holdings[device], [None] * _CODES
                holding, by_code = devices[device]
                buffers = holding.buffers
                last = device
            if claimed != pid or code >= _CODES:
                return record
            run = by_code[code]
            if run is None:
                leaf = holding.leaves[code]
                if leaf is None:
                    return record
                run = LeafRun(holding, kinds[code], leaf)
                if not runs.begin(run):
                    return record
                by_code[code] = run
            key = address << 2 | spaces[code]
            if op == _ALLOC:
                used = run.used + size
                if used > run.room or key in buffers or not address or not 0 < size <= largest or count >= most:
                    return record
                if code == _L1 and address > 0xFFFFFFFF and _is_core_write(holding, address):
                    return record
                seq += 1
                count += 1
                buffers[key] = Allocation(holding, run.kind, address, size, seq, time, None)
                run.used = used
                run.unknown += 1
            elif op == _FREE:
                allocation = buffers.get(key)
                if allocation is None or allocation.kind is not run.kind or allocation.born <= run.watch:
                    return record
                if allocation.refs != 1 or allocation.extra is not None:
                    return record
                if not code and (key | 1 in buffers or key | 2 in buffers):  # no hint which of them is freed (rule 5)
                    return record
                seq += 1
                count -= 1
                del buffers[key]
                allocation.refs = 0
                run.used -= allocation.size
                run.unknown -= 1
                holding.note_freed(address)
                if device:
                    source.frees_elsewhere = True
            else:
                return record
    finally:
        runs.end()
        ledger.seq, process.count = seq, count
    return None


def _is_core_write(holding: Holding, ident: int) -> bool:
    """Whether this is a write to one core, whose kind is determined by its address (rule 10)."""
    return split_core_id(ident, *noc_limits(holding.chip.geometry)) is not None
