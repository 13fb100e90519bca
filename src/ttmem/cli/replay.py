# SPDX-License-Identifier: Apache-2.0
"""Show the account of a recorded event file: the snapshot at its end, or at another moment.

All numbers follow from the events alone, so this is exactly what the server showed at that moment.

Exit code: 0 shown, 1 the file cannot be read or is not an event file, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import datetime
from math import isfinite
from typing import Any, NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.analyze.breakdown import Breakdown
from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import add_style, add_utc
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.ingest.clock import rfc3339
from ttmem.l1.core_map import numbers
from ttmem.recording.event_file import EventFileError, EventFileReader
from ttmem.show.breakdown_table import WORDS
from ttmem.show.breakdown_table import render as render_breakdown
from ttmem.show.chip_table import Names
from ttmem.show.peaks_text import render as render_peaks
from ttmem.show.smi_screen import render
from ttmem.show.text import style_of

_TIME_FORMS = "seconds since 1970, or a time such as 2026-01-31T12:00:00Z"


class Replay(NamedTuple):
    """An event file, folded."""

    ledger: Ledger
    snapshot: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="event file, from `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    parser.add_argument("--at", metavar="TIME", help=f"moment to show: {_TIME_FORMS} (default: the end)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--peaks", action="store_true", help="show the peaks up to that moment, and what was live at them"
    )
    what.add_argument("--by", choices=tuple(WORDS), help="show live allocations at that moment, summed by this")
    parser.add_argument("--json", action="store_true", help="print JSON: the snapshot, the peaks or the breakdown")
    add_utc(parser)
    add_style(parser)


def run(args: argparse.Namespace) -> int:
    ledger, snapshot = replay(args.file, args.at)
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    if args.peaks:
        found = peaks(ledger)
        shown = style.clean(snapshot)
        names = Names(shown["chips"], style, chip_numbers(shown))
        print(json.dumps(found) if args.json else render_peaks(found, names, style))
    elif args.by is not None:
        breakdown = _breakdown(ledger, args.by)
        print(json.dumps(breakdown) if args.json else render_breakdown(breakdown, style))
    else:
        print(json.dumps(snapshot) if args.json else render(snapshot, style))
    return 0


def replay(path: str, at: str | None) -> Replay:
    """The account of an event file, up to a time if one is given."""
    until = _moment(at) if at is not None else None
    ledger = Ledger()
    try:
        with open(path, "rb") as file:
            reader = EventFileReader(file)
            last = reader.replay(ledger, until)
    except IsADirectoryError:
        raise CommandError(f"{path} is a folder; name an event file") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except EventFileError as error:
        raise CommandError(f"{path}: {error}") from None
    if reader.cut:
        complain(f"ttmem: {path} ends inside an entry; shown up to its last whole one")
    found = take_snapshot(
        ledger,
        time=rfc3339(last or 0.0),
        host="replay",
        sources=[{"name": "recording", "state": "cut off" if reader.cut else "ok", "detail": None}],
        physical=numbers,
    )
    return Replay(ledger, found)


def _breakdown(ledger: Ledger, by: str) -> Any:
    """What the server would answer to GET /breakdown if this were its account, with every row."""
    breakdown = Breakdown(by)
    for allocation in ledger.allocations():
        if allocation.refs:
            breakdown.add(allocation)
    return breakdown.document()


def _moment(text: str) -> float:
    try:
        if isfinite(seconds := float(text)):
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(re.sub(r"(Z| UTC)$", "+00:00", text)).timestamp()  # without a zone: local time
    except ValueError:
        raise UsageError(f"--at takes {_TIME_FORMS}, not {text!r}") from None
