# SPDX-License-Identifier: Apache-2.0
"""Show what is allocated now: per device and kind, large and small, each allocation where there are few.

With --by, group by origin: the ttnn operation, the line or stack of Python (of processes under
`ttmem run --stacks`), the shape of the tensor, the program, the kind.

With --reports, what tt-metal's own memory reports (CSV files) in a folder say, beside what a server tracks if one
answers. Exit code 1 if a file could not be read completely; the others are shown.
"""

from __future__ import annotations

import argparse
import json
import time

from ttmem.cli import Answered, CommandError, complain
from ttmem.cli.options import add_socket, api_socket
from ttmem.documents.dump import SCHEMA
from ttmem.documents.unknown_rows import SCHEMA as snapshot_schema
from ttmem.model.printable import printable_lines
from ttmem.wire.api_client import ApiError, get, get_document

_ANSWER_SECONDS = 3.0
_LONG_ANSWER_SECONDS = 60.0  # goes through every live allocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_socket(parser)
    parser.add_argument("--json", action="store_true", help='as data, schema "ttmem.dump/1" or "ttmem.reports/1"')
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--kernels", action="store_true", help="only kernels, each with its age")
    what.add_argument(
        "--by", choices=("op", "line", "stack", "shape", "kind", "program"), help="group live allocations by this"
    )
    what.add_argument("--reports", metavar="DIR", help="read tt-metal's memory reports there, often generated/reports")


def run(args: argparse.Namespace) -> int:
    if args.reports is not None:
        return _reports(args)
    if args.by is not None:
        return _by(args)
    what = "kernels" if args.kernels else "all"
    try:
        if args.json:
            found = get_document(
                f"/dump?format=json&what={what}", SCHEMA, socket_path=api_socket(args), timeout=_LONG_ANSWER_SECONDS
            )
            text = json.dumps(found)
        else:
            answer = get(f"/dump?format=text&what={what}", socket_path=api_socket(args), timeout=_LONG_ANSWER_SECONDS)
            text = printable_lines(answer.decode("utf-8", "surrogateescape")).rstrip("\n")
    except ApiError as error:
        raise CommandError(str(error)) from None
    print(text)
    return 0


def _by(args: argparse.Namespace) -> int:
    from ttmem.analyze.breakdown import SCHEMA as breakdown_schema
    from ttmem.show.breakdown_table import render

    try:
        path = f"/breakdown?by={args.by}&limit=10000"
        found = get_document(path, breakdown_schema, socket_path=api_socket(args), timeout=_LONG_ANSWER_SECONDS)
    except ApiError as error:
        raise CommandError(str(error)) from None
    with Answered("dump"):
        text = json.dumps(found) if args.json else render(found)
    print(text)
    return 0


def _reports(args: argparse.Namespace) -> int:
    from ttmem.documents.metal_reports import document
    from ttmem.show.reports_text import render
    from ttmem.sources.memory_reports import ReportError, read

    try:
        found = read(args.reports)
    except ReportError as error:
        raise CommandError(str(error)) from None
    snapshot, why_none = None, ""
    try:
        snapshot = get_document("/snapshot", snapshot_schema, socket_path=api_socket(args), timeout=_ANSWER_SECONDS)
    except ApiError as error:
        why_none = str(error)
    with Answered("dump"):
        data = document(found, args.reports, time.time(), snapshot, why_none)
    print(json.dumps(data) if args.json else render(data))
    for problem in found.problems:
        complain(f"ttmem dump: {problem}")
    return 1 if found.problems else 0
