# SPDX-License-Identifier: Apache-2.0
"""Show statistics of a recording: what was allocated and freed, by which line, operation and shape, and how large.

Lifetimes, what the program never freed, temporary allocations, fragmentation over time with its worst moment, the
program cache, and host memory beside device memory. --from and --until limit the time, --chip the chips.

Exit code: 0 shown, 1 the file cannot be read, is no recording, or has no such moment or chip, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys

from ttmem.cli import CommandError, UsageError
from ttmem.cli.options import add_chips, add_style, add_top, add_utc, flat
from ttmem.cli.recorded import is_failure, moment_of, opened
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.snapshot import take_snapshot
from ttmem.recording.moments import FORMS
from ttmem.show.chip_selector import UnknownChip, only
from ttmem.show.chip_table import Names
from ttmem.show.text import style_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model.schema import Snapshot
    from ttmem.recording.recording_file import Recording

_LISTED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    parser.add_argument("--from", dest="after", metavar="MOMENT", help=f"only what happened after this: {FORMS}")
    parser.add_argument("--until", metavar="MOMENT", help="only what happened up to this moment, in the same forms")
    add_chips(parser, "only what is on this chip")
    add_top(parser, f"list the first N lines, operations and shapes of each pool (default {_LISTED})")
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.stats/1"')
    add_style(parser)
    add_utc(parser)


def run(args: argparse.Namespace) -> int:
    from ttmem.show.stats_text import render
    from ttmem.statistics.stats_document import stats_of, window_of

    with opened(args.file) as recording:
        after, until = _range(recording, args)
        ledger = recording.at().ledger
        snapshot = take_snapshot(ledger, time="", host="")
        chips = _chips(flat(args.chips), snapshot)
        window = window_of(recording, after, until, chips)
        found = stats_of(recording, window, ledger, top=args.top or _LISTED, is_failure=is_failure)
    if args.json:
        print(json.dumps(found))
        return 0
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    shown = style.clean(snapshot)
    print(render(found, args.file, Names(shown["chips"], style, chip_numbers(shown)), style))
    return 0


def _range(recording: Recording, args: argparse.Namespace) -> tuple[float | None, float]:
    """The times of --from and --until; None is the start."""
    after = None if args.after is None else moment_of(recording, args.after, "--from").time
    until = moment_of(recording, args.until or "end", "--until").time
    if after is not None and min(after, recording.end) > until:
        raise UsageError(f"--from {args.after} is later than --until {args.until}; swap them")
    return after, until


def _chips(names: list[str], snapshot: Snapshot) -> frozenset[str] | None:
    """The ids of the selected chips; None for all."""
    try:
        return frozenset(chip["chip"] for chip in only(snapshot, names)["chips"]) if names else None
    except UnknownChip as error:
        raise CommandError(str(error)) from None
