# SPDX-License-Identifier: Apache-2.0
"""Show what grows and what is held, by likely cause: growing groups first, with the line that makes them.

A group of buffers with the same line, operation and shape grows if it gained and kept some in each of the last four
slices of time (docs/leaks.md has the rule). What was made once and stays is held, not leaked. With --file, growth is
judged by the whole recording, and by default just before the devices were closed.

Exit code: 0 no leak, 3 a leak (the last line says how much), 5 the agent's counters make the result uncertain,
1 no server or another error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ttmem.cli import Answered, CommandError, UsageError
from ttmem.cli.options import add_chip, add_pids, add_socket, add_style, add_utc, api_socket, flat
from ttmem.cli.recorded import add_file, check_at, moment_of, opened, snapshot_of, titled, where_of
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.leak_baseline import Baseline, baseline_of, compared
from ttmem.documents.leaks import SCHEMA, Request
from ttmem.documents.unknown_rows import SCHEMA as snapshot_schema
from ttmem.recording.moments import phase_begins
from ttmem.show.chip_selector import UnknownChip, find_chip
from ttmem.show.chip_table import Names
from ttmem.show.leaks_text import render
from ttmem.show.text import style_of
from ttmem.wire.api_client import ApiError, get_document

if TYPE_CHECKING:
    from ttmem.model.schema import Leaks, Snapshot
    from ttmem.recording.recording_file import Recording
    from ttmem.show.text import Style

LEAKED, UNCERTAIN = 3, 5  # as for `ttmem run --fail-on-leak`
_BEFORE_CLOSING = "before the devices were closed"
_ANSWER_SECONDS = 60.0
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_AGO = re.compile(r"(\d{1,9}(?:\.\d+)?)([smh])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_socket(parser)
    add_file(parser, default=f"just {_BEFORE_CLOSING}, else the end")
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.leaks/1"')
    parser.add_argument("--growing", action="store_true", help="show what grows, and nothing else")
    parser.add_argument(
        "--since", metavar="TIME",
        help="leave out what was made before: 90s, 5m or 2h ago, phase:NAME (the start of its last run), a time such "
        "as 2026-01-31T12:00:00Z; with --file, also +2.3s after the start",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="FILE",
        help="output of an earlier `ttmem leaks --json`: whatever there is more of now is a leak, whether it grows or "
        "not",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", metavar="PATTERN", action="append", default=[],
        help="leave out lines and operations that contain this or match it, such as kv_cache.py*; repeatable",
    )  # fmt: skip
    add_pids(parser, "show only this process")
    add_chip(parser, "show only this chip")
    add_style(parser)
    add_utc(parser)


def run(args: argparse.Namespace) -> int:
    check_at(args)
    if any("\n" in pattern or not pattern for pattern in args.ignore):
        raise UsageError("--ignore: a pattern is one line of text")
    baseline = _baseline(args.baseline) if args.baseline is not None else None
    if args.file is not None:
        return _of_file(args, baseline)
    query = {}
    if args.since is not None:
        query["since"] = args.since if args.since.startswith("phase:") else repr(_time(args.since, time.time()))
    if args.pids:
        query["pid"] = ",".join(flat(args.pids))
    if args.ignore:
        query["ignore"] = "\n".join(args.ignore)
    asked = functools.partial(get_document, socket_path=api_socket(args), timeout=_ANSWER_SECONDS)
    try:
        snapshot = asked("/snapshot", snapshot_schema) if args.chip is not None or not args.json else None
        if args.chip is not None:
            query["chip"] = _chip_id(args.chip, snapshot)
        found = asked(f"/leaks?{urlencode(query)}", SCHEMA)
    except ApiError as error:
        raise CommandError(str(error)) from None
    with Answered("leaks"):
        found = found if baseline is None else compared(found, baseline)
        text = json.dumps(found) if snapshot is None or args.json else _text(found, snapshot, args)
        code = _code(found)
    print(text)
    return code


def _of_file(args: argparse.Namespace, baseline: Baseline | None) -> int:
    """The same from a recording."""
    from ttmem.analyze.recorded_closings import closing_times
    from ttmem.documents.recorded_leaks import recorded_leaks

    with opened(args.file) as recording:
        moment = None if args.at is None else moment_of(recording, args.at)
        snapshot = snapshot_of(recording, args.at or "end")
        request = Request(
            frozenset(map(int, flat(args.pids))),
            None if args.chip is None else _chip_id(args.chip, snapshot),
            0.0 if args.since is None else _moment(recording, args.since),
            tuple(args.ignore),
        )
        closings = closing_times(recording) if moment is None else {}
        found = recorded_leaks(recording, request, closings, None if moment is None else moment.time)
        found = found if baseline is None else compared(found, baseline)
        words = moment.words if moment is not None else _BEFORE_CLOSING if closings else "at its end"
        text = json.dumps(found) if args.json else _text(found, snapshot, args)
        print(text if args.json else titled(where_of(recording, words), text, _style(args)))
    return _code(found)


def _code(found: Leaks) -> int:
    return UNCERTAIN if found["uncertain"] else LEAKED if found["verdict"]["leak"] else 0


def _time(text: str, now: float) -> float:
    """A time in the past, as --since takes it."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - float(ago[1]) * _UNIT_SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(re.sub(r"(Z| UTC)$", "+00:00", text)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since: {text!r} is not a time: use 90s, 5m, 2h, phase:NAME, or a time such as 2026-01-31T12:00:00Z"
        ) from None


def _moment(recording: Recording, text: str) -> float:
    """The same for a recording: also +2.3s; 90s is 90 seconds before the end."""
    if text.startswith("phase:"):
        began = phase_begins(recording, text[6:])
        if not began:
            raise CommandError(f"--since: there is no phase {text[6:]!r}")
        return max(began)
    if _AGO.fullmatch(text):
        return _time(text, recording.end)
    try:
        return moment_of(recording, text, option="--since").time
    except UsageError:
        raise UsageError(
            f"--since: {text!r} is not a time: use 90s, 5m or 2h before the end, +2.3s after the start, phase:NAME, or "
            "a time such as 2026-01-31T12:00:00Z"
        ) from None


def _baseline(path: str) -> Baseline:
    """How many allocations of each kind and origin an earlier answer had."""
    try:
        with open(path, encoding="utf-8") as file:
            return baseline_of(json.load(file))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CommandError(f"{path} is not the output of `ttmem leaks --json`") from None


def _chip_id(name: str, snapshot: Any) -> str:
    with Answered("leaks"):
        try:
            return str(find_chip(name, snapshot)["chip"])
        except UnknownChip as error:
            raise CommandError(str(error)) from None


def _style(args: argparse.Namespace) -> Style:
    return style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)


def _text(found: Leaks, snapshot: Snapshot, args: argparse.Namespace) -> str:
    """The text output. The names of the chips come from the snapshot."""
    style = _style(args)
    snapshot = style.clean(snapshot)
    return render(
        found,
        Names(snapshot["chips"], style, chip_numbers(snapshot)),
        style,
        only_growing=args.growing,
        recorded=args.file is not None,
    )
