# SPDX-License-Identifier: Apache-2.0
"""Show what was live at a moment of a recording, by call tree: the outermost caller first, the operation last.

Each line has the bytes, the share of its pool, and the number of allocations of a caller and everything below it.
Stacks are known of processes under `ttmem run --stacks`; otherwise allocations are below their operation.

Exit code: 0 shown, 1 the file cannot be read, is no recording, or has no such moment or chip, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys

from ttmem.analyze.call_tree import CallTree
from ttmem.analyze.chip_sums import CountedChips
from ttmem.cli import CommandError
from ttmem.cli.options import add_chips, add_style, add_utc, flat, size
from ttmem.cli.recorded import add_at, replay, titled
from ttmem.documents.dump import DumpFilter
from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import BreakdownPool
from ttmem.show.chip_selector import UnknownChip, only
from ttmem.show.text import style_of
from ttmem.show.tree_text import render

_POOLS = {pool.label: pool for pool in BreakdownPool}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    add_at(parser)
    parser.add_argument("--pool", choices=tuple(_POOLS), help="only this pool (default: all)")
    add_chips(parser, "only what is on this chip")
    parser.add_argument("--depth", type=_depth, metavar="N", help="show at most N levels of callers (default: all)")
    parser.add_argument("--min", type=size, metavar="SIZE", default=0, help="leave out lines with less, such as 1M")
    parser.add_argument(
        "--search", metavar="TEXT", type=_text,
        help="only allocations with this text in a caller, the operation or the shape; case is ignored",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.tree/1", with all levels')
    add_style(parser)
    add_utc(parser)


def _depth(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of levels from 1 up")
    return int(text)


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the text is empty; leave the option out to show everything")
    return text


def run(args: argparse.Namespace) -> int:
    recorded = replay(args.file, args.at)
    wanted = DumpFilter()
    if args.chips:
        try:
            chips = only(recorded.snapshot, flat(args.chips))["chips"]
        except UnknownChip as error:
            raise CommandError(str(error)) from None
        wanted = DumpFilter(chips=frozenset(chip["chip"] for chip in chips))
    tree = CallTree(CountedChips(wanted.wants), search=args.search, pool=_POOLS.get(args.pool))
    for allocation in recorded.ledger.allocations():
        if allocation.refs:
            tree.add(allocation)
    found = tree.document(rfc3339(recorded.time, 6))
    if args.json:
        print(json.dumps(found))
        return 0
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    print(titled(recorded.where, render(found, style, depth=args.depth, smallest=args.min), style))
    return 0
