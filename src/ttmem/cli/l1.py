# SPDX-License-Identifier: Apache-2.0
"""Show the L1 of a chip, core by core: how full each core is, and how close circular buffers are to L1 buffers.

With --core, also show the map of that core: what is at which address, and who holds it. The data comes from a server or
from a recording.

Exit code: 0 shown, 1 no server, no such file, chip or core, or another error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ttmem.account.ledger import Ledger
from ttmem.cli import Answered, CommandError, UsageError
from ttmem.cli.options import add_chip, add_socket, add_style, api_socket
from ttmem.cli.recorded import add_file, replay, titled
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.cores import SCHEMA, Cores, parse_core
from ttmem.documents.unknown_rows import SCHEMA as snapshot_schema
from ttmem.model.uncertain_reasons import meanings_text
from ttmem.show.chip_selector import UnknownChip, find_chip
from ttmem.show.chip_table import Names
from ttmem.show.l1_text import render
from ttmem.show.text import style_of, wrap
from ttmem.wire.api_client import ApiError, get_document

if TYPE_CHECKING:
    from ttmem.model import schema

_ANSWER_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_chip(parser, "chip to show (default: the one with the least headroom)")
    parser.add_argument(
        "--core", type=_core, metavar="X,Y", help="also show the map of this core, in logical coordinates"
    )
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.cores/1"')
    where = parser.add_mutually_exclusive_group()
    add_socket(where)
    add_file(parser, where)
    add_style(parser)


def _core(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,4},[0-9]{1,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not X,Y in logical coordinates such as 3,4")
    return text


def run(args: argparse.Namespace) -> int:
    if args.at is not None and args.file is None:
        raise UsageError("--at needs --file; a server shows the current state")
    if args.file is not None:
        print(_of_file(args))
        return 0
    with Answered("l1"):
        text = _of_server(args)
    print(text)
    return 0


def _of_server(args: argparse.Namespace) -> str:
    try:
        snapshot = get_document("/snapshot", snapshot_schema, socket_path=api_socket(args), timeout=_ANSWER_SECONDS)
        chip, query = _asked(args, snapshot)
        found = get_document(
            f"/cores?{urlencode(query)}", SCHEMA, socket_path=api_socket(args), timeout=_ANSWER_SECONDS
        )
    except ApiError as error:
        raise CommandError(str(error)) from None
    return _text(args, snapshot, chip, found)


def _of_file(args: argparse.Namespace) -> str:
    recorded = replay(args.file, args.at)
    chip, query = _asked(args, recorded.snapshot)
    text = _text(args, recorded.snapshot, chip, _cores(recorded.ledger, query))
    if args.json:
        return text
    return titled(recorded.where, text, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color))


def _asked(args: argparse.Namespace, snapshot: schema.Snapshot) -> tuple[schema.ChipRow, dict[str, str]]:
    """The chosen chip, and the parameters of `/cores`."""
    try:
        chip = _chosen(args, snapshot)
    except UnknownChip as error:
        raise CommandError(str(error)) from None
    return chip, {"chip": chip["chip"], **({} if args.core is None else {"core": args.core})}


def _text(args: argparse.Namespace, snapshot: schema.Snapshot, chip: schema.ChipRow, found: schema.Cores) -> str:
    if args.json:
        return json.dumps(found)
    style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
    names = Names(snapshot["chips"], style, chip_numbers(snapshot))
    text = render(found, names.title(chip["chip"]), style)
    if chip["memory"]["uncertain"]:
        doubt = f"uncertain: the agent counted {meanings_text(chip['memory']['uncertain'])}"
        text += "\n\n" + "\n".join(wrap(doubt, style, "  ", ""))
    others = [names.short(other["chip"]) for other in snapshot["chips"] if other is not chip]
    if args.chip is None and others:
        more = f"{', '.join(others[:8])}{' ...' if len(others) > 8 else ''}"
        text += "\n\n" + "\n".join(wrap(style.clean(f"`ttmem l1 -d CHIP` shows another chip: {more}"), style))
    return text


def _cores(ledger: Ledger, query: dict[str, str]) -> schema.Cores:
    """The document of `/cores`, made from a ledger without a server."""
    try:
        core = parse_core(query["core"]) if "core" in query else None
        return asyncio.run(Cores(ledger).document(query["chip"], core, lambda user_id: True))
    except (ValueError, LookupError) as error:
        raise CommandError(str(error.args[0])) from None


def _chosen(args: argparse.Namespace, snapshot: schema.Snapshot) -> schema.ChipRow:
    """The chip of the -d option, or the one with the least headroom."""
    chips = snapshot["chips"]
    if not chips and args.file is not None:
        raise CommandError(f"{args.file}: no process uses a chip at that moment; choose another with --at")
    if not chips:
        raise CommandError("no chip is known; `ttmem doctor` looks for the reason")
    if args.chip is not None:
        return find_chip(args.chip, snapshot)

    def trouble(chip: schema.ChipRow) -> tuple[bool, int]:
        headroom = chip["memory"]["l1"]["physical"]["headroom_min"]
        return headroom is None, headroom or 0

    return min(chips, key=trouble)
