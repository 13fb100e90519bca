# SPDX-License-Identifier: Apache-2.0
"""The dump: everything allocated now, as data and as the REMAINING ALLOCATED BUFFERS text of the proof of concept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip
from ttmem.analyze.chip_sums import CountedChips, Selected
from ttmem.documents.common_text import anomaly_line
from ttmem.documents.snapshot import allocation as allocation_json
from ttmem.model.kinds import BUFFER_KINDS, KERNEL_KINDS, KIND_BY_LABEL, KINDS, Kind
from ttmem.model.printable import printable_data
from ttmem.model.uncertain_reasons import counts_text

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model import schema

SCHEMA: Final = "ttmem.dump/1"
LARGE = 1 << 20
LISTED = 10
KERNELS_LISTED = 1000

Viewer = Callable[[int | None], bool]  # may the reader see what belongs to this user?

_NOUNS = {Kind.CB: "circular buffers", Kind.DFB: "dataflow buffers", Kind.SCRATCHPAD: "scratchpads"}
_KERNEL_TYPES = {"kernel": "Application", "fabric_kernel": "Fabric", "dispatch_kernel": "Dispatch"}


class DumpFilter(NamedTuple):
    """What a dump contains: None means all chips, or all processes."""

    kernels: bool = False  # is it the list of kernels?
    chips: frozenset[str] | None = None
    pids: frozenset[int] | None = None
    kinds: frozenset[Kind] = frozenset(KINDS)
    limit: int = LISTED  # allocations to list of each kind on the same chips

    def wants(self, holding: Holding, chips: tuple[Chip, ...] = ()) -> tuple[Chip, ...]:
        """The chips of a holding that the dump contains.

        ``chips`` are all of its chips at the moment of the dump; now if none are given.
        """
        if self.pids is not None and holding.source.process.info.pid not in self.pids:
            return ()
        chips = chips or holding.chips
        return chips if self.chips is None else tuple(c for c in chips if c.id in self.chips)


EVERYTHING = DumpFilter()
KERNELS = DumpFilter(True, kinds=frozenset(KERNEL_KINDS), limit=KERNELS_LISTED)


class DumpBuilder:
    """Takes live allocations one by one, so that a server with a million of them can do it in slices.

    Allocations on the same chips are a group; one of a mesh is in one group.
    """

    def __init__(self, wanted: DumpFilter = EVERYTHING) -> None:
        self._wanted = wanted
        self._counted = CountedChips(wanted.wants)
        self._groups: dict[tuple[Selected, tuple[int, ...]], dict[Kind, _Group]] = {}
        self._known: dict[tuple[Holding, Selected], dict[Kind, _Group]] = {}
        self._chips: dict[Holding, tuple[Chip, ...]] = {}

    def locate(self, holding: Holding, chips: tuple[Chip, ...]) -> None:
        """Note the chips that a holding had at the moment of the dump, if that is not now."""
        self._chips[holding] = chips

    def add(self, item: Allocation, where: Selected | None = None) -> None:
        """Take an allocation, with the chips on which it counted at the moment of the dump, if that is not now."""
        if item.kind not in self._wanted.kinds:
            return
        if where is None:
            where = self._counted.of(item)
        if not where.chips:
            return
        kinds = self._known.get((item.holding, where))
        if kinds is None:
            chips = self._chips.get(item.holding, ())
            numbers = tuple(item.holding.number_on(chip, chips) for chip in where.chips)
            kinds = self._groups.setdefault((where, numbers), {})
            self._known[item.holding, where] = kinds
        group = kinds.get(item.kind)
        if group is None:
            group = kinds[item.kind] = _Group(where.chips)
        group.add(item, self._wanted.limit)

    def describe(self, may_see: Viewer) -> Iterator[None]:
        """Make the rows of listed allocations, one at each step."""
        for kinds in self._groups.values():
            for group in kinds.values():
                yield from group.describe(may_see, self._chips)

    def result(self, *, time: str, anomalies: schema.Anomalies, uncertain: list[schema.UncertainRow]) -> schema.Dump:
        """The document, once all rows are made. Groups on more chips come first."""
        groups: list[schema.DumpGroup] = []
        for (where, numbers), kinds in sorted(self._groups.items(), key=lambda item: (-len(item[0][1]), item[0][1])):
            groups.append(
                {
                    "chips": [chip.id for chip in where.chips],
                    "other_chips": [chip.id for chip in where.others],
                    "devices": list(numbers),
                    "kinds": [kinds[kind].json(kind) for kind in KINDS if kind in kinds],
                }
            )
        return {
            "schema": SCHEMA,
            "time": time,
            "total": sum(entry["count"] for group in groups for entry in group["kinds"]),
            "groups": groups,
            "anomalies": anomalies,
            "uncertain": uncertain,
        }


class _Group:
    """The allocations of one kind on the same chips: their sums on each chip, and the largest of them."""

    __slots__ = ("bytes", "chips", "count", "large", "large_bytes", "largest", "reserved", "rows", "unknown")

    def __init__(self, chips: tuple[Chip, ...]) -> None:
        self.chips = chips
        self.count = self.bytes = self.reserved = self.unknown = self.large = self.large_bytes = 0
        self.largest: list[tuple[int, int, Allocation]] = []  # a heap; the oldest of equal size is kept
        self.rows: list[schema.AllocationRow] = []

    def add(self, item: Allocation, limit: int) -> None:
        size, taken = item.counted, item.taken
        self.count += 1
        self.bytes += size
        if taken is None:
            self.unknown += size
        else:
            self.reserved += taken
        if size >= LARGE:
            self.large += 1
            self.large_bytes += size
        if len(self.largest) < limit:
            heappush(self.largest, (item.size, -item.born, item))
        elif limit and (item.size, -item.born) > self.largest[0][:2]:
            heapreplace(self.largest, (item.size, -item.born, item))

    def describe(self, may_see: Viewer, chips_of: dict[Holding, tuple[Chip, ...]]) -> Iterator[None]:
        for _, _, item in sorted(self.largest, key=lambda entry: (-entry[0], -entry[1], entry[2].address)):
            holding = item.holding
            see_tag = may_see(holding.source.process.info.user_id)
            row = allocation_json(item, self.chips, of=chips_of.get(holding, ()), see_tag=see_tag)
            self.rows.append({**row, "not_counted": []})
            yield

    def json(self, kind: Kind) -> schema.DumpKind:
        chips = len(self.chips)
        large, small = self.large_bytes * chips, (self.bytes - self.large_bytes) * chips
        return {
            "kind": kind.label,
            "count": self.count,
            "bytes": self.bytes * chips,
            "per_chip": self.bytes,
            "chips": chips,
            "reserved": self.reserved * chips if not self.unknown else None,
            "large": {"count": self.large, "bytes": large},
            "small": {"count": self.count - self.large, "bytes": small},
            "allocations": self.rows,
        }


class _OnDevice(NamedTuple):
    """What one device has of one kind, as the proof of concept showed it; bytes are those on this device."""

    kind: Kind
    allocated: int
    size: int
    large: schema.CountAndBytes
    small: schema.CountAndBytes
    allocations: list[schema.AllocationRow]


def _by_device(dump: schema.Dump) -> list[tuple[int, str, list[_OnDevice]]]:
    """Each device of a process with its chip and its memory; an allocation on a mesh is on each of its devices."""
    found: dict[tuple[int, str], dict[Kind, list[schema.DumpKind]]] = {}
    for group in dump["groups"]:
        for number, chip in zip(group["devices"], group["chips"]):
            kinds = found.setdefault((number, chip), {})
            for entry in group["kinds"]:
                kinds.setdefault(KIND_BY_LABEL[entry["kind"]], []).append(entry)
    return [
        (number, chip, [_on_device(kind, kinds[kind]) for kind in KINDS if kind in kinds])
        for (number, chip), kinds in sorted(found.items())
    ]


def _on_device(kind: Kind, entries: list[schema.DumpKind]) -> _OnDevice:
    def summed(part: Literal["large", "small"]) -> schema.CountAndBytes:
        return {
            "count": sum(entry[part]["count"] for entry in entries),
            "bytes": sum(entry[part]["bytes"] // entry["chips"] for entry in entries),
        }

    rows = [row for entry in entries for row in entry["allocations"]]
    if len(entries) > 1:
        rows.sort(key=lambda row: (-row["size"], row["since"]))
    count, size = sum(entry["count"] for entry in entries), sum(entry["per_chip"] for entry in entries)
    return _OnDevice(kind, count, size, summed("large"), summed("small"), rows)


def _box(title: str) -> list[str]:
    inner = 62
    return ["╔" + "═" * inner + "╗", "║" + title.center(inner) + "║", "╚" + "═" * inner + "╝"]


def _mb(size: int) -> str:
    return f"{_short(size / 1048576)} MB"


def _kb(size: int) -> str:
    return f"{_short(size / 1024)} KB"


def _short(value: float) -> str:
    """Six digits, as the proof of concept had them; more where they stand before the point."""
    return f"{value:g}" if value < 1e6 else f"{value:.0f}"


def remaining_text(dump: schema.Dump) -> str:
    """The dump as the proof of concept printed it, with the breakdown, circular buffers and kernels it lacked."""
    dump = printable_data(dump)
    devices = _by_device(dump)
    total = sum(entry.allocated for _, _, kinds in devices for entry in kinds)
    lines = [*_box("REMAINING ALLOCATED BUFFERS"), f"Total tracked allocations: {total}"]
    if not devices:
        known = "that is known to have been " if dump["uncertain"] else "that was "
        lines.append(f"No buffers remaining: everything {known}allocated has been freed.")
    buffers = 0
    for number, chip, kinds in devices:
        lines += ["", f"Device {number}:", f"  Chip: {chip}"]
        large = small = large_bytes = small_bytes = 0
        for entry in kinds:
            kind = entry.kind
            if kind in BUFFER_KINDS or kind is Kind.FIRMWARE:
                buffers += entry.allocated
                large, large_bytes = large + entry.large["count"], large_bytes + entry.large["bytes"]
                small, small_bytes = small + entry.small["count"], small_bytes + entry.small["bytes"]
            noun = _NOUNS.get(kind, "kernels" if kind in KERNEL_KINDS else "buffers")
            name = "SYSTEM_MEMORY" if kind is Kind.HOST else kind.name
            lines.append(f"  {name}: {entry.allocated} {noun}, {_mb(entry.size)} total")
            if entry.allocated <= LISTED:
                lines += [f"    - {_allocation_line(item)}" for item in entry.allocations]
        if large or small:
            lines.append("  Breakdown:")
            lines.append(f"    - large buffers (1 MiB and more): {large}, {_mb(large_bytes)}")
            lines.append(f"    - small buffers: {small}, {_mb(small_bytes)}")
    doubt = f" (uncertain: {counts_text(dump['uncertain'])})" if dump["uncertain"] else ""
    lines += ["", f"Total remaining buffers: {buffers}{doubt}", anomaly_line(dump["anomalies"])]
    return "\n".join(lines)


def _allocation_line(item: schema.AllocationRow) -> str:
    word = {"cb": "CB", "dfb": "DFB", "scratchpad": "Scratchpad"}.get(item["kind"]) or _KERNEL_TYPES.get(item["kind"])
    if word in _KERNEL_TYPES.values() and item["core"] is None:
        word = f"{word} kernel"
    else:
        word = "Buffer" if item["core"] or word is None else word
    references = f"ref_count={item['refs']}" if item["refs"] else "freed since this dump was requested"
    text = f"{word} {item['id']}: {_kb(item['size'])} (PID {item['pid']}, {references})"
    if item["core"]:
        core = item["core"]
        text += f" core ({core['x']},{core['y']}) at {core['address']:#x}: {core['what']}"
    if item["cores"]:
        text += f" on {item['cores']}"
    if item["tag"]:
        text += f" [{item['tag']}]"
    if item["shared"]:
        text += " in an L1 buffer, which is counted"
    return text


def kernels_text(dump: schema.Dump, now: float) -> str:
    """The detailed kernel list."""
    dump = printable_data(dump)
    lines = _box("DETAILED KERNEL ALLOCATIONS")
    devices = _by_device(dump)
    if not devices:
        lines.append("No kernels loaded.")
    for number, _, kinds in devices:
        count, size = sum(entry.allocated for entry in kinds), sum(entry.size for entry in kinds)
        lines += ["", f"Device {number}: {_mb(size)} in {count} kernels"]
        for entry in kinds:
            lines += [
                f"    - Kernel {item['id']}: {_KERNEL_TYPES[item['kind']]}, {_kb(item['size'])}, "
                f"PID {item['pid']}, age {max(0.0, now - item['since']):.0f} s"
                + (f" [{item['tag']}]" if item["tag"] else "")
                for item in entry.allocations
            ]
            if entry.allocated > len(entry.allocations):
                lines.append(f"    - and {entry.allocated - len(entry.allocations)} more")
    return "\n".join(lines)
