# SPDX-License-Identifier: Apache-2.0
"""Convert ttnn's own recordings to a recording of ttmem, to inspect a run that was made without ttmem.

FILE is a graph capture (the JSON list of nodes), a report.json of ttnn.graph.end_graph_capture_to_file, a db.sqlite of
ttnn.graph.import_report, or a folder with one of them. `ttmem replay`, `ttmem l1 --file` and `ttmem explain` read
the result.

Exit code: 0 written, 1 the file cannot be read, holds nothing, or the output cannot be written, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.cli import CommandError
from ttmem.cli.options import add_style
from ttmem.imports.detection import find, read
from ttmem.imports.graph import NotACapture
from ttmem.imports.import_result import summary, write
from ttmem.imports.to_events import EventTranslation
from ttmem.model.geometry import BOARDS
from ttmem.recording.output_files import RECORDING, check_replaceable
from ttmem.show.import_text import render
from ttmem.show.text import style_of
from ttmem.wire.api_client import MALFORMED

if TYPE_CHECKING:
    from ttmem.model.schema import Import


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file that ttnn wrote, or the folder that contains it")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="recording to write (default: the name of FILE with .ttmem, in this folder)",
    )
    parser.add_argument(
        "--board", choices=sorted(BOARDS), help="board of the chips, if the file does not contain it (a bare capture)"
    )
    parser.add_argument("--rank", type=_rank, metavar="N", help="rank to read, if the database has several")
    parser.add_argument("--json", action="store_true", help='print the summary as JSON, schema "ttmem.import/1"')
    add_style(parser)


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a rank")
    return int(text)


def run(args: argparse.Namespace) -> int:
    path = Path(args.file)
    try:
        path = find(path)
        out = Path(args.output) if args.output else Path(f"{path.stem}.ttmem")
        _check_output(out)
        found = _translated(args, path, out)
    except NotACapture as error:
        raise CommandError(f"{path}: {error}") from None
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}") from None
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    print(json.dumps(found) if args.json else render(found, style))
    return 0


def _translated(args: argparse.Namespace, path: Path, out: Path) -> Import:
    """Read the file, write its events, and return the summary. Unexpected values in it are errors of the file."""
    try:
        translation = EventTranslation(read(path, args.rank), args.board)
        if not translation.recording.steps or not translation.machine.chips:
            raise NotACapture("nothing in it touches a device; a capture sees only the thread that began it")
        try:
            ledger, events = write(translation, out, path.name)
        except OSError as error:
            raise CommandError(f"cannot write {out}: {error.strerror}") from None
        return summary(translation, ledger, events, str(path), str(out))
    except NotACapture:
        raise
    except (*MALFORMED, struct.error) as error:
        if os.environ.get("TTMEM_DEBUG") == "1":
            raise
        raise NotACapture(f"a value in it does not have ttnn's format: {type(error).__name__}: {error}") from None


def _check_output(out: Path) -> None:
    """Check the output file before a long file is read."""
    try:
        check_replaceable(str(out), RECORDING)
    except OSError as error:
        raise CommandError(f"cannot write {out}: {error.strerror}") from None
