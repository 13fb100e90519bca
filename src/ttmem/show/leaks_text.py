# SPDX-License-Identifier: Apache-2.0
"""The findings of `ttmem leaks` as text; the last line is the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time, short_line
from ttmem.documents.leak_words import age_text, leak_text, origin_text, speed_text
from ttmem.documents.pool_amounts import amounts_text
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import human
from ttmem.show.text import BOLD, Style, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ttmem.model import schema
    from ttmem.show.chip_table import Names

_SHOWN = 20
_HELD_SHOWN = 10
_DEAD_SHOWN = 5
_LEVELS = "▁▂▃▄▅▆▇█"


def render(
    data: schema.Leaks, names: Names, style: Style, *, only_growing: bool = False, recorded: bool = False
) -> str:
    """The text of a document with schema "ttmem.leaks/1". Texts of a recording have a header of their own."""
    data = style.clean(data)
    whose = _Whose(data, names)
    lines = []
    if not recorded:
        lines.append(f"Tracked since {local_time(data['since'])}, for {age_text(data['tracked_s'])}.")
    for text in _judged(data["judged"]):
        lines += wrap(text, style)
    lines += wrap(whose.sentence, style)
    lines += ["", *_growing(data, whose, style)]
    if not only_growing:
        lines += ["", *_held(data, whose, style), "", *_causes(data, style)]
    lines += ["", *(line for doubt in data["doubts"] for line in wrap(f"Doubt: {doubt}", style, "  ", ""))]
    lines += wrap(_verdict(data), style, "  ", "")
    return "\n".join(lines[1:] if lines[0] == "" else lines)


class _Whose:
    """Processes and chips of the rows: in one sentence if all rows have the same ones, otherwise in each row."""

    def __init__(self, data: schema.Leaks, names: Names) -> None:
        self._names = names
        owners = list({self._text(row): None for row in (*data["growing"], *data["held"])})
        self.sentence = f"All of it: {owners[0]}." if len(owners) == 1 else ""

    def of(self, row: schema.LeakRow) -> str:
        """What is added to the text of a row."""
        return "" if self.sentence else f"; {self._text(row)}"

    def _text(self, row: schema.LeakRow) -> str:
        title, also = self._names.short_set_title(row["chips"]), self._names.also_on(row["other_chips"])
        return f"{_who(row)}, {title}{f' ({also})' if also else ''}"


def _judged(rows: Sequence[schema.JudgedRow]) -> list[str]:
    """How growth was judged, once for processes that were judged in the same way."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["from"] is None or row["until"] is None:
            continue
        if row["by"] == "phase":
            how = f"over {row['steps']:,} runs of phase {row['name']}"
        elif row["by"] == "line":
            how = f"over {row['steps']:,} repetitions of {short_line(row['name']) or 'buffers of one size'}"
        else:
            how = f"over {age_text(row['until'] - row['from'])}"
        found.setdefault(how, []).append(str(row["pid"] or "unknown"))
    if len(found) == 1:
        return [f"Growth is judged {how}." for how in found]
    return [f"Growth of pid {', '.join(pids)} is judged {how}." for how, pids in found.items()]


def _growing(data: schema.Leaks, whose: _Whose, style: Style) -> list[str]:
    rows = data["growing"]
    compared = any(row["above_baseline"] is not None for row in (*rows, *data["held"]))
    title = "ABOVE THE BASELINE" if compared else "GROWING"
    if not rows:
        return [f"{title}: nothing"]
    shown = rows[:_SHOWN]
    several = any(len(row["chips"]) > 1 for row in shown)
    over_time = any(_history(row) for row in shown) and not style.ascii
    speeds = [speed_text(row) for row in shown]
    wide = max(map(len, speeds))
    size = "PER CHIP" if several else "SIZE"
    header = f"  {'RATE':<{wide}}  {size:>10} {'COUNT':>7}  KIND {'  OVER TIME' if over_time else ''}"
    lines = [style.paint(title, BOLD), header.rstrip()]
    for row, speed in zip(shown, speeds):
        numbers = f"  {speed:<{wide}}  {human(row['per_chip']):>10} {row['count']:>7,}  {row['kind']:<5}"
        lines.append(f"{numbers}  {_chart(_history(row))}".rstrip() if over_time else numbers.rstrip())
        lines += wrap(origin_text(row) + whose.of(row), style, "      ", "      ")
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN:,} more")
    if not any(row["stack"] for row in rows):
        lines += wrap(_NO_LINES, style, "  ", "  ")
    return lines


_NO_LINES = "Lines are known if the program is started by `ttmem run --stacks` or with `ttmem env --stacks`."


def _held(data: schema.Leaks, whose: _Whose, style: Style) -> list[str]:
    found = _by_line(data["held"])
    if not found:
        return ["HELD: nothing else"]
    several = any(len(rows[0]["chips"]) > 1 for rows in found[:_HELD_SHOWN])
    lines = [
        style.paint("HELD", BOLD) + ": made and kept, but not growing",
        f"  {'PER CHIP' if several else 'SIZE':>10} {'COUNT':>7} {'OLDEST':>7}  KIND   WHAT",
    ]
    for rows in found[:_HELD_SHOWN]:
        size, count = sum(row["per_chip"] for row in rows), sum(row["count"] for row in rows)
        oldest = max(row["oldest_s"] or 0.0 for row in rows)
        numbers = f"  {human(size):>10} {count:>7,} {age_text(oldest):>7}  {rows[0]['kind']:<5}  "
        what = origin_text(rows[0], shapes=len(rows))
        lines += wrap(what + whose.of(rows[0]), style, " " * len(numbers), numbers)
    rest = sum(map(len, found[_HELD_SHOWN:])) + data["left_out"]["groups"]
    return lines + ([f"  and {rest:,} more group{'s' * (rest > 1)}"] if rest > 0 else [])


def _by_line(held: Sequence[schema.LeakRow]) -> list[list[schema.LeakRow]]:
    """Groups of one line that differ only in their shape together, the largest first."""
    found: dict[object, list[schema.LeakRow]] = {}
    for number, row in enumerate(held):
        place = (tuple(row["stack"]), row["op"]) if row["stack"] else number
        found.setdefault((place, row["pid"], row["kind"], tuple(row["chips"])), []).append(row)
    return sorted(found.values(), key=lambda rows: -sum(row["bytes"] for row in rows))


def _causes(data: schema.Leaks, style: Style) -> list[str]:
    """What is held for another reason than a reference in the program."""
    cache = data["program_cache"]
    lines = [
        _cause("Program cache", cache, "freed by device.clear_program_cache()"),
        *([f"  of these, likely in the cache: {amounts_text(cache['likely']['pools'])}"] if cache["likely"]["count"]
          else []),
        _cause("Traces", data["trace"], "allocated at capture, freed by ttnn.release_trace()"),
        _cause("Runtime", data["system"], "held while a device is open"),
        *_dead(data["dead_process"]),
    ]  # fmt: skip
    if data["ignored"]:
        lines.append(f"Ignored: {data['ignored']:,} allocations")
    return [line for text in lines for line in wrap(text, style, "  ", "  " if text.startswith(" ") else "")]


def _cause(name: str, found: schema.HeldRow, advice: str) -> str:
    if found["oldest_s"] is None:
        return f"{name}: nothing"
    return f"{name}: {amounts_text(found['pools'])}, oldest {age_text(found['oldest_s'])}; {advice}"


def _dead(dead: list[schema.DeadProcessRow]) -> list[str]:
    lines = [
        f"Dead process: {_who(one)} died {age_text(one['ago_s'])} ago, holding {amounts_text(one['pools'])}; "
        "freed at its exit"
        for one in dead[:_DEAD_SHOWN]
    ]
    return lines + ([f"Dead processes: {len(dead) - _DEAD_SHOWN:,} more"] if len(dead) > _DEAD_SHOWN else [])


def _verdict(data: schema.Leaks) -> str:
    found, verdict = "no leak", data["verdict"]
    if verdict["leak"]:
        found = leak_text(data)
    doubt = f"uncertain ({counts_text(data['uncertain'])}): " if data["uncertain"] else ""
    return f"verdict: {doubt}{found}"


def _who(row: schema.LeakRow | schema.DeadProcessRow) -> str:
    return f"pid {row['pid'] or 'unknown'}{' ' + row['name'] if row['name'] else ''}"


def _history(row: schema.LeakRow) -> list[int] | None:
    return row["growth"]["history"] if row["growth"] is not None else None


def _chart(history: list[int] | None) -> str:
    """How many there were over time."""
    if not history:
        return ""
    highest = max(history) or 1
    return "".join(_LEVELS[count * (len(_LEVELS) - 1) // highest] for count in history)
