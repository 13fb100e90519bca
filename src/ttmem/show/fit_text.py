# SPDX-License-Identifier: Apache-2.0
"""The answer of `ttmem fit` as text: a block for each machine, then one line with all verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import short_line
from ttmem.model.units import exact, human
from ttmem.show.fit_grid import VERDICTS, border_name, grid
from ttmem.show.text import BOLD, RED, YELLOW, Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Fit, FitBoard, FitBorder, FitDram, FitL1

_COLOURS = {"fits": BOLD, "fails": RED, "unknown": YELLOW}
_HEADING_COLUMNS = 11
_MOST_BORDERS = 2  # with more, only the runs that do not fit are shown in full


def render(document: Fit, style: Style) -> str:
    """The text of a document with schema "ttmem.fit/1"; the last line is a summary to search for."""
    lines: list[str] = []
    if document["varied"]:
        lines += [*grid(document, style), ""]
    for board in _shown(document):
        lines += [*_block(board, style), ""]
    version = document["ttnn"]["version"] or "of unknown version"
    basis = f"found with ttnn {version} on mock devices; never compared with hardware"
    return "\n".join([*lines, *wrap(basis, style), summary(document)])


def summary(document: Fit) -> str:
    """All verdicts in one line."""
    if document["borders"]:
        return "ttmem fit: " + ", ".join(_border_text(border) for border in document["borders"])
    verdicts: dict[str, list[str]] = {}
    for board in document["boards"]:
        verdicts.setdefault(board["board"], []).append(board["verdict"])
    named = ", ".join(f"{machine} {_together(found)}" for machine, found in verdicts.items())
    smallest = document["smallest"]
    chosen = f"; smallest machine: {smallest or 'none of them'}" if len(verdicts) > 1 else ""
    return f"ttmem fit: {named}{chosen}"


def _together(verdicts: list[str]) -> str:
    """The verdicts on one machine."""
    if len(verdicts) == 1:
        return VERDICTS[verdicts[0]]
    return f"fits in {verdicts.count('fits')} of {len(verdicts)} runs"


def _block(board: FitBoard, style: Style) -> list[str]:
    name = " ".join([board["board"], *_values(board["values"])])
    title = f"{name}: {VERDICTS[board['verdict']]}: {board['reason']} ({board['duration_s']:.1f} s)"
    lines = [style.paint(line, _COLOURS[board["verdict"]]) for line in wrap(style.clean(title), style, "  ", "")]
    rows: list[tuple[str, str]] = []
    failure = board["failure"]
    if failure is not None:
        rows.append(("failed", failure["headline"]))
        rows.append(("", failure["held_by"]))
    if board["dram"] is not None:
        rows.append(("DRAM", _dram(board["dram"])))
    for phase in board["phases"]:
        use = f"{exact(phase['peak'])} per DRAM bank at the peak, largest free block never below"
        rows.append(("phase", f"{phase['phase']}: {use} {exact(phase['largest_free_min'])}"))
    if board["kv"] is not None:
        tokens = f"{board['kv']['tokens']:,} tokens of {exact(board['kv']['bytes_per_token'])} per chip"
        rows.append(("KV cache", f"room for {tokens}, {exact(board['kv']['bytes'])}, beside the rest"))
    if board["l1"] is not None:
        rows.append(("L1", _l1(board["l1"], tracked=board["programs"] is not None)))
    small = board["l1_small"]
    if small is not None and (small["needed"] or small["declared"]):
        rows.append(("L1_SMALL", f"{exact(small['needed'])} per core needed, {exact(small['declared'])} declared"))
    trace = board["trace"]
    if trace is not None and (trace["captured"] or trace["declared"]):
        region = f"{exact(trace['declared'])} per bank declared" if trace["declared"] else "no region declared"
        launches = f"{trace['launches']:,} launch{'' if trace['launches'] == 1 else 'es'}"
        rows.append(("traces", f"{region}; {trace['captured']} captured with {launches}"))
    if board["dram"] is not None:
        rows.append(("programs", "not tracked" if board["programs"] is None else f"{board['programs']:,}"))
    ring = board["kernel_ring"]
    if ring is not None:
        by = f" by {ring['operation']}" if ring["operation"] else ""
        rows.append(("kernels", f"{exact(ring['needed'])} of {human(ring['size'])} of the kernel ring needed{by}"))
    for one in board["unknown"]:
        bound = "" if one["bound"] is None else f"at most {exact(one['bound'])} per DRAM bank: "
        rows.append(("unknown", f"{one['what']}: {bound}{one['text']}"))
    rows += [("note", note) for note in board["notes"]]
    rows += [("output" if not number else "", line) for number, line in enumerate(board["output"])]
    for heading, text in rows:
        first = f"  {heading:<{_HEADING_COLUMNS}}"
        lines += wrap(style.clean(text), style, " " * len(first), first)
    return lines


def _values(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _border_text(border: FitBorder) -> str:
    largest = "none" if border["largest"] is None else str(border["largest"])
    return f"{border_name(border)}: largest {border['name']} {largest}"


def _shown(document: Fit) -> list[FitBoard]:
    """The runs that are shown in full: with --vary, those at the borders and right above them, if they are few."""
    borders = document["borders"]
    if not document["varied"]:
        return document["boards"]
    wanted = {
        (border["board"], *_values({**border["values"], border["name"]: str(value)}))
        for border in borders
        for value in (border["largest"], border["next"])
    }
    rows = {(board["board"], *sorted(_values(board["values"]))): board for board in document["boards"]}
    shown = [row for key, row in rows.items() if key in {(name, *sorted(values)) for name, *values in wanted}]
    return shown if len(borders) <= _MOST_BORDERS else [row for row in shown if row["verdict"] != "fits"]


def _dram(dram: FitDram) -> str:
    return (
        f"{exact(dram['peak'])} of {human(dram['bank_size'])} per bank at the peak, {dram['banks']} banks; "
        f"largest free block never below {exact(dram['largest_free_min'])}"
    )


def _l1(l1: FitL1, tracked: bool) -> str:
    if l1["headroom"] is None:
        used = "unknown" if l1["buffers_peak"] is None else exact(l1["buffers_peak"])
        programs = "no program was launched" if tracked else "programs are not tracked"
        return f"{used} of {human(l1['bank_size'])} per core in buffers at the peak; {programs}"
    line = short_line(l1["line"])
    where = f"{l1['operation'] or 'a program'}{f' at {line}' if line else ''}"
    return f"tightest: {where} leaves {exact(l1['headroom'])} per core below {l1['limited_by']}"
