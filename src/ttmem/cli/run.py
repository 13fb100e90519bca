# SPDX-License-Identifier: Apache-2.0
"""Run a command that uses ttnn and account for every byte of device memory it takes.

The command runs as it would without: its signals, terminal, output and exit code are its own. What was taken, at
the peak and at the end, is printed on standard error when it has ended. A server, if there is one, is told as well.

Exit code: the command's own (128 + N if signal N ended it). If that is 0: 3 if --fail-on-leak found tensors that
nobody freed, 4 if a budget (--max-l1, --max-dram) was exceeded, 5 if either was asked for and the run was not seen
completely, or no device at all. 5 comes before 3 and 4 if the agent's counters make the result uncertain. 126 or 127
if the command cannot be run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import sys

from ttmem.agent import AgentMissing
from ttmem.cli import CommandError, UsageError
from ttmem.cli.options import add_stacks, stack_frames
from ttmem.model.kinds import Pool
from ttmem.model.printable import printable
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import human, parse
from ttmem.recording.output_files import RUN_REPORT, open_report, overwrite
from ttmem.run.launch import LaunchError
from ttmem.run.launch import run as launch
from ttmem.run.result import RunResult
from ttmem.run.session import Session
from ttmem.show.run_text import render

LEAKED, OVER_BUDGET, NOT_SEEN = 3, 4, 5
BY = ("op", "line", "shape", "kind", "program")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help='write everything as data, schema "ttmem.run/1"')
    parser.add_argument(
        "--record", metavar="FILE", help="write all events, for `ttmem replay`, `l1 --file` and `explain`"
    )
    parser.add_argument("--quiet", action="store_true", help="no summary; verdicts and errors are still printed")
    parser.add_argument("--socket", metavar="PATH", help="report to the server there, too (default: if one is found)")
    parser.add_argument("--fail-on-leak", action="store_true", help="exit 3 if tensors are left when the devices close")
    parser.add_argument("--max-l1", metavar="SIZE", type=_size, help="exit 4 if buffers took more L1 on a chip")
    parser.add_argument("--max-dram", metavar="SIZE", type=_size, help="exit 4 if buffers took more DRAM on a chip")
    add_stacks(parser)
    parser.add_argument(
        "--by", choices=BY, help="put what was live at the peak together by this (default: line with --stacks, else op)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")


def _size(text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("there is no command to run; for example: ttmem run -- python model.py")
    if args.json and args.record and os.path.realpath(args.json) == os.path.realpath(args.record):
        raise UsageError(f"--json and --record name the same file, {args.json}")
    out = _open_report(args.json) if args.json else None
    gc.set_threshold(10_000, 5, 1_000_000)  # as the server does, and for the same reason
    with _collector(args.record) as collector:
        try:
            ended = launch(command, collector, os.environ, args.socket, stacks=stack_frames(args))
        except AgentMissing as error:
            raise CommandError(str(error)) from None
        except LaunchError as error:
            _warn(str(error))
            return 127 if isinstance(error.__cause__, FileNotFoundError) else 126
        report = RunResult(command, ended, collector, socket.gethostname())
        written = out is None or _write(out, args.json, report)
    if not args.quiet:
        by = args.by or ("line" if args.stacks else "op")
        _say(render(report, by))
    return _verdict(args, report) or (0 if written else 1)


def _collector(record: str | None) -> Session:
    try:
        return Session(_warn, record)
    except OSError as error:
        raise CommandError(f"cannot write {record}: {error.strerror}" if record else str(error)) from None


def _open_report(path: str) -> int:
    """Before the command runs for hours; what is in the file stays until the command has ended."""
    try:
        return open_report(path, RUN_REPORT)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


def _write(out: int, path: str, report: RunResult) -> bool:
    """What the command ended with is not forgotten because a disk is full."""
    try:
        data = report.data()
        with overwrite(out) as file:
            json.dump(data, file)
            file.write("\n")
    except OSError as error:
        _warn(f"cannot write {path}: {error.strerror}")
        return False
    return True


def _verdict(args: argparse.Namespace, report: RunResult) -> int:
    """One line a verdict; the command's own failure comes first."""
    code = 0
    limits = ((Pool.DRAM, args.max_dram), (Pool.L1, args.max_l1))
    asked = args.fail_on_leak or any(limit is not None for _, limit in limits)
    if asked and (report.dropped or report.ended.unseen or report.completeness not in (None, 1.0) or report.troubles):
        _warn("verdict: the run was not seen completely")
        code = NOT_SEEN
    elif asked and not report.events:
        _warn("verdict: no device was seen to be opened, so nothing can be said of it")
        code = NOT_SEEN
    for pool, limit in limits:
        highest = report.highest(pool)
        if limit is not None and highest > limit:
            _warn(f"verdict: {pool.name} peak {human(highest)} ({highest} B) is over the budget of {human(limit)}")
            code = OVER_BUDGET
    leaks, size = len(report.leaks) + report.earlier[0], sum(t.size for t in report.leaks) + report.earlier[1]
    if args.fail_on_leak and leaks:
        _warn(f"verdict: tensors were left: {leaks}, {human(size)}")
        code = LEAKED
    if asked and report.uncertain:  # what was found above may be wrong, too
        _warn(f"verdict: the result is uncertain: the agent counted {counts_text(report.uncertain)}")
        code = NOT_SEEN
    return report.ended.exit_code or code


def _warn(text: str) -> None:
    _say(printable(f"ttmem run: {text}"))


def _say(text: str) -> None:
    """If nobody takes it (a pipe that was closed, a full disk), the exit code is still the command's."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
