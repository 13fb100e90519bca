# SPDX-License-Identifier: Apache-2.0
"""Compare two runs: what one holds that the other does not, and how the figures of the whole run changed.

OLD and NEW are recordings (`ttmem run --record`) or documents (`ttmem run --json`). Allocations are matched by
operation, shape, kind and stack, also if lines have moved.

Exit code: 0, or 4 if a limit of --fail is exceeded, 5 if a figure of --fail is not known, 1 if a file cannot be read,
2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from time import time
from typing import TYPE_CHECKING, NamedTuple

from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import add_style
from ttmem.cli.recorded import is_failure, moment_of, opened
from ttmem.compare.diff_document import BY, Limit, compare
from ttmem.compare.run_side import run_side
from ttmem.compare.sides import CompareError
from ttmem.documents.diff_words import FIGURES
from ttmem.model.units import parse
from ttmem.recording.blocks import FILE_MAGIC
from ttmem.show.diff_text import render
from ttmem.show.text import style_of

if TYPE_CHECKING:
    from ttmem.compare.sides import Side
    from ttmem.model.schema import Diff
    from ttmem.pages.diff_page import Compared
    from ttmem.recording.moments import Moment
    from ttmem.recording.recording_file import Recording

OVER, UNKNOWN = 4, 5  # as for the limits of `ttmem run`
_MOMENT = re.compile(r"end|failure|peak(:.+)?|phase:.+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="recording or run document to compare with")
    parser.add_argument("new", metavar="NEW", help="recording or run document that may have changed")
    parser.add_argument(
        "--at", metavar="MOMENT", default="peak",
        help="moment of both recordings: peak, peak:l1, peak:dram@CHIP, end, failure, phase:NAME (default: peak)",
    )  # fmt: skip
    parser.add_argument("--by", choices=BY, help="group by this (default: line)")
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.diff/1"')
    parser.add_argument(
        "--html", metavar="FILE",
        help="also write a page with both timelines, a flame graph of the changes, and tables; needs two recordings",
    )  # fmt: skip
    parser.add_argument(
        "--fail", metavar="LIMITS", type=_limits, default=[],
        help="exit 4 if a figure became worse by more than this, such as dram:1%%,l1:0,allocations:10; figures: "
        + ", ".join(FIGURES),
    )  # fmt: skip
    add_style(parser)


def _limits(text: str) -> list[Limit]:
    found = []
    for one in text.split(","):
        name, colon, amount = one.partition(":")
        if name not in FIGURES or not colon:
            raise argparse.ArgumentTypeError(
                f"{one!r} is not a limit: write FIGURE:AMOUNT; figures: {', '.join(FIGURES)}"
            )
        try:
            if amount.endswith("%"):
                share = float(amount[:-1]) / 100
                if not 0 <= share < 1e6:
                    raise ValueError
                found.append(Limit(name, one, None, share))
            else:
                found.append(Limit(name, one, parse(amount), None))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{amount!r} of {one!r} is neither a size nor a percentage") from None
    return found


def run(args: argparse.Namespace) -> int:
    if not _MOMENT.fullmatch(args.at):
        raise UsageError(f"--at {args.at}: a moment of both recordings is peak, peak:POOL, end, failure or phase:NAME")
    by = args.by or "line"
    old, new = (_read(path, args.at, by, with_report=args.html is not None) for path in (args.old, args.new))
    try:
        found = compare(old.side, new.side, by, args.fail)
    except CompareError as error:
        if not str(error).startswith("--fail"):
            raise CommandError(str(error)) from None
        complain(f"ttmem diff: {error}")
        return UNKNOWN
    if args.html is not None:
        _write_page(args.html, found, old, new)
    print(
        json.dumps(found)
        if args.json
        else render(found, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color))
    )
    return OVER if found["exceeded"] else 0


class _Read(NamedTuple):
    """A side of the comparison, and for a page its report."""

    side: Side
    compared: Compared | None


def _read(path: str, at: str, by: str, *, with_report: bool) -> _Read:
    document = _document(path)
    if document is None:
        from ttmem.compare.recorded_side import recorded_side

        with opened(path) as recording:
            moment = moment_of(recording, at)
            side = recorded_side(recording, moment, by, is_failure)
            return _Read(side, _compared(recording, side, moment) if with_report else None)
    if with_report:
        raise UsageError(f"--html: {path} is no recording; the document of a run has no timeline")
    if at != "peak":
        raise UsageError(f"--at {at}: {path} is no recording; the document of a run has only the peak")
    try:
        return _Read(run_side(path, document, by), None)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, CompareError):
            raise CommandError(str(error)) from None
        raise CommandError(f"{path} is not a complete document of `ttmem run --json`") from None


def _compared(recording: Recording, side: Side, moment: Moment) -> Compared:
    from ttmem.pages.diff_page import compared
    from ttmem.recording.moments import open_moment

    title = os.path.basename(os.path.normpath(side.path))
    return compared(recording, side, open_moment(recording, moment).time, made=time(), title=title)


def _write_page(path: str, found: Diff, old: _Read, new: _Read) -> None:
    from ttmem.cli.report import write_html
    from ttmem.pages.diff_page import diff_of

    assert old.compared is not None
    assert new.compared is not None
    made = diff_of(found, old.compared, new.compared, made=time())
    write_html(path, made.document["title"], lambda: ({"page": "diff", "diff": made.document}, made.sections))


def _document(path: str) -> dict[str, object] | None:
    """The JSON of a file; None if it is something else, such as a recording."""
    try:
        with open(path, "rb") as file:
            if file.read(len(FILE_MAGIC)) == FILE_MAGIC:
                return None
            file.seek(0)
            found = json.load(file)
    except IsADirectoryError:
        return None  # a recording of several segments
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{path} is neither a recording nor the output of `ttmem run --json`") from None
    if not isinstance(found, dict):
        raise CommandError(f"{path} is neither a recording nor the output of `ttmem run --json`")
    return found
