# SPDX-License-Identifier: Apache-2.0
"""Show what is still held, by likely cause: leaks, program cache, traces, the runtime itself, dead processes.

A leak is a buffer that a living process has held for longer than --older, with no known reason.

Exit code: 0 no leak, 3 a leak (the last line says how much), 5 the agent's counters make the result uncertain,
1 no server or another error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ttmem.cli import Answered, CommandError
from ttmem.cli.options import add_chip, add_pids, add_socket, add_utc, api_socket, flat
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.leaks import OLDER, SCHEMA
from ttmem.documents.unknown_rows import SCHEMA as snapshot_schema
from ttmem.show.chip_selector import UnknownChip, find_chip
from ttmem.show.chip_table import Names
from ttmem.show.leaks_text import render
from ttmem.show.text import style_of
from ttmem.wire.api_client import ApiError, get_document

if TYPE_CHECKING:
    from ttmem.model.schema import Leaks, Snapshot

LEAKED, UNCERTAIN = 3, 5  # as of `ttmem run --fail-on-leak`
_ANSWER_SECONDS = 60.0
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_socket(parser)
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.leaks/1"')
    parser.add_argument(
        "--older", metavar="SECONDS", type=_seconds, default=OLDER,
        help=f"age from which a buffer is a leak: 90, 90s, 5m, 2h (default: {OLDER})",
    )  # fmt: skip
    add_pids(parser, "show only this process")
    add_chip(parser, "show only this chip")
    add_utc(parser)


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a time: {text!r}; write seconds, or a number with s, m or h, such as 5m")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def run(args: argparse.Namespace) -> int:
    query = {"older": str(args.older)}
    if args.pids:
        query["pid"] = ",".join(flat(args.pids))
    asked = functools.partial(get_document, socket_path=api_socket(args), timeout=_ANSWER_SECONDS)
    try:
        snapshot = asked("/snapshot", snapshot_schema) if args.chip is not None or not args.json else None
        if args.chip is not None:
            query["chip"] = _chip_id(args.chip, snapshot)
        found = asked(f"/leaks?{urlencode(query)}", SCHEMA)
    except ApiError as error:
        raise CommandError(str(error)) from None
    with Answered("leaks"):
        text = json.dumps(found) if snapshot is None or args.json else _text(found, snapshot)
        code = UNCERTAIN if found["uncertain"] else LEAKED if found["verdict"]["leak"] else 0
    print(text)
    return code


def _chip_id(name: str, snapshot: Any) -> str:
    with Answered("leaks"):
        try:
            return str(find_chip(name, snapshot)["chip"])
        except UnknownChip as error:
            raise CommandError(str(error)) from None


def _text(found: Leaks, snapshot: Snapshot) -> str:
    """The snapshot is for the names of the chips."""
    style = style_of(sys.stdout)
    snapshot = style.clean(snapshot)
    return render(found, Names(snapshot["chips"], style, chip_numbers(snapshot)))
