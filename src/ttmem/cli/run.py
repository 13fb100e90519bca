# SPDX-License-Identifier: Apache-2.0
"""Run a command that uses ttnn and account for every byte of device memory that it takes.

Signals, terminal, output and exit code of the command stay the same. When it has ended, a summary is printed on
standard error: memory at the peak and at the end, leaks, and the cause of a failed allocation. If there is a server,
the command also reports to it.

Exit code: the command's own (128 + N if signal N ended it). If that is 0: 3 if --fail-on-leak found buffers that
grow from step to step, 4 if a budget (--max-l1, --max-dram) was exceeded, 5 if one of these options was given and the
run was not recorded completely, or no device was opened. 5 comes before 3 and 4 if the agent's counters make the
result uncertain. 126 or 127 if the command cannot be run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ttmem.agent import AgentMissing
from ttmem.cli import CommandError, UsageError
from ttmem.cli.options import add_socket, add_stacks, add_style, size, stack_frames
from ttmem.documents.run_document import BREAKDOWNS
from ttmem.model.printable import printable
from ttmem.recording.output_files import RUN_REPORT, open_report, overwrite
from ttmem.run.budget_verdicts import Limits, judge
from ttmem.run.launch import LaunchError
from ttmem.run.launch import run as launch
from ttmem.run.recorded_facts import run_facts
from ttmem.run.result import result_of
from ttmem.run.session import Session
from ttmem.show.run_text import render
from ttmem.show.text import style_of
from ttmem.wire.endpoint import connect

if TYPE_CHECKING:
    from ttmem.cli.report import Page
    from ttmem.model.schema import Leaks, Run

_ANSWER_SECONDS = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", help='write the result as JSON, schema "ttmem.run/1"; - is standard output'
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="write a recording to FILE, for `ttmem replay`, `ttmem explain`, and commands with --file",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write a page to FILE when the command has ended, as `ttmem report` does"
    )
    parser.add_argument("--quiet", action="store_true", help="print no summary; verdicts and errors are still printed")
    add_socket(parser, "socket of a server that must be there and is reported to (default: the first found, if any)")
    parser.add_argument(
        "--fail-on-leak", action="store_true", help="exit 3 if buffers grow from step to step; see `ttmem leaks`"
    )
    parser.add_argument("--max-l1", metavar="SIZE", type=size, help="exit 4 if buffers took more L1 on a chip")
    parser.add_argument("--max-dram", metavar="SIZE", type=size, help="exit 4 if buffers took more DRAM on a chip")
    add_stacks(parser)
    parser.add_argument(
        "--by",
        choices=BREAKDOWNS,
        help="group the allocations at the peak by this (default: line with --stacks, otherwise op)",
    )
    add_style(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command to run")


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("there is no command to run; write it after --, for example: ttmem run -- python model.py")
    stacks = stack_frames(args)
    _check_outputs(args)
    if args.socket is not None:
        _check_server(args.socket)
    out = _open_report(args.json) if args.json else None
    page = _open_page(args.report) if args.report else None
    gc.set_threshold(10_000, 5, 1_000_000)  # as in the server, for the same reason
    with TemporaryDirectory(prefix="ttmem-run-") as folder:
        # Leaks are judged by everything that happened, so they need a recording. A page is made of one.
        needed = args.fail_on_leak or page is not None
        record = args.record or (os.path.join(folder, "run.ttmem") if needed else None)
        with _session(record, command) as session:
            try:
                ended = launch(command, session, os.environ, args.socket, stacks=stacks)
            except AgentMissing as error:
                raise CommandError(str(error)) from None
            except LaunchError as error:
                _warn(str(error))
                return 127 if isinstance(error.__cause__, FileNotFoundError) else 126
            session.ended(ended.exit_code)
            result = result_of(command, ended, session, socket.gethostname())
            session.keep_facts(sizing=result.document["sizing"])
        leaks = _leaks(record) if args.fail_on_leak and record is not None else None
        written = page is None or record is None or _write_page(page, record)
    written = (out is None or _write(out, args.json, result.document)) and written
    if not args.quiet:
        style = style_of(sys.stderr, ascii=args.ascii, colour=not args.no_color)
        _print(render(result.document, style, args.by or ("line" if args.stacks else "op")))
    verdicts = judge(result, Limits(args.fail_on_leak, args.max_dram, args.max_l1), leaks)
    for line in verdicts.lines:
        _warn(line)
    return verdicts.exit_code or (0 if written else 1)


def _check_outputs(args: argparse.Namespace) -> None:
    """Two options must not name the same file."""
    named: dict[str, str] = {}
    for option in ("json", "record", "report"):
        path = getattr(args, option)
        if path and path != "-":
            other = named.setdefault(os.path.realpath(path), option)
            if other != option:
                raise UsageError(f"--{other} and --{option} name the same file, {path}")


def _open_page(path: str) -> Page:
    from ttmem.cli.report import open_page

    return open_page(path)


def _write_page(page: Page, record: str) -> bool:
    """Whether the page of a run could be written."""
    from ttmem.cli.report import title_of
    from ttmem.recording.recording_file import Recording

    try:
        with page, Recording(record) as recording:
            page.report(recording, title_of(recording, confidential=False))
    except CommandError as error:
        _warn(str(error))
        return False
    except (OSError, ValueError) as error:
        _warn(f"cannot write {page.path}: {error}")
        return False
    return True


def _leaks(record: str) -> Leaks | None:
    """The leaks of a run; None if its recording cannot be read."""
    from ttmem.analyze.recorded_closings import closing_times
    from ttmem.documents.leaks import Request
    from ttmem.documents.recorded_leaks import recorded_leaks
    from ttmem.recording.recording_file import Recording

    try:
        with Recording(record) as recording:
            return recorded_leaks(recording, Request(), closing_times(recording))
    except (OSError, ValueError) as error:
        _warn(f"leaks cannot be judged: {error}")
        return None


def _check_server(path: str) -> None:
    """Check that the server of --socket answers before a command that may run for hours."""
    try:
        connect(path, _ANSWER_SECONDS, check=False).close()
    except OSError as error:
        raise CommandError(
            f"no ttmem server answers on {path}: {error.strerror}; start one with `ttmem serve --socket {path}`, or "
            "leave --socket out"
        ) from None


def _session(record: str | None, command: list[str]) -> Session:
    try:
        return Session(_warn, record, run_facts(command) if record is not None else None)
    except OSError as error:
        raise CommandError(f"cannot write {record}: {error.strerror}" if record else str(error)) from None


def _open_report(path: str) -> int:
    """Open the file before the command runs for hours; its old content stays until the command has ended."""
    if path == "-":
        return os.dup(sys.stdout.fileno())
    try:
        return open_report(path, RUN_REPORT)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


def _write(out: int, path: str, document: Run) -> bool:
    """Write the report; returns whether that succeeded. The exit code stays that of the command in any case."""
    try:
        # Keep what the command itself wrote there.
        with open(out, "w", encoding="utf-8") if path == "-" else overwrite(out) as file:
            json.dump(document, file)
            file.write("\n")
    except OSError as error:
        _warn(f"cannot write {path}: {error.strerror}")
        return False
    return True


def _warn(text: str) -> None:
    _print(printable(f"ttmem run: {text}"))


def _print(text: str) -> None:
    """Print on standard error. If that fails (closed pipe, full disk), the exit code is still the command's."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
