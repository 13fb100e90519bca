# SPDX-License-Identifier: Apache-2.0
"""Explain failed allocations: the cause of out-of-memory, clash, ring and trace errors in a log, and possible fixes.

Takes the log of a program, or an event file (`ttmem run --record`, `ttmem import`), which also knows who held the
memory. Explains the last failure and counts the others.

Exit code: 0 explained, 1 no failure was found or the file cannot be read, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import BinaryIO

from ttmem.account.entities import Process
from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import WHAT
from ttmem.analyze.log_scanner import KEPT_FAILURES, LogScan
from ttmem.analyze.verdict_types import Verdict
from ttmem.analyze.verdicts import verdict_on
from ttmem.cli import CommandError
from ttmem.cli.options import add_style, add_utc
from ttmem.documents import explanation
from ttmem.documents.common_text import local_time
from ttmem.ingest.clock import rfc3339
from ttmem.model.events import Failed
from ttmem.recording.event_file import MAGIC, EventFileError, EventFileReader
from ttmem.show.explain_text import render
from ttmem.show.text import style_of

_PIECE_BYTES = 1 << 18

Found = tuple[str, int, Verdict]  # where, how often, what
Stamp = Callable[[float, int], str]  # the text of a time, with so many digits of a second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="log or event file; - is a log on standard input")
    parser.add_argument("--all", action="store_true", help="explain every failure, not only the last one")
    parser.add_argument("--json", action="store_true", help=f'print JSON, schema "{explanation.SCHEMA}"')
    add_style(parser)
    add_utc(parser)


def run(args: argparse.Namespace) -> int:
    name = "standard input" if args.file == "-" else args.file
    try:
        with nullcontext(sys.stdin.buffer) if args.file == "-" else open(args.file, "rb") as file:
            found, dropped = _read(file, rfc3339 if args.json else local_time)
    except IsADirectoryError:
        raise CommandError(f"{name} is a folder; name a log or an event file") from None
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    except EventFileError as error:
        raise CommandError(f"{name}: {error}") from None
    shown = found if args.all else found[-1:]
    document = explanation.document(name, len(found) + dropped, shown)
    if args.json:
        print(json.dumps(document))
    elif not found:
        raise CommandError(f"no failure in {name}; it looks for: {'; '.join(WHAT)}")
    else:
        style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
        print(render(document, style))
        if dropped and args.all:
            print(f"ttmem explain: only the last {KEPT_FAILURES} different failures were kept", file=sys.stderr)
    return 0 if found else 1


def _read(file: BinaryIO, stamp: Stamp) -> tuple[list[Found], int]:
    """The different failures in a file, the last one last, and how many more there were."""
    head = file.read(len(MAGIC))
    if head == MAGIC:
        if not file.seekable():
            raise CommandError("an event file cannot be read from a pipe; name the file")
        file.seek(0)
        return _of_events(file, stamp)
    scan = LogScan()
    scan.feed(head)
    while piece := file.read(_PIECE_BYTES):
        scan.feed(piece)
    scan.end()
    return [(f"line {one.line}", one.times, verdict_on(one.failure)) for one in scan.mentions], scan.dropped


def _of_events(file: BinaryIO, stamp: Stamp) -> tuple[list[Found], int]:
    """Folds an event file and looks at the account whenever the runtime threw."""
    found, seen = deque[Found](maxlen=KEPT_FAILURES), 0

    def look(time: float, process: Process, event: Failed) -> None:
        nonlocal seen
        verdict = verdict_at(event, process)
        if verdict is not None:
            seen += 1
            info = process.info  # of what was imported there is no pid, but the name of the file
            who = f"pid {info.pid}" if info.pid else info.name
            found.append((", ".join(filter(None, (stamp(time, 3), who))), 1, verdict))

    reader = EventFileReader(file)
    reader.replay(Ledger(failure_observer=look))
    if reader.cut:
        print("ttmem explain: the file ends inside an entry; looked at up to its last whole one", file=sys.stderr)
    return list(found), seen - len(found)
