# SPDX-License-Identifier: Apache-2.0
"""What an account knows of the past, as JSON: peaks with their times, phases, failures, and counts.

What is live follows from a table of live allocations; the past does not. `saved` takes it from an account, `restore`
puts it into another one in which the same is live. Both cost as much as there are totals and phases, however many
allocations there are. What was live at a peak is not saved: that is answered by opening the moment of the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ttmem.account.allocations import Holding, Program
from ttmem.account.allocator_views import Agreement
from ttmem.account.arbitration import new_leaf
from ttmem.account.entities import Chip, Process, Share, Source
from ttmem.account.phases import Phase, PhasePath, Phases, Run, TotalKey
from ttmem.account.shared_totals import link, split
from ttmem.account.state import AccountState
from ttmem.account.totals import Peak, Total
from ttmem.model.events import Device, Failed, device_numbers
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Kind, Pool

Json = dict[str, Any]
_SIZES_AT = 12  # in a row of figures


class _Figures:
    """The figures of each total, once for all chips that share it."""

    def __init__(self) -> None:
        self.rows: list[list[float | None]] = []
        self._numbers: dict[Total, int] = {}

    def of(self, total: Total) -> int:
        number = self._numbers.get(total)
        if number is None:
            number = self._numbers[total] = len(self.rows)
            peak, recent = total.peak, total.recent
            self.rows.append([
                peak.value, peak.seq, peak.time, recent.value, recent.seq, recent.time, total.reserved_peak,
                total.used if total.gaps else total.high, total.high_before,
                peak.bound, recent.bound, total.reserved_bound,
                total.used, total.reserved, total.known, total.unknown,
            ])  # fmt: skip
        return number


def saved(state: AccountState) -> Json:
    """The past of an account."""
    figures = _Figures()
    all_chips = state.chips.all_chips
    return {
        "seq": state.seq,
        "anomalies": dict(state.anomalies),
        "uncertain": dict(state.uncertain),
        "marks": list(state.marks),
        "peaks_since": state.peaks_since,
        "chips": [
            [_chip_info(chip.info), chip.found, chip.named_by, *(list(map(figures.of, row)) for row in
             (chip.kinds, chip.pools)), chip.launched, sum(1 << kind for kind in chip.covered)]
            for chip in state.chips.values()
        ],
        "resident": [
            [chip.id, [[*_place(program), cores] for program, cores in chip.resident_programs()]]
            for chip in state.chips.values()
            if chip.launched
        ],
        "all_chips": None if all_chips is None else figures.of(all_chips.total),
        "processes": [_process(process, figures) for process in (*state.processes.values(), *state.departed)],
        "figures": figures.rows,
    }  # fmt: skip


def _place(program: Program) -> list[Any]:
    holding = program.holding
    return [list(holding.source.process.info.key), holding.source.name, holding.device, program.ident]


def _chip_info(info: ChipInfo) -> list[Any]:
    geometry = None if info.geometry is None else [int(info.geometry.arch), *info.geometry[1:]]
    return [info.id, info.pci, info.kmd, int(info.arch), info.board, info.remote, geometry]


def _process(process: Process, figures: _Figures) -> Json:
    return {
        "key": list(process.info.key),
        "info": list(process.info),
        "seen": process.seen,
        "exited": process.exited,
        "count": process.count,
        "anomalies": dict(process.anomalies),
        "uncertain": dict(process.uncertain),
        "claimed": sorted(process.claimed),
        "failures": [process.failures.count, [[time, list(event)] for time, event in process.failures.last]],
        "numbers": [[number, chip.id] for number, chip in process.numbers.items()],
        "shares": {chip_id: list(map(figures.of, share.pools)) for chip_id, share in process.shares.items()},
        "moved_in": _moved_in(process) if process.exited is None else [],
        "sources": [_source(source, figures) for source in process.sources.values()],
        "phases": _phases(process.phases),
    }


def _moved_in(process: Process) -> list[tuple[str, int, int]]:
    """The last moves to each chip, by kind."""
    return [
        (chip_id, kind, seq)
        for chip_id, share in process.shares.items()
        for kind, seq in enumerate(share.moved_in)
        if seq
    ]


def _source(source: Source, figures: _Figures) -> Json:
    return {
        "name": source.name,
        "confidence": int(source.confidence),
        "trouble": source.trouble,
        "covered": sum(1 << kind for kind in source.covered),
        "frees_elsewhere": source.frees_elsewhere,
        "agreements": [
            [holding.device, int(kind), *agreement]
            for holding in source.holdings.values()
            for kind, agreement in holding.agreements.items()
        ],
        "totals": [[number, int(kind), figures.of(total)] for (number, kind), total in source.totals.items()],
        "leaves": [
            [holding.device, int(kind), figures.of(leaf), leaf.since, *_counted_on(holding, leaf)]
            for holding in source.holdings.values()
            for kind, leaf in zip(KINDS, holding.leaves)
            if leaf is not None
        ],
    }


def _counted_on(holding: Holding, leaf: Total) -> list[list[str]]:
    """The chips on which a leaf of a process that exited counts; for a living one, they follow from what is live."""
    living = holding.source.process.exited is None
    return [] if living else [[chip.id for chip in holding.chips if chip in leaf.chips]]


def _phases(phases: Phases) -> Json:
    phases.settle()
    return {
        "columns": [[*key, column] for key, column in phases.columns.items()],
        "left_out": phases.left_out,
        "missed": phases.missed,
        "most_rows": phases.most_rows,
        "open": [
            [
                source.name,
                ident,
                phase.path,
                phase.began,
                phase.begin_seen,
                phase.begin,
                phase.gap,
                list(phase.peaks.items()),
            ]
            for (source, ident), phase in phases.open.items()
        ],
        "ended": {
            name: [path.runs, path.partial, path.seconds, path.since, path.until, path.peak, path.delta, *path.last]
            for name, path in phases.ended.items()
        },
    }


# -- and back -------------------------------------------------------------------------------------------------------


def restore(state: AccountState, past: Json, time: float) -> None:
    """Put a saved past into an account in which the same is live.

    ValueError, KeyError, TypeError or IndexError if it is not what `saved` made.
    """
    figures: list[list[float]] = past["figures"]
    chips: list[tuple[Chip, list[int], list[int]]] = []
    for info, found, named_by, kinds, pools, launched, covered in past["chips"]:
        chip = state.chips.described(_info(info), user=named_by)
        chip.found, chip.named_by = bool(found), named_by
        chip.launched = chip.launched or bool(launched)
        chip.covered |= _kinds(covered)
        chips.append((chip, kinds, pools))
    by_key = {process.info.key: process for process in (*state.departed, *state.processes.values())}
    processes = [(one, by_key.get(tuple(one["key"]))) for one in past["processes"]]
    for one, process in processes:
        if process is not None and process.exited is None:
            _make_leaves(state, one, process, time)
    _split_as([(chip, chip.kinds, row) for chip, row, _ in chips], len(KINDS), figures)
    _split_as([(chip, chip.pools, row) for chip, _, row in chips], len(Pool), figures)
    for one, process in processes:
        if process is not None and process.exited is None:
            shares = [
                (share.chip, share.pools, row)
                for chip_id, row in one["shares"].items()
                if (share := process.shares.get(chip_id)) is not None
            ]
            _split_as(shares, len(Pool), figures)
    for holding in state.holdings():
        for kind, leaf in zip(KINDS, holding.leaves):
            if leaf is not None and leaf.chips:
                link(holding, kind, leaf)
    for chip, kinds, pools in chips:
        _set_all(zip((*chip.kinds, *chip.pools), (*kinds, *pools)), figures)
    for one, process in processes:
        if process is not None:
            (_restore_living if process.exited is None else _restore_dead)(state, one, process, figures)
            _restore_counts(one, process)
    if state.chips.all_chips is not None and past["all_chips"] is not None:
        _set(state.chips.all_chips.total, figures[past["all_chips"]])
    _restore_residents(state, past["resident"], int(past["seq"]))
    _reorder(state.chips, (chip.id for chip, _, _ in chips))
    _reorder(state.processes, (tuple(one["key"]) for one in past["processes"]))
    state.seq = int(past["seq"])
    state.anomalies = Counter(past["anomalies"])
    state.uncertain = Counter(past["uncertain"])
    state.marks.clear()
    state.marks.extend((float(when), str(text)) for when, text in past["marks"])
    state.peaks_since = past["peaks_since"]


def _info(fields: list[Any]) -> ChipInfo:
    chip_id, pci, kmd, arch, board, remote, geometry = fields
    sizes = None if geometry is None else Geometry(Arch(geometry[0]), *geometry[1:])
    return ChipInfo(chip_id, pci, kmd, Arch(arch), board, remote, sizes)


def _kinds(mask: int) -> frozenset[Kind]:
    return frozenset(kind for kind in KINDS if mask >> kind & 1)


def _make_leaves(state: AccountState, one: Json, process: Process, time: float) -> None:
    """Make the totals of kinds of which the process held something earlier."""
    for number, chip_id in one["numbers"]:
        if number not in process.numbers and chip_id in state.chips:
            process.numbers[number] = state.chips[chip_id]
    for row in one["sources"]:
        source = process.sources.get(row["name"])
        for device, kind, _, since, *_ in row["leaves"] if source is not None else ():
            assert source is not None
            holding: Holding | None = state.holding(source, _device(device))
            if holding is not None:
                leaf = holding.leaves[kind] or new_leaf(holding, Kind(kind), state.seq, time)
                leaf.since = since


def _split_as(rows: list[tuple[Chip, list[Total], list[int]]], count: int, figures: list[list[float]]) -> None:
    """Let chips share a total only if they did when the past was saved."""
    for index in range(count):
        groups: dict[int, list[tuple[Chip, list[Total]]]] = {}
        for chip, totals, numbers in rows:
            if any(figures[numbers[index]]):
                groups.setdefault(numbers[index], []).append((chip, totals))
        for members in groups.values():
            split(members, index)


def _set_all(pairs: Iterable[tuple[Total, int]], figures: list[list[float]]) -> None:
    for total, number in pairs:
        if any(figures[number]):
            _set(total, figures[number])


def _set(total: Total, row: list[float]) -> None:
    value, seq, time, recent, recent_seq, recent_time, reserved_peak, high, high_before, *bounds = row[:_SIZES_AT]
    total.peak.reach(int(value), int(seq), time)
    total.recent = Peak(int(recent), int(recent_seq), recent_time)
    total.watch = max(int(recent_seq), int(seq))
    total.reserved_peak, total.high, total.high_before = int(reserved_peak), int(high), int(high_before)
    total.reserved_high = total.reserved_peak
    total.peak.bound, total.recent.bound, total.reserved_bound = map(int, bounds)


def _reorder(entries: dict[Any, Any], keys: Iterable[Any]) -> None:
    """Documents list things in the order in which they became known."""
    for key in keys:
        if key in entries:
            entries[key] = entries.pop(key)


def _restore_residents(state: AccountState, residents: list[Any], seq: int) -> None:
    """A table has the last launch of each program, but not those of programs that were destroyed since."""
    for process in state.processes.values():
        for source in process.sources.values():
            source.launches.clear()
            source.stale_launches = 0
    for chip in state.chips.values():
        chip.resident, chip.folded = [], seq
    for chip_id, rows in residents:
        chip_row = state.chips[chip_id]
        for key, name, device, ident, cores in rows:
            owner = state.processes.get(tuple(key))
            holder = None if owner is None else owner.sources.get(name)
            holding = None if holder is None else holder.holdings.get(_device(device))
            program = None if holding is None else holding.programs.get(ident)
            if program is not None:
                chip_row.resident.append((program, cores))


def _device(value: Any) -> Device:
    return tuple(value) if isinstance(value, list) else value


def _restore_living(state: AccountState, one: Json, process: Process, figures: list[list[float]]) -> None:
    _reorder(process.numbers, (number for number, _ in one["numbers"]))
    _reorder(process.shares, one["shares"])
    for chip_id, numbers in one["shares"].items():
        if chip_id in process.shares:
            _set_all(zip(process.shares[chip_id].pools, numbers), figures)
            process.shares[chip_id].moved_in = [0] * len(KINDS)
    for chip_id, kind, seq in one["moved_in"]:
        if chip_id in process.shares:
            process.shares[chip_id].moved_in[kind] = seq
    for row in one["sources"]:
        source = process.sources.get(row["name"])
        if source is None:
            continue
        source.trouble, source.covered = row["trouble"], _kinds(row["covered"])
        source.frees_elsewhere = bool(row["frees_elsewhere"])
        for known in source.holdings.values():
            known.agreements.clear()
        for device, kind, both, either in row["agreements"]:
            if (viewed := source.holdings.get(_device(device))) is not None:
                viewed.agreements[Kind(kind)] = Agreement(both, either)
        _reorder(source.totals, [(number, Kind(kind)) for number, kind, _ in row["totals"]])
        for number, kind, which in row["totals"]:
            total = source.totals.get((number, Kind(kind)))
            if total is not None:
                _set(total, figures[which])
        for device, kind, which, *_ in row["leaves"]:
            holding = source.holdings.get(_device(device))
            leaf = None if holding is None else holding.leaves[kind]
            if leaf is not None:
                _set(leaf, figures[which])
    _restore_phases(process, one["phases"])


def _restore_dead(state: AccountState, one: Json, process: Process, figures: list[list[float]]) -> None:
    """A process that had exited: its totals stay as they were. Which allocations it had is not known any more."""
    process.exited, process.count = one["exited"], int(one["count"])
    for number, chip_id in one["numbers"]:
        if chip_id in state.chips:
            process.numbers[number] = state.chips[chip_id]
    made: dict[int, Total] = {}

    def total_of(which: int) -> Total:
        total = made.get(which)
        if total is None:
            total = made[which] = Total()
            _set(total, figures[which])
            total.used, total.reserved, total.known, total.unknown = (
                int(value) for value in figures[which][_SIZES_AT:]
            )
        return total

    for row in one["sources"]:
        source = process.sources.get(row["name"])
        if source is not None:
            source.trouble, source.covered = row["trouble"], _kinds(row["covered"])
            source.totals = {(number, Kind(kind)): total_of(which) for number, kind, which in row["totals"]}
            source.holdings.clear()
            for device, kind, which, since, counted_on in row["leaves"]:
                holding = _dead_holding(source, _device(device))
                if holding is not None:
                    leaf = holding.leaves[kind] = total_of(which)
                    leaf.since = since
                    leaf.chips = frozenset(chip for chip in holding.chips if chip.id in counted_on)
    for chip_id, numbers in one["shares"].items():
        if chip_id in state.chips:
            share = process.shares[chip_id] = Share(state.chips[chip_id], process.nothing)
            share.pools = [total_of(which) for which in numbers]
            for source in process.sources.values():
                for number, kind in source.totals:
                    if process.numbers.get(number) is share.chip and share.voices[kind] is None:
                        share.voices[kind] = source
    _restore_phases(process, one["phases"])


def _dead_holding(source: Source, device: Device) -> Holding | None:
    """What a source of a process that exited held on a device; None if the chips of that are not known."""
    known = source.holdings.get(device)
    if known is None:
        numbers = source.process.numbers
        chips = tuple(numbers[number] for number in device_numbers(device) if number in numbers)
        if len(chips) != len(device_numbers(device)):
            return None
        known = source.holdings[device] = Holding(source, device, chips)
    return known


def _restore_counts(one: Json, process: Process) -> None:
    process.seen = one["seen"]
    process.info = ProcessInfo(*one["info"])
    process.anomalies = Counter(one["anomalies"])
    process.uncertain = Counter(one["uncertain"])
    process.claimed = set(one["claimed"])
    count, last = one["failures"]
    process.failures.count = count
    process.failures.last.clear()
    process.failures.last.extend((time, Failed(*event)) for time, event in last)


def _restore_phases(process: Process, past: Json) -> None:
    phases = process.phases
    ended: dict[str, PhasePath] = {}
    for path_name, fields in past["ended"].items():
        done = ended[path_name] = PhasePath()
        done.runs, done.partial, done.seconds, done.since, done.until = fields[:5]
        done.peak, done.delta = list(fields[5]), list(fields[6])
        done.last = Run(*(list(column) for column in fields[7:10]))
    columns = {TotalKey(*key): column for *key, column in past["columns"]}
    phases.restore(columns, ended, past["left_out"], past["most_rows"])
    phases.open.clear()
    phases.missed = past["missed"]
    for name, ident, path, began, begin_seen, begin, gap, peaks in past["open"]:
        source = process.sources.get(name)
        if source is not None:
            phase = phases.open[source, ident] = Phase(path, began, begin_seen, list(begin), gap)
            phase.peaks = dict(peaks)
