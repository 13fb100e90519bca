# SPDX-License-Identifier: Apache-2.0
"""A snapshot as a screen of text: chips, processes, memory by kind, and problems.

Bytes become text only here and in the parts of the screen. Every line fits the width: the least important parts are
left out first.
"""

from __future__ import annotations

from ttmem import __version__
from ttmem.documents.common_text import anomaly_line, by_number, chip_numbers, local_time, source_state
from ttmem.show.chip_table import Names, chip_table, too_full
from ttmem.show.kind_table import breakdowns
from ttmem.show.process_table import nobody, process_table
from ttmem.show.text import BOLD, DIM, YELLOW, Style, cells, fit_line, one_line, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ttmem.model.schema import Note, ProcessRow, Snapshot, SourceState

_NOTES_SHOWN = 12
_PIDS_SHOWN = 4
_SUMS_FROM_COLUMNS = 80
_ALIKE = ("shm-", "heartbeat", "pcie")  # notes that may concern all chips at once


def render(
    snapshot: Snapshot, style: Style | None = None, *, in_full: bool = False, numbers: Mapping[str, int] | None = None
) -> str:
    """The screen; ``in_full`` shows the breakdown of every chip, regardless of their number.

    ``numbers`` are those of the chips, if this is only a part of a snapshot.
    """
    style = style or Style()
    snapshot = style.clean(snapshot)
    numbers = chip_numbers(snapshot) if numbers is None else numbers
    chips = by_number(snapshot["chips"], numbers)
    snapshot = {**snapshot, "chips": chips}
    names = Names(chips, style, numbers)
    lines = [*_header(snapshot, style), style.paint(("-" if style.ascii else "─") * style.width, DIM)]
    if chips:
        lines += chip_table(chips, names, style)
        lines += (line for text in too_full(chips, names) for line in wrap(text, style, "  ", ""))
    else:
        lines += wrap(_no_chip(snapshot), style)
    lines += ["", *process_table(snapshot["processes"], chips, names, style, nobody(snapshot))]
    if not in_full and style.width >= _SUMS_FROM_COLUMNS and _has_sums(snapshot):
        from ttmem.show.totals_table import sums_table  # few machines need it

        lines += ["", *sums_table(snapshot, names, style)]
    lines += breakdowns(snapshot, names, style, in_full)
    lines += ["", *_footer(snapshot, names, style)]
    return "\n".join(fit_line(line.rstrip(), style.width) for line in lines).rstrip("\n")


def _no_chip(snapshot: Snapshot) -> str:
    """Why there is no chip, if that is known; for a recording the driver is not read."""
    driver = snapshot.get("driver")
    looked = "" if driver is None else f"the driver {'shows none' if driver['loaded'] else 'is not loaded'}, and "
    if any(process["chips"] for process in snapshot["processes"]):
        return f"No chip is known: {looked}the processes that used one have exited."
    return f"No chip is known: {looked}no process has reported one."


def _has_sums(snapshot: Snapshot) -> bool:
    """Whether a sum differs from the rows of single chips and processes. An older server has no sums."""
    found = snapshot.get("sums")
    if not found:
        return False
    boards = [len(board["chips"]) for board in found["boards"] if board["serial"] is not None]
    jobs = [job["processes"] for job in found["jobs"] if job["id"] is not None]
    return (len(boards) > 1 and max(boards) > 1) or max(jobs, default=0) > 1


def _header(snapshot: Snapshot, style: Style) -> list[str]:
    server, driver = snapshot["server"], snapshot.get("driver")
    words = [f"ttmem {server['version'] if server else __version__}", snapshot["host"], local_time(snapshot["time"])]
    if driver:
        words.append(f"driver {driver['version'] or 'of unknown version'}" if driver["loaded"] else "no driver")
    if server:
        events = f"{server['events']:,} event{'' if server['events'] == 1 else 's'}"
        words.append(f"server pid {server['pid']}, {events}")
    elif absent := _absent_server(snapshot):
        words.append("no server" if absent["state"] == "not running" else f"server {absent['state']}")
    lines = [style.paint(line, BOLD) for line in _joined(words, "   ", style)]
    sources = [source_state(source) for source in snapshot["sources"]]
    if sources:
        lines += (style.paint(line, DIM) for line in wrap("Sources: " + ", ".join(sources), style, "  ", ""))
    return lines


def _absent_server(snapshot: Snapshot) -> SourceState | None:
    """The missing server as a source; None if there is one, or none was searched."""
    return next((s for s in snapshot["sources"] if s["name"] == "server" and s["state"] != "ok"), None)


def _joined(words: list[str], between: str, style: Style) -> list[str]:
    lines = [words[0]]
    for word in words[1:]:
        if cells(lines[-1]) + len(between) + cells(word) <= style.width:
            lines[-1] += between + word
        else:
            lines.append(word)
    return lines


def _footer(snapshot: Snapshot, names: Names, style: Style) -> Iterator[str]:
    """Warnings, notes and hints below the tables."""
    if snapshot["server"] or any(snapshot["anomalies"].values()):
        bad = any(snapshot["anomalies"].values())
        yield from _painted(anomaly_line(snapshot["anomalies"]), style, YELLOW if bad else "")
    notes = _grouped(snapshot["notes"])
    rest = [source for source in snapshot["sources"] if source["detail"] and _matters(source, snapshot)]
    notes += (f"{source_state(source)}: {source['detail']}" for source in rest)
    for text in notes[:_NOTES_SHOWN]:
        yield from _painted(f"Note: {text}", style, YELLOW)
    if len(notes) > _NOTES_SHOWN:
        yield from wrap(f"and {len(notes) - _NOTES_SHOWN} more notes; --json has them all", style, "  ")
    for trouble, pids in _troubles(snapshot["processes"]).items():
        more = f" and {len(pids) - _PIDS_SHOWN} more" if len(pids) > _PIDS_SHOWN else ""
        yield from _painted(f"pid {', '.join(pids[:_PIDS_SHOWN])}{more}: {trouble}", style, YELLOW)
    for hint in _hints(snapshot, names):
        yield from wrap(f"Hint: {hint}", style, "  ", "")


def _matters(source: SourceState, snapshot: Snapshot) -> bool:
    """Whether a source is worth a line. An absent source is not, if there is enough data without it."""
    if source["name"] == "server":
        return False  # there is a separate hint
    if source["name"] != "umd" and source["state"] == "absent" and (snapshot["chips"] or snapshot["processes"]):
        return False
    return not any(note["what"] == f"{source['name']}-{source['state']}" for note in snapshot["notes"])


def _grouped(notes: list[Note]) -> list[str]:
    """Notes that are the same for many chips are shown once: a job on 32 chips leaves 32 files behind."""
    groups: dict[object, list[str]] = {}
    for number, note in enumerate(notes):
        alike: object = (note["what"], note["pid"]) if note["what"].startswith(_ALIKE) else number
        if note["what"] == "uncertain":
            alike = "uncertain"
        groups.setdefault(alike, []).append(note["text"])
    return [
        texts[0] + (f" ({len(texts) - 1} more like this; --json has them)" if len(texts) > 1 else "")
        for texts in groups.values()
    ]


def _troubles(processes: list[ProcessRow]) -> dict[str, list[str]]:
    """What sources cannot track, with their processes: the workers of one job have the same trouble."""
    found: dict[str, list[str]] = {}
    for process in processes:
        for source in process["sources"]:
            if source["trouble"]:
                found.setdefault(one_line(source["trouble"]), []).append(str(process["pid"] or "?"))
    return found


def _painted(text: str, style: Style, colour: str) -> list[str]:
    return [style.paint(line, colour) for line in wrap(text, style, "  ", "")]


def _hints(snapshot: Snapshot, names: Names) -> Iterator[str]:
    by_order = [chip["chip"] for chip in snapshot["chips"] if chip.get("joined_by") == "order"]
    if by_order:
        these = f"chips {names.several(by_order)} are" if len(by_order) > 1 else f"chip {names.short(by_order[0])} is"
        yield f"{these} matched with tt-metal's chips by order, which is an assumption."
    if any(chip["identity"] == "assumed" for chip in snapshot["chips"]):
        yield '"assumed:N" is device N of a process that did not report which chip this is.'
    if (absent := _absent_server(snapshot)) and absent["detail"]:
        yield absent["detail"]
    if any(process["state"] == "untracked" for process in snapshot["processes"]):
        yield "`ttmem run -- COMMAND` starts a program and tracks everything that it allocates."
    elif snapshot["server"] and not snapshot["processes"]:
        yield "`ttmem run -- COMMAND` tracks a program that uses ttnn; TT_ALLOC_TRACKING_ENABLED=1 a patched one."
    if not snapshot["chips"] and not snapshot["processes"]:
        yield "`ttmem doctor` finds out what is missing."
