# SPDX-License-Identifier: Apache-2.0
"""Statistics of a recording as text: what was allocated, by what, and how large it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ttmem.documents.breakdown_words import NO_KEY, POOLS
from ttmem.documents.common_text import local_time, short_line
from ttmem.model.uncertain_reasons import meanings_text
from ttmem.model.units import human, lower_limit, short
from ttmem.show.breakdown_table import WORDS
from ttmem.show.chip_table import Names
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.stats_headlines import headlines
from ttmem.show.stats_over_time import after, heading, over_time, said
from ttmem.show.text import DIM, YELLOW, Column, Style, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import CountAndBytes, Stats, StatsCause, StatsPeak, StatsTop

_BAR_COLUMNS = 20
_SHOWN_POOLS = ("dram", "l1_buffers", "programs")  # the document has all
_PROBLEMS_SHOWN = 3


def render(found: Stats, file: str, names: Names, style: Style) -> str:
    """The text of a document with schema "ttmem.stats/1"."""
    found = style.clean(found)
    sections = [
        _header(found, style.clean(file), names, style),
        _headlines(found, style),
        _kinds(found, names, style),
        *(_top(top, found, style) for top in found["tops"] if top["pool"] in _SHOWN_POOLS and _is_known(top)),
        _unknown_keys(found, style),
        _sizes(found, style),
        *over_time(found, names, style),
    ]
    texts = ("\n".join(line.rstrip() for line in section) for section in sections)
    return "\n\n".join(text for text in texts if text)


def counted(number: int, noun: str, ending: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def _header(found: Stats, file: str, names: Names, style: Style) -> Iterator[str]:
    command = f": {found['command']}" if found["command"] else ""
    yield from heading(f"{file}{command}", style)
    chips = found["chips"]
    where = names.set_title(chips) if chips else "no chip"
    others = f" ({counted(found['other_chips'], 'other chip')} not selected)" if found["other_chips"] else ""
    yield from wrap(
        f"{found['length_s']:.3f} s from {local_time(found['begin'], 3)}, "
        f"{counted(found['processes'], 'process', 'es')}, {where}{others}",
        style, "  ",
    )  # fmt: skip
    if found["from_s"] > 0 or found["until_s"] < found["length_s"]:
        window = (
            f"only what happened after {after(round(found['from_s'], 6))} and up to {after(round(found['until_s'], 6))}"
        )
        yield from said(window, style, YELLOW)
    read = []
    if found["records"] or not found["events"]:
        read += [f"{counted(found['records'], 'record')} of agents", counted(found["launches"], "launch", "es")]
    if found["events"]:
        read.append(f"{counted(found['events'], 'event')} of other sources")
    lost = f"{counted(found['lost'], 'record')} lost" if found["lost"] else "nothing lost"
    yield from wrap(f"{', '.join(read)}, {lost}", style, "  ")
    if found["failures"]:
        failed = f"{counted(found['failures'], 'failed allocation')}: `ttmem explain` says why"
        yield from said(failed, style, YELLOW)
    if found["uncertain"]:
        yield from said(f"uncertain: the agent counted {meanings_text(found['uncertain'])}", style, YELLOW)
    for problem in found["problems"][:_PROBLEMS_SHOWN]:
        yield from said(f"not readable: {problem}", style, YELLOW)
    if len(found["problems"]) > _PROBLEMS_SHOWN:
        yield from said(f"and {len(found['problems']) - _PROBLEMS_SHOWN} more problems", style, YELLOW)


def _headlines(found: Stats, style: Style) -> Iterator[str]:
    return (line for text in headlines(found) for line in wrap(text, style, "    ", "  "))


def _kinds(found: Stats, names: Names, style: Style) -> Iterator[str]:
    rows = found["kinds"]
    if not rows:
        yield from heading("Nothing was allocated.", style)
        return
    over = f"; bytes are sums over {len(found['chips'])} chips, peaks are of one chip" * (len(found["chips"]) > 1)
    yield from heading(f"Memory by kind{over}", style)
    several = len(found["chips"]) > 1
    peaks = [row["peak"] for row in rows]
    columns = [
        Column("KIND", [KIND_WORDS.get(row["kind"], row["kind"]) for row in rows], 0, gap=2),
        _numbers("ALLOCATED", [row["made"] for row in rows], 0),
        _bytes("BYTES", [row["made"] for row in rows], 0),
        _numbers("FREED", [row["freed"] for row in rows], 2),
        _numbers("LIVE", [row["live"] for row in rows], 0),
        *(
            [_bytes("LIVE BYTES", [row["live"] for row in rows], 1)]
            if any(row["live"]["count"] for row in rows)
            else []
        ),
        Column("PEAK", [_peak(peak, found, style) for peak in peaks], 0, right=True, gap=2),
        Column("AT", [after(peak["after_s"]) if peak else "" for peak in peaks], 3, right=True, gap=2),
    ]
    if any(row["start"]["count"] for row in rows):
        columns.insert(1, _numbers("BEFORE", [row["start"] for row in rows], 2))
    if several:
        columns.append(Column("ON", [names.short_set_title(peak["chips"]) if peak else "" for peak in peaks], 4))
    yield from table(columns, style)
    if any(row["kind"] not in ("dram", "trace", "host") for row in rows):
        programs = any(row["kind"] in ("cb", "dfb", "scratchpad", "kernel") for row in rows)
        turn = " Cached programs use L1 in turn, so their sums may exceed its size." if programs else ""
        yield from said(f"L1 buffers, programs and kernels: sums over all cores.{turn}", style)


def _peak(peak: StatsPeak | None, found: Stats, style: Style) -> str:
    """The peak; if records were lost, it may have been higher among them."""
    text = human(peak["per_chip"]) if peak else "-"
    return lower_limit(text, ascii=style.ascii) if peak and found["lost"] else text


def _numbers(title: str, amounts: list[CountAndBytes], rank: int) -> Column:
    return Column(title, [f"{one['count']:,}" for one in amounts], rank, right=True, gap=2)


def _bytes(title: str, amounts: list[CountAndBytes], rank: int) -> Column:
    return Column(title, [human(one["bytes"]) for one in amounts], rank, right=True, gap=2)


def _is_known(top: StatsTop) -> bool:
    return any(row["key"] is not None for row in top["rows"])


def _top(top: StatsTop, found: Stats, style: Style) -> Iterator[str]:
    rows, by = top["rows"], top["by"]
    if top["groups"] == 1:
        row = rows[0]
        often = f", {row['temporary']['count']:,} of them temporary" if row["temporary"]["count"] else ""
        amount = f"{human(row['bytes'])} in {counted(row['count'], 'allocation')}{often}"
        yield from heading(f"{POOLS[top['pool']]} by {WORDS[by]}: all by one, {_key(row, by)[0]}", style)
        yield from wrap(amount, style, "  ")
        return
    temporary = any(row["temporary"]["count"] for row in rows)
    orders = "bytes, count or temporary allocations" if temporary else "bytes or count"
    total = sum(row["bytes"] for row in rows)
    which = f" of {top['groups']:,}" if top["groups"] > len(rows) else ""
    yield from heading(f"{POOLS[top['pool']]} by {WORDS[by]}: the first{which} by {orders}", style)
    columns = [
        Column("BYTES", [human(row["bytes"]) for row in rows], 0, right=True, gap=2),
        Column("COUNT", [f"{row['count']:,}" for row in rows], 0, right=True, gap=2),
    ]
    if temporary:
        columns.append(_numbers("TEMPORARY", [row["temporary"] for row in rows], 0))
        columns.append(_bytes("TEMP BYTES", [row["temporary"] for row in rows], 2))
    if any(row["live"]["count"] for row in rows):
        columns.append(_bytes("LIVE AT END", [row["live"] for row in rows], 1))
    columns.append(Column(WORDS[by].upper(), [_key(row, by) for row in rows], 0, low=min(30, style.width // 3)))
    yield from table(columns, style)
    everything = sum(row["made"]["bytes"] for row in found["kinds"] if row["kind"] in _kinds_of(top["pool"]))
    if everything > total:
        left = top["groups"] - len(rows)
        yield from said(f"{short(everything - total)} in {left:,} more", style)


def _kinds_of(pool: str) -> tuple[str, ...]:
    from ttmem.model.kinds import BREAKDOWN_POOLS

    return next(tuple(kind.label for kind in kinds) for one, kinds in BREAKDOWN_POOLS.items() if one.label == pool)


def _key(row: StatsCause, by: str) -> tuple[str, str]:
    key = row["key"]
    if key is None:
        return NO_KEY[by], DIM
    return (short_line(key) or key) if by == "line" else key, ""


def _unknown_keys(found: Stats, style: Style) -> Iterator[str]:
    """One remark instead of a table without keys. The parts of programs never have shapes."""
    unknown = [
        by
        for by in ("line", "op", "shape")
        if any(top["by"] == by and top["pool"] in ("dram", "l1_buffers") for top in found["tops"])
        and not any(top["by"] == by and _is_known(top) for top in found["tops"])
    ]
    words: dict[str, Literal["lines", "operations", "shapes"]] = {
        "line": "lines", "op": "operations", "shape": "shapes",
    }  # fmt: skip
    if unknown:
        listed = " and ".join(words[by] for by in unknown)
        yield from wrap(f"The recording has no {listed}: record with `ttmem run --stacks --record`.", style)


def _sizes(found: Stats, style: Style) -> Iterator[str]:
    pools = [pool for pool in found["sizes"] if pool["pool"] in _SHOWN_POOLS]
    if not pools:
        return
    cores = ", in L1 the sum over all cores" if any(pool["pool"] != "dram" for pool in pools) else ""
    yield from heading(f"Sizes of allocations on each of their chips{cores}", style)
    rows = [(pool, row, number) for pool in pools for number, row in enumerate(pool["rows"])]
    most = {pool["pool"]: max(row["count"] for row in pool["rows"]) for pool in pools}
    columns = [
        Column("POOL", [POOLS[pool["pool"]] if not number else "" for pool, _, number in rows], 0, gap=2),
        Column("SIZE", [_range(row["at_least"]) for _, row, _ in rows], 0, gap=2),
        Column("COUNT", [f"{row['count']:,}" for _, row, _ in rows], 0, right=True, gap=2),
        Column("", [_bar(row["count"] / most[pool["pool"]], style) for pool, row, _ in rows], 1, gap=2),
        Column("BYTES", [human(row["bytes"]) for _, row, _ in rows], 0, right=True, gap=2),
    ]
    yield from table(columns, style)


def _range(at_least: int) -> str:
    return f"{short(at_least)} to {short(2 * at_least)}" if at_least else "0 B"


def _bar(share: float, style: Style) -> tuple[str, str]:
    full = max(1, round(share * _BAR_COLUMNS))
    return ("#" if style.ascii else "█") * full + " " * (_BAR_COLUMNS - full), DIM
