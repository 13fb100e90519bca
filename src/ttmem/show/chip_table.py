# SPDX-License-Identifier: Apache-2.0
"""The table of chips in a snapshot, a row for each, and the short names of chips."""

from __future__ import annotations

from ttmem.documents.common_text import chip_title, short_chip_title
from ttmem.model.units import human
from ttmem.show.text import BOLD, DIM, NONE, RED, YELLOW, Column, Style, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypedDict

    from ttmem.model.schema import ChipRow, L1Row, Telemetry
    from ttmem.show.text import Cell

    class UsedAndReserved(TypedDict):
        """The keys that `level` reads: of a pool, or of a part of one."""

        used: int | None
        reserved: int | None


_LONG_CHIP_ID_CHARACTERS = 12
_WIDE_COLUMNS = 132  # from this width on, sizes have their full units


class Names:
    """The short names of the chips of a snapshot.

    In tables: the number and the PCI address if known, else the id; for a long id its end, because the ids of one
    machine differ there. In titles: the board, the number and the complete id.
    """

    def __init__(self, chips: list[ChipRow], style: Style, numbers: Mapping[str, int]) -> None:
        """``numbers`` are those of all chips, also of others: `common_text.chip_numbers` of the whole snapshot."""
        self._numbers = {chip["chip"]: numbers[chip["chip"]] for chip in chips if chip["chip"] in numbers}
        self._boards = {chip["chip"]: chip["board"] for chip in chips}
        self._short = _shortened([chip["chip"] for chip in chips if chip["chip"] not in self._numbers], style)
        self._places = {chip["chip"]: _place(chip) for chip in chips}
        self._order = {chip["chip"]: number for number, chip in enumerate(chips)}
        self._digits = max((len(str(number)) for number in self._numbers.values()), default=0)

    def full(self, chip_id: str) -> str:
        """The name of a chip in the first column of the table."""
        if chip_id not in self._numbers:
            return self.short(chip_id)
        return f"{self._numbers[chip_id]:>{self._digits}} {self._places[chip_id]}".rstrip()

    def short(self, chip_id: str) -> str:
        """The name of a chip in sentences."""
        return str(self._numbers[chip_id]) if chip_id in self._numbers else self._short.get(chip_id, chip_id)

    def title(self, chip_id: str) -> str:
        """The name of a chip in titles and sentences of their own, with its id."""
        return chip_title(chip_id, self._numbers.get(chip_id), self._boards.get(chip_id))

    def short_title(self, chip_id: str) -> str:
        """The same without the id, for tables with a legend."""
        return short_chip_title(chip_id, self._numbers.get(chip_id), self._boards.get(chip_id))

    def group_title(self, chip_ids: Sequence[str]) -> str:
        """The title of chips that have the same figures.

        >>> chips = [{"chip": f"u{n}", "kmd": n, "pci": None, "board": "n150"} for n in range(4)]
        >>> Names(chips, Style(), {f"u{n}": n for n in range(4)}).group_title(["u0", "u1", "u2", "u3"])
        'n150 chips 0-3: the same on each of 4 chips'
        """
        same = f": the same on each of {len(chip_ids)} chips" if len(chip_ids) > 1 else ""
        return f"{self.set_title(chip_ids)}{same}"

    def set_title(self, chip_ids: Sequence[str]) -> str:
        """The title of one chip, or of the chips of a mesh.

        >>> chips = [{"chip": f"u{n}", "kmd": n, "pci": None, "board": "n300"} for n in range(4)]
        >>> names = Names(chips, Style(), {f"u{n}": n for n in range(4)})
        >>> names.set_title(["u0", "u1", "u2", "u3"]), names.set_title(["u2"])
        ('n300 chips 0-3', 'n300 chip 2 (id u2)')
        """
        return self.title(chip_ids[0]) if len(chip_ids) == 1 else self.short_set_title(chip_ids)

    def short_set_title(self, chip_ids: Sequence[str]) -> str:
        """The same without the id of a single chip, for tables with a legend."""
        if len(chip_ids) == 1:
            return self.short_title(chip_ids[0])
        boards = {self._boards.get(chip_id) for chip_id in chip_ids}
        board = f"{boards.pop() or ''} ".lstrip() if len(boards) == 1 else ""
        return f"{board}chips {self.several(chip_ids)}"

    def counted(self, chip_ids: Sequence[str]) -> str:
        """The chips in a sentence, with their number.

        >>> chips = [{"chip": f"u{n}", "kmd": n, "pci": None, "board": None} for n in range(9)]
        >>> names = Names(chips, Style(), {f"u{n}": n for n in range(9)})
        >>> names.counted(["u0", "u1", "u2", "u7"]), names.counted(["u7"])
        ('4 chips: 0-2,7', 'chip 7')
        """
        several = self.several(chip_ids)
        return f"chip {several}" if len(chip_ids) == 1 else f"{len(chip_ids)} chips: {several}"

    def also_on(self, chip_ids: Sequence[str]) -> str:
        """A remark that an allocation is on more chips than those that were requested; nothing if it is not.

        >>> Names([], Style(), {}).also_on(["u4"]), Names([], Style(), {}).also_on([])
        ('also on chip u4', '')
        """
        if not chip_ids:
            return ""
        return f"also on chip{'s' if len(chip_ids) > 1 else ''} {self.several(chip_ids)}"

    def order(self, chip_id: str) -> int:
        return self._order.get(chip_id, len(self._order))

    def several(self, chip_ids: Iterable[str]) -> str:
        """Several chips in a short text.

        >>> chips = [{"chip": f"u{n}", "kmd": n, "pci": None, "board": None} for n in range(9)]
        >>> Names(chips, Style(), {f"u{n}": n for n in range(9)}).several(["u7", "u0", "u1", "u2", "u5"])
        '0-2,5,7'
        """
        ordered = sorted(chip_ids, key=self.order)
        numbers = [self._numbers[chip_id] for chip_id in ordered if chip_id in self._numbers]
        words = [ranges(numbers)] if numbers else []
        others = [chip_id for chip_id in ordered if chip_id not in self._numbers]
        ends = [self.short(chip_id) for chip_id in others]
        if len(others) > 3:
            # "to" includes all chips between the two in the table.
            between = self.order(others[-1]) - self.order(others[0]) + 1 == len(others)
            ends = [f"{ends[0]} to {ends[-1]}" if between else f"{ends[0]} and {len(ends) - 1} more"]
        return ", ".join(words + ends)


def _place(chip: ChipRow) -> str:
    place = chip["pci"] or ("" if chip["chip"] == f"kmd:{chip['kmd']}" else chip["chip"])
    return str(place[5:] if place.startswith("0000:") else place)


def _shortened(chip_ids: list[str], style: Style) -> dict[str, str]:
    """The ends of long ids, unless two would be the same."""
    mark = "~" if style.ascii else "…"
    short = {
        chip_id: chip_id if len(chip_id) <= _LONG_CHIP_ID_CHARACTERS else mark + chip_id[1 - _LONG_CHIP_ID_CHARACTERS :]
        for chip_id in chip_ids
    }
    return short if len(set(short.values())) == len(short) else {chip_id: chip_id for chip_id in chip_ids}


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in a short text.

    >>> ranges([3, 0, 1, 2, 7])
    '0-3,7'
    """
    ordered, out, start = sorted(numbers), [], 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            first, last = ordered[start], ordered[end - 1]
            out.append(f"{first}" if first == last else f"{first}-{last}")
            start = end
    return ",".join(out)


def level(pool: UsedAndReserved) -> int | None:
    """The bytes of buffers in a bar: reserved bytes if known, else requested bytes."""
    return pool["reserved"] if pool["reserved"] is not None else pool["used"]


def l1_buffers(l1: L1Row) -> UsedAndReserved:
    """Reserved bytes of L1 buffers alone, which are part of the L1 in use at one time."""
    return {"used": l1["buffers"], "reserved": l1["at_once_parts"]["l1"]}


def share(size: int | None, capacity: int | None) -> float | None:
    """The share of a capacity, at most 1: the account may have more bytes than a chip, but a bar may not."""
    return None if size is None or not capacity else min(1.0, size / capacity)


def percent(part: float | None) -> str:
    """A share in percent; only exactly 0 and 1 are shown as 0% and 100%.

    >>> percent(0.0), percent(1e-6), percent(0.005), percent(0.5), percent(0.9999), percent(1.0), percent(None)
    ('0%', '<1%', '<1%', '50%', '99%', '100%', '-')
    """
    if part is None:
        return "-"
    return "<1%" if 0 < part <= 0.005 else "99%" if 0.995 <= part < 1 else f"{100 * part:.0f}%"


def short_size(size: int | None) -> str:
    """A size in at most five characters, for tables.

    >>> short_size(1536), short_size(24 << 30), short_size(1023 << 20), short_size(0), short_size(None)
    ('1.5K', '24.0G', '1023M', '0', '-')
    """
    if not size:
        return "-" if size is None else "0"
    value, unit = human(size).split()
    number = float(value)
    return f"{number:.1f}{unit[0]}" if number < 99.95 and unit != "B" else f"{number:.0f}{unit[0]}"


def chip_table(chips: list[ChipRow], names: Names, style: Style) -> list[str]:
    """A row for each chip: its state and its memory use."""
    wide = style.width >= _WIDE_COLUMNS
    telemetry = [_telemetry(chip["telemetry"], chip["remote"], style) for chip in chips]
    pools = [(chip["memory"]["dram"], chip["memory"]["l1"]) for chip in chips]
    drams = [(level(dram), dram["capacity"]) for dram, _ in pools]
    l1s = [(l1["at_once"], l1["capacity"]) for _, l1 in pools]
    unique = [(chip.get("unique_id") or "", names.full(chip["chip"])) for chip in chips]
    chip_ids = ["" if unique_id == shown else unique_id for unique_id, shown in unique]
    columns = [
        Column("CHIP", [(names.full(chip["chip"]), BOLD) for chip in chips], 0, gap=2),
        Column("BOARD", [chip["board"] or "-" for chip in chips], 3, low=8),
        Column("ARCH", [chip["arch"] or "-" for chip in chips], 11),
        Column("TEMP", [row[0] for row in telemetry], 2, right=True, low=6),
        Column("POWER", [row[1] for row in telemetry], 4, right=True, low=12, gap=2),
        Column("CLOCK", [row[2] for row in telemetry], 6, right=True, low=8, gap=2),
        *_pool_columns("DRAM", drams, 1, wide, style, [_idle(chip) for chip in chips]),
        *_pool_columns("L1", l1s, 5, wide, style, [False] * len(chips)),
        Column("ID", chip_ids, 10),
    ]
    return table([column for column in columns if column.rank <= 0 or not _blank(column)], style)


def _idle(chip: ChipRow) -> bool:
    """Whether it is known that no process holds the chip."""
    now = chip["telemetry"]
    return chip["held"] is False and now is not None and now["state"] in ("ok", "no files")


def _blank(column: Column) -> bool:
    made = (cell(1) if callable(cell) else cell for cell in column.cells)
    return all((cell if isinstance(cell, str) else cell[0]) in ("", "-") for cell in made)


def _pool_columns(
    title: str,
    pool: list[tuple[int | None, int | None]],
    rank: int,
    wide: bool,
    style: Style,
    idle: list[bool],
) -> list[Column]:
    """Bar, percentage, and used of size.

    A chip that no process holds is marked idle, which users of a shared machine need.
    """
    parts = [share(used, capacity) for used, capacity in pool]

    def bar(part: float | None) -> Callable[[int], Cell]:
        return lambda width: style.bar(part, width)

    words = [("idle", DIM) if free and not part else (percent(part), NONE) for part, free in zip(parts, idle)]
    text = human if wide else short_size
    size = max((len(text(capacity)) for _, capacity in pool), default=1)
    used_width = 10 if wide else 5
    slash = " / " if wide else "/"
    pairs: list[Cell] = []
    for used, capacity in pool:
        over = used is not None and capacity is not None and used > capacity
        # More than the capacity cannot be in use now; the note below the table explains it.
        shown = capacity if over else used
        pairs.append(
            (f"{text(shown):>{used_width}}{slash}{text(capacity):<{size}}{'!' if over else ''}", RED if over else NONE)
        )
    return [
        Column("", [bar(part) for part in parts], rank, low=4, high=16 if wide else 10),
        Column(title, words, 0, right=True, low=4),
        Column(f"{'used':>{used_width}}{slash}size", pairs, 0, gap=2),
    ]


def too_full(chips: list[ChipRow], names: Names) -> list[str]:
    """Sentences on chips with more accounted bytes than they have."""
    out = []
    for chip in chips:
        dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
        pools = ("DRAM", level(dram), dram["capacity"]), ("L1", l1["at_once"], l1["capacity"])
        for title, used, size in pools:
            if used is not None and size is not None and used > size:
                out.append(
                    f"! {names.short_title(chip['chip'])}: {human(used)} of {title} are accounted for, and it has "
                    f"{human(size)}: not all of that can be there at once."
                )
    return out


def _telemetry(now: Telemetry | None, remote: bool | None, style: Style) -> tuple[Cell, Cell, Cell]:
    """Temperature, power and clock; for a chip that does not answer, its state and the age of the rest."""
    if now is None:
        return ("-", NONE), ("remote" if remote else "-", DIM if remote else NONE), ("-", NONE)
    temperature, limit = now["temperature_c"], now["temperature_max_c"]
    text = "-" if temperature is None else f"{temperature:.0f}{style.degree}"
    if now["state"] == "no files":
        return ("-", NONE), ("no telemetry", DIM), ("-", NONE)
    if now["state"] != "ok":
        age = now["age_s"]
        old = "-" if age is None or temperature is None else f"{age:.0f}s ago"
        return (f"{text if temperature is not None else ''}!", RED), (now["state"], RED), (old, DIM)
    colour = NONE
    if temperature is not None and limit is not None:
        colour = RED if temperature >= limit else YELLOW if temperature >= 0.9 * limit else NONE
    if now["alive"] is False:
        text, colour = f"{text}!", RED
    power, most, clock = now["power_w"], now["power_max_w"], now["aiclk_mhz"]
    of_most = "" if most is None else f"/{most:.0f}"
    watts = "-" if power is None else f"{power:.0f}{of_most} W"
    return (text, colour), (watts, NONE), ("-" if clock is None else f"{clock:.0f} MHz", NONE)
