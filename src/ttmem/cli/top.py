# SPDX-License-Identifier: Apache-2.0
"""Show the live dashboard: chips, charts, telemetry, processes, the L1 of every core, and allocations as they happen.

With a server, it shows everything that the server knows; without one, what the machine itself shows. With FILE, it
shows a moment of a recording, with a time line to go to any other moment, and to play it. Keys 1 to 6 choose a view, h
lists the keys, q quits. Settings are kept in $XDG_CONFIG_HOME/ttmem/top.json. It opens no chip.

Exit code: 0 done, 1 it cannot be shown (no terminal, Textual is not installed, FILE cannot be read or is no recording),
2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ttmem.cli import CommandError, UsageError
from ttmem.cli.options import add_chips, add_socket, add_utc, api_socket, flat

if TYPE_CHECKING:
    from ttmem.recording.recording_file import Recording
    from ttmem.show.top.start import Recorded

_LEAST_INTERVAL_MS, _MOST_INTERVAL_MS = 100, 10_000
_THEMES = ("dark", "light", "high-contrast", "mono")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="recording to show, with a time line, instead of the current state"
    )
    parser.add_argument("--at", metavar="MOMENT", help="first moment of the recording, as in `ttmem replay`")
    parser.add_argument(
        "-r", metavar="MS", dest="refresh", type=_refresh,
        help="refresh interval in ms, 100 to 10000 (default: as last time, initially 500)",
    )  # fmt: skip
    add_chips(parser, "show only this chip")
    add_socket(parser)
    parser.add_argument("--readonly", action="store_true", help="do not offer to kill processes")
    parser.add_argument(
        "--ascii", action="store_true", help="print ASCII only (the default if the locale is not UTF-8)"
    )
    parser.add_argument(
        "--theme", choices=_THEMES, help="colours (default: as last time, initially dark; mono with NO_COLOR)"
    )
    add_utc(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # for tests: files of a machine


def _refresh(text: str) -> int:
    if not text.isdecimal() or not _LEAST_INTERVAL_MS <= int(text) <= _MOST_INTERVAL_MS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of milliseconds from {_LEAST_INTERVAL_MS} to {_MOST_INTERVAL_MS}"
        )
    return int(text)


def run(args: argparse.Namespace) -> int:
    if args.at is not None and args.file is None:
        raise UsageError("--at needs a recording: ttmem top FILE --at MOMENT; without one, the current state is shown")
    if args.file is not None and args.socket is not None:
        raise UsageError("--socket and FILE cannot be used together: a recording needs no server")
    if args.file is None:
        _check_screen()
        return _start(args, api_socket(args))
    from ttmem.cli.recorded import opened

    with opened(args.file) as recording:
        return _show(recording, args)


def _check_screen(instead: str = "`ttmem smi -w` prints one snapshot after another") -> None:
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on the last one
    terminal = all(stream is not None and stream.isatty() for stream in streams)
    if not terminal or os.environ.get("TERM", "dumb") == "dumb":
        raise CommandError(f"the dashboard needs a terminal that can move the cursor; {instead}")
    try:
        import textual  # noqa: F401
    except ImportError:
        raise CommandError("the dashboard needs Textual; install it with: pip install 'ttmem[top]'") from None


def _show(recording: Recording, args: argparse.Namespace) -> int:
    """Show a recording. Its first moment is found before the screen opens, so that an error has an exit code."""
    from ttmem.cli.recorded import chip_id_of, moment_of

    if recording.end <= recording.begin and not recording.processes and next(recording.events(), None) is None:
        raise CommandError(f"{args.file}: the recording is empty: nothing was reported while it was written")
    first = None if args.at is None else moment_of(recording, args.at)
    _check_screen("`ttmem replay` prints one moment of a recording")
    from ttmem.server.recorded_api import RecordedApi
    from ttmem.show.top.start import Recorded

    source = RecordedApi(recording, first, find_chip=chip_id_of)
    name = os.path.basename(os.path.abspath(args.file))
    return _start(args, None, Recorded(source, name, recording.begin, recording.end))


def _start(args: argparse.Namespace, api: str | None, recorded: Recorded | None = None) -> int:
    from ttmem.show.top.start import start

    return start(
        api=api,
        recorded=recorded,
        root=args.root,
        wanted=tuple(flat(args.chips)),
        readonly=args.readonly,
        ascii=args.ascii,
        theme=args.theme,
        interval=None if args.refresh is None else args.refresh / 1000,
    )
