# SPDX-License-Identifier: Apache-2.0
"""Show a moment of a recording: the last failed allocation if there is one, otherwise the peak, or another one.

All numbers follow from the recorded events alone, so this is what the server showed at that moment.

Exit code: 0 shown, 1 the file cannot be read, is no recording, or has no such moment, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys

from ttmem.cli.options import add_style, add_utc
from ttmem.cli.recorded import add_at, replay, replay_peaks, titled
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.dump import EVERYTHING
from ttmem.documents.of_account import breakdown_of
from ttmem.show.breakdown_table import WORDS
from ttmem.show.breakdown_table import render as render_breakdown
from ttmem.show.chip_table import Names
from ttmem.show.peaks_text import render as render_peaks
from ttmem.show.smi_screen import render
from ttmem.show.text import style_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    add_at(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--peaks", action="store_true", help="show the peaks up to that moment, and what was live at them"
    )
    what.add_argument("--by", choices=tuple(WORDS), help="group live allocations at that moment by this")
    parser.add_argument("--json", action="store_true", help="print JSON: the snapshot, the peaks or the breakdown")
    add_utc(parser)
    add_style(parser)


def run(args: argparse.Namespace) -> int:
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    if args.peaks:
        recorded, found = replay_peaks(args.file, args.at or "end")
    else:
        recorded, found = replay(args.file, args.at), []
    ledger, snapshot = recorded.ledger, recorded.snapshot
    if args.peaks:
        rows, groups = [one.row for one in found], [one.groups for one in found]
        shown = style.clean(snapshot)
        names = Names(shown["chips"], style, chip_numbers(shown))
        text = json.dumps(rows) if args.json else render_peaks(rows, groups, names, style)
    elif args.by is not None:
        breakdown = breakdown_of(ledger, args.by, EVERYTHING)
        text = json.dumps(breakdown) if args.json else render_breakdown(breakdown, style)
    else:
        text = json.dumps(snapshot) if args.json else render(snapshot, style)
    print(text if args.json else titled(recorded.where, text, style))
    return 0
