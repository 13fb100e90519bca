# SPDX-License-Identifier: Apache-2.0
"""Fold a recorded event file again and show the picture it ends in.

The account is nothing but a fold over events, so this is exactly what the server showed at that moment.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime

from ttmem.account.ledger import Ledger
from ttmem.account.physical import numbers
from ttmem.account.snapshot import snapshot
from ttmem.cli import CommandError
from ttmem.server.clock import rfc3339
from ttmem.show.smi import render
from ttmem.show.text import style_of
from ttmem.wire.journal import JournalError, JournalReader

_TIME_FORMS = "seconds since 1970 or a time such as 2026-01-31T12:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="written by `ttmem serve --record FILE`")
    parser.add_argument("--at", metavar="TIME", help=f"stop there: {_TIME_FORMS}")
    parser.add_argument("--json", action="store_true", help="the snapshot as data")


def run(args: argparse.Namespace) -> int:
    until = _moment(args.at) if args.at is not None else None
    ledger = Ledger()
    try:
        with open(args.file, "rb") as file:
            reader = JournalReader(file)
            last = reader.replay(ledger, until)
    except OSError as error:
        raise CommandError(f"{args.file}: {error.strerror}") from None
    except JournalError as error:
        raise CommandError(f"{args.file}: {error}") from None
    picture = snapshot(
        ledger,
        time=rfc3339(last or 0.0),
        host="replay",
        sources=[{"name": "recording", "state": "cut off" if reader.cut else "ok", "detail": None}],
        physical=numbers,
    )
    if reader.cut:
        print("ttmem replay: the file ends inside an entry; shown up to its last whole one", file=sys.stderr)
    print(json.dumps(picture) if args.json else render(picture, style_of(sys.stdout)))
    return 0


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise CommandError(f"--at takes {_TIME_FORMS}, not {text!r}") from None
