# SPDX-License-Identifier: Apache-2.0
"""Explain failed allocations: the cause of out-of-memory, clash, ring and trace errors in a log, and possible fixes.

Takes the log of a program, or a recording (`ttmem run --record`, `ttmem import`), which also contains the
holders of the memory. Explains the last failure and counts the others.

Exit code: 0 explained, 1 no failure was found or the file cannot be read, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from math import inf
from typing import BinaryIO

from ttmem.account.entities import Process
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import WHAT
from ttmem.analyze.log_scanner import KEPT_FAILURES, LogScan
from ttmem.analyze.verdict_types import Verdict
from ttmem.analyze.verdicts import verdict_on
from ttmem.cli import CommandError, UsageError
from ttmem.cli.options import add_style, add_utc
from ttmem.cli.recorded import is_failure, moment_of, opened
from ttmem.documents import explanation
from ttmem.documents.common_text import local_time
from ttmem.ingest.clock import rfc3339
from ttmem.model.events import Failed
from ttmem.recording.blocks import FILE_MAGIC
from ttmem.recording.moments import just_before
from ttmem.recording.playhead import Playhead
from ttmem.recording.recording_file import Recording
from ttmem.recording.segment_folder import SEGMENT_SUFFIX
from ttmem.show.explain_text import render
from ttmem.show.text import style_of

_PIECE_BYTES = 1 << 18

Found = tuple[str, int, Verdict]  # place, number of times, verdict
Stamp = Callable[[float, int], str]  # formats a time with a number of decimals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="log or recording; - is a log on standard input")
    parser.add_argument("--all", action="store_true", help="explain every failure, not only the last one")
    parser.add_argument(
        "--at", metavar="MOMENT", help="explain the last failure up to this moment of a recording, as in `ttmem replay`"
    )
    parser.add_argument("--json", action="store_true", help=f'print JSON, schema "{explanation.SCHEMA}"')
    add_style(parser)
    add_utc(parser)


def run(args: argparse.Namespace) -> int:
    name = "standard input" if args.file == "-" else args.file
    try:
        if _is_recording(args.file):
            with opened(args.file) as recording:
                found, dropped = _of_recording(recording, rfc3339 if args.json else local_time, args.all, args.at)
        elif args.at is not None:
            raise UsageError("--at needs a recording; a log has no moments")
        else:
            with nullcontext(sys.stdin.buffer) if args.file == "-" else open(args.file, "rb") as file:
                found, dropped = _read(file)
    except IsADirectoryError:
        raise CommandError(f"{name} is a folder; name a log or a recording") from None
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    shown = found if args.all else found[-1:]
    document = explanation.document(name, len(found) + dropped, shown)
    if args.json:
        print(json.dumps(document))
    elif not found:
        raise CommandError(f"no failure in {name}; ttmem recognizes {WHAT}; docs/explain.md lists the messages")
    else:
        style = style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)
        print(render(document, style))
        if dropped and args.all:
            print(f"ttmem explain: only the last {KEPT_FAILURES} different failures were kept", file=sys.stderr)
    return 0 if found else 1


def _is_recording(path: str) -> bool:
    """Is it a recording: a file that begins like one, or a folder with segments?"""
    if os.path.isdir(path):
        return any(name.endswith(SEGMENT_SUFFIX) for name in os.listdir(path))
    if not os.path.isfile(path):  # a pipe must not be read here
        return False
    with open(path, "rb") as file:
        return file.read(len(FILE_MAGIC)) == FILE_MAGIC


def _read(file: BinaryIO) -> tuple[list[Found], int]:
    """The different failures in a log, the last one last, and how many more there were."""
    scan = LogScan()
    head = file.read(len(FILE_MAGIC))
    if head == FILE_MAGIC:
        raise CommandError("a recording cannot be read from a pipe; name the file")
    scan.feed(head)
    while piece := file.read(_PIECE_BYTES):
        scan.feed(piece)
    scan.end()
    return [(f"line {one.line}", one.times, verdict_on(one.failure)) for one in scan.mentions], scan.dropped


def _of_recording(
    recording: Recording, stamp: Stamp, every: bool, at: str | None
) -> tuple[list[Found], int]:  # fmt: skip
    """Explain the last failure of a recording, or every one, with the account at that time."""
    found = list[Found]()
    begin = inf  # failures before this time are left out

    def look(time: float, process: Process, event: Failed) -> None:
        verdict = verdict_at(event, process) if time >= begin else None
        if verdict is not None:
            info = process.info  # an imported file has no pid, but a name
            who = f"pid {info.pid}" if info.pid else info.name
            found.append((", ".join(filter(None, (stamp(time, 3), who))), 1, verdict))

    until = inf if at is None else moment_of(recording, at).time
    failures = [
        one for one in recording.failures()
        if one.time <= until and isinstance(one.event, Failed) and is_failure(one.event.text)
    ]  # fmt: skip
    kept = KEPT_FAILURES if every else 1
    head: Playhead | None = None
    for time in dict.fromkeys(one.time for one in failures[-kept:]):
        begin = time
        head = recording.moved(head, just_before(time), failure_observer=look)
        head.advance(time)
    return found[-kept:], max(0, len(failures) - kept)
