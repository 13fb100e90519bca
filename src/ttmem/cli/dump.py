# SPDX-License-Identifier: Apache-2.0
"""Show what is allocated now: for each chip and kind of memory, the sums and the largest allocations.

With --by, group the allocations of each pool (DRAM, L1 buffers, cached programs, host memory) by origin: the ttnn
operation, the line or stack of Python (of processes under `ttmem run --stacks`), the shape of the tensor, the program,
the kind.

With --reports, show tt-metal's own memory reports (CSV files) in a folder, beside what a server tracks if one answers.

Exit code: 0 shown, 1 no server, an unknown pid or chip, a report that could not be read completely, or another error,
2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from urllib.parse import urlencode

from ttmem.cli import Answered, CommandError, UsageError, complain
from ttmem.cli.options import (
    MAX_ROWS,
    add_chips,
    add_kinds,
    add_pids,
    add_socket,
    add_style,
    add_top,
    add_utc,
    api_socket,
    flat,
)
from ttmem.documents.dump import LISTED, SCHEMA
from ttmem.documents.unknown_rows import SCHEMA as snapshot_schema
from ttmem.model.kinds import KERNEL_KINDS
from ttmem.show.text import style_of
from ttmem.wire.api_client import ApiError, get_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model import schema

_ANSWER_SECONDS = 3.0
_LONG_ANSWER_SECONDS = 60.0  # the server examines every live allocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_socket(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help='print JSON, schema "ttmem.dump/1", "ttmem.breakdown/1" or "ttmem.reports/1"',
    )
    add_pids(parser, "only what this process holds")
    add_chips(parser, "only what is on this chip")
    add_kinds(parser, "only this kind of memory")
    add_top(
        parser,
        f"list the N largest allocations of each kind (default {LISTED}); "
        "with --by, the N largest rows of each pool (default: all)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--kernels", action="store_true", help="short for --kind kernel,fabric_kernel,dispatch_kernel")
    what.add_argument(
        "--by", choices=("op", "line", "stack", "shape", "kind", "program"), help="group live allocations by this"
    )
    parser.add_argument("--file", metavar="FILE", help="recording to read instead of asking a server")
    parser.add_argument("--at", metavar="MOMENT", help="moment of the recording, as in `ttmem replay`")
    what.add_argument("--reports", metavar="DIR", help="read tt-metal's memory reports there, often generated/reports")
    add_style(parser)
    add_utc(parser)


def run(args: argparse.Namespace) -> int:
    if args.reports is not None:
        if args.pids or args.chips or args.kinds or args.top or args.file:
            raise UsageError("--pid, --chip, --kind, --top and --file select what a server tracks, not --reports")
        return _reports(args)
    if args.file is not None or args.at is not None:
        print(_of_file(args))
        return 0
    try:
        with Answered("dump"):
            text = _by(args) if args.by is not None else _dump(args)
    except ApiError as error:
        raise CommandError(str(error)) from None
    print(text)
    return 0


def _dump(args: argparse.Namespace) -> str:
    from ttmem.show.dump_text import render

    snapshot = _snapshot(args) if args.chips or args.pids or not args.json else None
    top = args.top or LISTED
    found = get_document(
        f"/dump?{urlencode(_query(args, snapshot, top))}", SCHEMA, socket_path=api_socket(args),
        timeout=_LONG_ANSWER_SECONDS,
    )  # fmt: skip
    if snapshot is None or args.json:
        return json.dumps(found)
    return render(found, snapshot, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color), top)


def _by(args: argparse.Namespace) -> str:
    from ttmem.analyze.breakdown import SCHEMA as breakdown_schema
    from ttmem.show.breakdown_table import render

    snapshot = _snapshot(args) if args.chips or args.pids else None
    query = {"by": args.by, **_query(args, snapshot, args.top or MAX_ROWS)}
    found = get_document(
        f"/breakdown?{urlencode(query)}", breakdown_schema, socket_path=api_socket(args), timeout=_LONG_ANSWER_SECONDS
    )
    if args.json:
        return json.dumps(found)
    return render(found, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color))


def _of_file(args: argparse.Namespace) -> str:
    """The same from a recording."""
    from ttmem.cli.recorded import check_at, replay, titled
    from ttmem.documents.dump import DumpFilter
    from ttmem.documents.of_account import breakdown_of, dump_of
    from ttmem.model.kinds import KIND_BY_LABEL, KINDS
    from ttmem.show import breakdown_table, dump_text

    check_at(args)
    found = replay(args.file, args.at)
    top = args.top or (MAX_ROWS if args.by is not None else LISTED)
    query = _query(args, found.snapshot, top)
    wanted = DumpFilter(
        chips=frozenset(query["chip"].split(",")) if "chip" in query else None,
        pids=frozenset(map(int, query["pid"].split(","))) if "pid" in query else None,
        kinds=frozenset(KIND_BY_LABEL[label] for label in query["kind"].split(",")) if "kind" in query else
        frozenset(KINDS),
        limit=top,
    )  # fmt: skip
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    if args.by is not None:
        groups = breakdown_of(found.ledger, args.by, wanted, top)
        return json.dumps(groups) if args.json else titled(found.where, breakdown_table.render(groups, style), style)
    listed = dump_of(found.ledger, wanted, found.time)
    return (
        json.dumps(listed)
        if args.json
        else titled(found.where, dump_text.render(listed, found.snapshot, style, top), style)
    )


def _snapshot(args: argparse.Namespace) -> schema.Snapshot:
    found: schema.Snapshot = get_document(
        "/snapshot", snapshot_schema, socket_path=api_socket(args), timeout=_ANSWER_SECONDS
    )
    return found


def _query(args: argparse.Namespace, snapshot: schema.Snapshot | None, top: int) -> dict[str, str]:
    """The parameters of /dump and /breakdown."""
    from ttmem.show.chip_selector import UnknownChip, only

    query = {"limit": str(top)}
    if args.chips and snapshot is not None:
        try:
            query["chip"] = ",".join(chip["chip"] for chip in only(snapshot, flat(args.chips))["chips"])
        except UnknownChip as error:
            raise CommandError(str(error)) from None
    if args.pids and snapshot is not None:
        known = {str(process["pid"]) for process in snapshot["processes"]}
        for pid in flat(args.pids):
            if pid not in known:
                raise CommandError(f"no process {pid} has reported to the server; `ttmem smi` lists the processes")
        query["pid"] = ",".join(flat(args.pids))
    kinds = [*flat(args.kinds), *(kind.label for kind in KERNEL_KINDS if args.kernels)]
    if kinds:
        query["kind"] = ",".join(dict.fromkeys(kinds))
    return query


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
