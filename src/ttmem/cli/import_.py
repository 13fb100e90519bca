# SPDX-License-Identifier: Apache-2.0
"""Turn what ttnn itself recorded into an event file: a run without ttmem, looked at with ttmem.

FILE is a graph capture (the JSON list of nodes), a report.json of ttnn.graph.end_graph_capture_to_file, a db.sqlite of
ttnn.graph.import_report, or a folder with one of them. `ttmem replay`, `ttmem l1 --file` and `ttmem explain` show
what was written.

Exit codes: 0 written, 1 the file cannot be read, holds nothing, or the output cannot be written, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import struct
import sys
from pathlib import Path
from typing import Any

from ttmem.cli import CommandError
from ttmem.documents.common_text import short_line
from ttmem.imports.detection import find, read
from ttmem.imports.graph import NotACapture
from ttmem.imports.import_result import summary, write
from ttmem.imports.to_events import EventTranslation
from ttmem.model.geometry import BOARDS
from ttmem.model.units import human
from ttmem.recording.output_files import EVENTS, check_replaceable
from ttmem.show.text import Column, Style, style_of, table, wrap
from ttmem.wire.api_client import MALFORMED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what ttnn wrote, or the folder it is in")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the event file (default: FILE's name with .events, here)"
    )
    parser.add_argument(
        "--board", choices=sorted(BOARDS), help="what the chips are, where the file does not say (a bare capture)"
    )
    parser.add_argument("--rank", type=int, metavar="N", help="of a database that holds several")
    parser.add_argument("--json", action="store_true", help='the summary as data, schema "ttmem.import/1"')


def run(args: argparse.Namespace) -> int:
    path = Path(args.file)
    try:
        path = find(path)
        out = Path(args.output) if args.output else Path(f"{path.stem}.events")
        _check_output(out)
        found = _translated(args, path, out)
    except NotACapture as error:
        raise CommandError(f"{path}: {error}") from None
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}") from None
    print(json.dumps(found) if args.json else _text(found, style_of(sys.stdout)))
    return 0


def _translated(args: argparse.Namespace, path: Path, out: Path) -> dict[str, Any]:
    """Read, write, and say what was in it. Whatever a file has in the place of what ttnn writes there is its fault."""
    try:
        translation = EventTranslation(read(path, args.rank), args.board)
        if not translation.recording.steps or not translation.machine.chips:
            raise NotACapture("nothing in it touches a device; a capture sees only the thread that began it")
        try:
            ledger, events = write(translation, out, path.name)
        except OSError as error:
            raise CommandError(f"cannot write {out}: {error.strerror}") from None
        return {**summary(translation, ledger, events), "file": str(path), "output": str(out)}
    except NotACapture:
        raise
    except (*MALFORMED, struct.error) as error:
        if os.environ.get("TTMEM_DEBUG") == "1":
            raise
        raise NotACapture(f"a value in it is not as ttnn writes it: {type(error).__name__}: {error}") from None


def _check_output(out: Path) -> None:
    """Said before a long file is read."""
    try:
        check_replaceable(str(out), EVENTS)
    except OSError as error:
        raise CommandError(f"cannot write {out}: {error.strerror}") from None


def _text(found: dict[str, Any], style: Style) -> str:
    found = style.clean(found)
    release = f" of ttnn {found['ttnn']}" if found["ttnn"] else ""
    chips, out = found["chips"], shlex.quote(found["output"])
    operations = f"{found['operations']} operation{'s' if found['operations'] != 1 else ''}"
    lines = wrap(
        f"{found['file']}: {found['form']}{release}, {operations}"
        f"{', captured without executing anything' if found['virtual'] else ''}",
        style,
    )
    several = "s" if len(chips) != 1 else ""
    lines += wrap(f"{found['output']}: {found['events']} events, {len(chips)} chip{several}", style)
    rows = [(chip, kind, total) for chip in chips for kind, total in chip["kinds"].items()]
    lines += ["", *(_table(rows, style) if rows else ["Nothing in it takes memory of a chip."]), ""]
    lines += wrap(f"All of it is {found['confidence']}. Not in the file: {'; '.join(found['lacks'])}.", style)
    if found["clock"] == "counted":
        lines += wrap("There are no times in it: a microsecond stands for a node.", style)
    if any(chip["geometry"] is None for chip in chips):
        lines += wrap(
            "How large the chips are is not in it; --board NAME says so, and then there is a map of L1.", style
        )
    if found["unsized"]:
        lines += wrap(
            f"Left out, because nothing tells their size: {found['unsized']} buffers; try --board NAME.", style
        )
    lines += ["", f"Next: ttmem replay --peaks {out}", f"      ttmem l1 --file {out}"]
    if found["failures"]:
        failures = f"{found['failures']} failure{'s' if found['failures'] != 1 else ''}"
        lines.append(f"      ttmem explain {out}  # {failures} to explain")
    return "\n".join(lines)


def _table(rows: list[tuple[Any, str, Any]], style: Style) -> list[str]:
    return table(
        [
            Column("CHIP", [chip["chip"] for chip, _, _ in rows], 0),
            Column("KIND", [kind for _, kind, _ in rows], 0, gap=2),
            Column("AT THE END", [human(total["used"]) for _, _, total in rows], 0, right=True, gap=2),
            Column("PEAK", [human(total["peak"]) for _, _, total in rows], 0, right=True, gap=2),
            Column("IN", [_made_in(total) for _, _, total in rows], 1, low=8, gap=2),
        ],
        style,
    )


def _made_in(total: dict[str, Any]) -> str:
    return ", ".join(filter(None, (total["peak_operation"], short_line(total["peak_line"])))) or "-"
