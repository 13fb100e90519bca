# SPDX-License-Identifier: Apache-2.0
"""Find out whether a command that uses ttnn fits on a board, without the board.

The command runs with its own ttnn on mock devices, which have the real allocator. Allocations, circular buffers and
failures are exact for this version of ttnn. Kernels are not compiled, and everything that is read back is zero.
Nothing was compared with hardware. docs/fit.md describes what is exact, estimated and unknown.

Exit code: 0 it fits on each board (with --board all: on one of them), 4 an allocation failed, 5 cannot tell, 1 an
error, 2 wrong usage, 126 or 127 the command cannot be run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from time import time

from ttmem.agent import AgentMissing
from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import add_style, size
from ttmem.cli.report import open_page
from ttmem.documents.common_text import local_time
from ttmem.fit.answers import Asker, answers
from ttmem.fit.cluster_file import ClusterFileError, read_cluster_file
from ttmem.fit.describe import describe
from ttmem.fit.fit_document import fit_document
from ttmem.fit.kept_results import KeptResults, results_folder
from ttmem.fit.mock_boards import BOARDS
from ttmem.fit.mock_environment import Machine
from ttmem.fit.mock_run import RunOptions
from ttmem.fit.recorded_steps import NotReplayable, steps_of
from ttmem.fit.ttnn_root import NoTtnn, ttnn_of
from ttmem.fit.until import Until, parse_until
from ttmem.fit.varied import Varied, check_varied, parse_vary
from ttmem.fit.what_if import Conditions, what_if
from ttmem.recording.blocks import RecordingError
from ttmem.recording.recording_file import Recording
from ttmem.run.launch import LaunchError
from ttmem.show.fit_progress import Progress
from ttmem.show.fit_text import render
from ttmem.show.text import style_of
from ttmem.show.what_if_text import render as what_if_text
from ttmem.sim.errors import SimError

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--board",
        metavar="BOARD",
        help=f"boards to run on, separated by commas: {', '.join(BOARDS)}, a FILE.yaml that --describe wrote, or all",
    )
    parser.add_argument(
        "--describe", action="store_true", help="print a description of this machine for --board FILE.yaml, and exit"
    )
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.fit/1"')
    parser.add_argument("--html", metavar="FILE", help="also write the answer as a page; it works offline")
    parser.add_argument(
        "--until",
        metavar="WHEN",
        type=_until,
        help="end the run after this many seconds, after phase:NAME has ended, or after ops:N launched programs",
    )
    parser.add_argument(
        "--vary",
        metavar="NAME=VALUES",
        type=_vary,
        action="append",
        default=[],
        help="replace {NAME} in the command: by each value of a list such as seq=1k,2k,4k, or search the largest that "
        "fits in a range such as batch=1..64",
    )
    parser.add_argument("--fresh", action="store_true", help="with --vary: do not use results of earlier calls")
    parser.add_argument(
        "--bytes-per-token",
        metavar="SIZE",
        type=size,
        help="also print how many tokens of a KV cache with this many bytes on a chip would fit beside the rest",
    )
    parser.add_argument(
        "--replay", metavar="FILE", help="repeat the allocations of a recording on a simulated allocator instead"
    )
    parser.add_argument("--l1-small", metavar="SIZE", type=size, help="with --replay: another l1_small_size")
    parser.add_argument("--trace-region", metavar="SIZE", type=size, help="with --replay: another trace_region_size")
    parser.add_argument(
        "--order", choices=["largest-first"], help="with --replay: another order of consecutive allocations"
    )
    parser.add_argument(
        "--free-early", metavar="PATTERN",
        help="with --replay: free at once what matches, by operation, shape or line; * matches any text",
    )  # fmt: skip
    parser.add_argument(
        "--real-kernels", action="store_true", help="compile kernels with the installed compiler of Tenstorrent (sfpi)"
    )
    parser.add_argument(
        "--fake-weights",
        action="store_true",
        help="do not turn the values of large tensors into tiles on the host; allocations stay the same",
    )
    parser.add_argument(
        "--python", metavar="PATH", help="interpreter of the command, if that is not python itself (default: found)"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print the output of the command on standard error"
    )
    add_style(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command to run")


def run(args: argparse.Namespace) -> int:
    if args.describe:
        return _describe(args)
    if args.replay is not None:
        return _replay(args)
    if any((args.l1_small is not None, args.trace_region is not None, args.order, args.free_early)):
        raise UsageError("--l1-small, --trace-region, --order and --free-early need --replay")
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError(
            "there is no command to run; write it after --, for example: ttmem fit --board n150 -- python model.py"
        )
    if args.board is None:
        raise UsageError(f"--board is missing; choose from {', '.join(BOARDS)}, {_ALL}, or name a file")
    machines = _machines(args.board)
    try:
        check_varied(args.vary, command)
    except ValueError as error:
        raise UsageError(f"--vary: {error}") from None
    if shutil.which(command[0]) is None and not os.path.exists(command[0]):
        complain(f"ttmem fit: cannot run {command[0]}: No such file or directory")
        return 127
    page = None if args.html is None else open_page(args.html)  # before the runs, which may take long
    progress = Progress(sys.stderr, ascii=args.ascii)
    try:
        ttnn = ttnn_of(command, os.environ, args.python)
        options = RunOptions(ttnn, args.real_kernels, args.until, args.verbose, args.bytes_per_token, args.fake_weights)
        kept = KeptResults(results_folder(os.environ) if args.vary and not args.fresh else None)
        asker = Asker(command, os.environ, options, kept, progress.show)
        found = answers(asker, machines, args.vary)
    except (AgentMissing, NoTtnn) as error:
        raise CommandError(str(error)) from None
    except LaunchError as error:
        complain(f"ttmem fit: {error}")
        return 127 if isinstance(error.__cause__, FileNotFoundError) else 126
    finally:
        progress.end()
    document = fit_document(command, options, found.runs, found.borders, args.vary, anywhere=args.board == _ALL)
    if kept.used:
        complain(f"ttmem fit: {kept.used} of {len(found.runs)} runs were kept from earlier calls; --fresh repeats them")
    if page is not None:
        with page:
            content = {"page": "fit", "fit": document, "made": local_time(time())}
            page.write(f"ttmem fit: {' '.join(command)}", (content, {}))
    if args.json:
        print(json.dumps(document))
    else:
        print(render(document, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)))
    return document["exit_code"]


def _describe(args: argparse.Namespace) -> int:
    python = args.python or shutil.which("python") or shutil.which("python3")
    if python is None:
        raise CommandError("no Python was found; name the interpreter that has ttnn with --python")
    try:
        print(describe(python, os.environ), end="")
    except NoTtnn as error:
        raise CommandError(f"--describe: {error}") from None
    return 0


def _replay(args: argparse.Namespace) -> int:
    if args.command or args.vary or args.until:
        raise UsageError("--replay repeats a recording, so it takes no command, no --vary and no --until")
    if args.html is not None:
        raise UsageError("--html: there is no page of --replay; use --json for its figures")
    if args.board is not None and args.board not in BOARDS:
        raise UsageError(f"--board: there is no board {args.board!r}; choose one from {', '.join(BOARDS)}")
    early = None
    if args.free_early is not None:
        pattern = re.compile(".*".join(re.escape(part) for part in args.free_early.split("*")))
        early = lambda name: pattern.search(name) is not None  # noqa: E731
    conditions = Conditions(args.board, args.l1_small, args.trace_region, args.order is not None, early)
    try:
        with Recording(args.replay) as recording:
            document = what_if(steps_of(recording), conditions, args.replay)
    except (RecordingError, NotReplayable, SimError) as error:
        raise CommandError(f"{args.replay}: {error}") from None
    except OSError as error:
        raise CommandError(f"{args.replay}: {error.strerror}") from None
    if args.json:
        print(json.dumps(document))
    else:
        print(what_if_text(document, style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)))
    return document["exit_code"]


def _machines(text: str) -> list[Machine]:
    """The machines of --board, in their order; of all boards the smallest machine first."""
    names = list(BOARDS) if text == _ALL else [name for name in text.split(",") if name]
    if not names:
        raise UsageError(f"--board names no board; choose from {', '.join(BOARDS)}, {_ALL}, or name a file")
    return [_machine(name) for name in dict.fromkeys(names)]


def _machine(name: str) -> Machine:
    if name in BOARDS:
        return Machine(name, BOARDS[name])
    if not name.endswith((".yaml", ".yml")):
        raise UsageError(
            f"--board: there is no board {name!r}; choose from {', '.join(BOARDS)}, {_ALL}, or name a file"
        )
    try:
        return Machine(name, read_cluster_file(Path(name)))
    except ClusterFileError as error:
        raise CommandError(f"--board: {error}") from None


def _vary(text: str) -> Varied:
    try:
        return parse_vary(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _until(text: str) -> Until:
    try:
        return parse_until(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
