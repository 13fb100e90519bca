# SPDX-License-Identifier: Apache-2.0
"""Show what is still held, by likely cause: leaks, the program cache, traces, the runtime's own, the dead.

A leak is a buffer that a living process has held for longer than --older, and that nothing else accounts for.

Exit code: 0 no leak, 3 a leak (the last line says how much), 5 the agent's counters make the result uncertain,
1 no server or another error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import re
from urllib.parse import urlencode

from ttmem.cli import Answered, CommandError
from ttmem.documents.leaks import OLDER, SCHEMA, leaks_text
from ttmem.wire.api_client import ApiError, get_document

LEAKED, UNCERTAIN = 3, 5  # as of `ttmem run --fail-on-leak`
_ANSWER_SECONDS = 60.0
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--api", metavar="PATH", help="the server's API socket (default: found like the server's own)")
    parser.add_argument("--json", action="store_true", help='as data, schema "ttmem.leaks/1"')
    parser.add_argument(
        "--older", metavar="SECONDS", type=_seconds, default=OLDER,
        help=f"what is held for less is young, not leaked: 90, 90s, 5m, 2h (default {OLDER})",
    )  # fmt: skip
    parser.add_argument("--pid", metavar="PID", type=int, nargs="+", help="only what these processes hold")
    parser.add_argument("--chip", metavar="CHIP", help="only what is on this chip")


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a time: {text!r}; write seconds, or a number with s, m or h, such as 5m")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def run(args: argparse.Namespace) -> int:
    query = {"older": str(args.older)}
    if args.pid:
        query["pid"] = ",".join(map(str, args.pid))
    if args.chip is not None:
        query["chip"] = args.chip
    try:
        found = get_document(f"/leaks?{urlencode(query)}", SCHEMA, socket_path=args.api, timeout=_ANSWER_SECONDS)
    except ApiError as error:
        raise CommandError(str(error)) from None
    with Answered("leaks"):
        text = json.dumps(found) if args.json else leaks_text(found)
        code = UNCERTAIN if found["uncertain"] else LEAKED if found["verdict"]["leak"] else 0
    print(text)
    return code
