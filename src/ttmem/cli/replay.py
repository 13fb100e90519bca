# SPDX-License-Identifier: Apache-2.0
"""Fold a recorded event file again and show the picture it ends in.

The account is nothing but a fold over events, so this is exactly what the server showed at that moment.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from typing import Any, NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.account.physical import numbers
from ttmem.account.snapshot import peaks, snapshot
from ttmem.account.units import human
from ttmem.cli import CommandError
from ttmem.server.clock import rfc3339
from ttmem.show.smi import render
from ttmem.show.text import Style, style_of, wrap
from ttmem.wire.journal import JournalError, JournalReader

_TIME_FORMS = "seconds since 1970 or a time such as 2026-01-31T12:00:00Z"
_LISTED = 5


class Replay(NamedTuple):
    """An event file, folded."""

    ledger: Ledger
    picture: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="written by `ttmem serve --record FILE` or `ttmem import`")
    parser.add_argument("--at", metavar="TIME", help=f"stop there: {_TIME_FORMS}")
    parser.add_argument("--peaks", action="store_true", help="the peaks up to there instead, with what was live then")
    parser.add_argument("--json", action="store_true", help="the snapshot, or the peaks, as data")


def run(args: argparse.Namespace) -> int:
    ledger, picture = replay(args.file, args.at)
    style = style_of(sys.stdout)
    if args.peaks:
        found = peaks(ledger)
        print(json.dumps(found) if args.json else _peaks(found, style))
    else:
        print(json.dumps(picture) if args.json else render(picture, style))
    return 0


def replay(path: str, at: str | None) -> Replay:
    """The account of an event file, up to a time if one is given."""
    until = _moment(at) if at is not None else None
    ledger = Ledger()
    try:
        with open(path, "rb") as file:
            reader = JournalReader(file)
            last = reader.replay(ledger, until)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except JournalError as error:
        raise CommandError(f"{path}: {error}") from None
    if reader.cut:
        print(f"ttmem: {path} ends inside an entry; shown up to its last whole one", file=sys.stderr)
    picture = snapshot(
        ledger,
        time=rfc3339(last or 0.0),
        host="replay",
        sources=[{"name": "recording", "state": "cut off" if reader.cut else "ok", "detail": None}],
        physical=numbers,
    )
    return Replay(ledger, picture)


def _peaks(found: list[dict[str, Any]], style: Style) -> str:
    """Each peak of a kind, and the largest things of it."""
    lines = []
    for one in style.clean(found):
        if "kind" not in one:  # those of a pool have the same things again
            continue
        title = f"chip {one['chip']} {one['kind']}: {human(one['bytes'])} at {rfc3339(one['time'], 6)}"
        lines += wrap(title, style)
        for item in one["largest"][:_LISTED]:
            text = f"{human(item['size'])} at {item['address']}{' in an L1 buffer' if item['shared'] else ''}"
            lines += wrap(", ".join(filter(None, (text, item["cores"], item["tag"]))), style, "    ", "  ")
        if len(one["largest"]) > _LISTED:
            lines.append(f"  and {len(one['largest']) - _LISTED} smaller ones, which --json has")
    return "\n".join(lines) or "Nothing was ever allocated."


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise CommandError(f"--at takes {_TIME_FORMS}, not {text!r}") from None
