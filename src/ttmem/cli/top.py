# SPDX-License-Identifier: Apache-2.0
"""Show the live dashboard: chips, charts, telemetry, processes, the L1 of every core, and allocations as they happen.

With a server, it shows everything that the server knows; without one, what the machine itself shows. Keys 1 to 6 choose
a view, h lists the keys, q quits. Settings are kept in $XDG_CONFIG_HOME/ttmem/top.json. It opens no chip.

Exit code: 0 done, 1 it cannot be shown (no terminal, Textual is not installed), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys

from ttmem.cli import CommandError
from ttmem.cli.options import add_chips, add_socket, add_utc, api_socket, flat

_LEAST_INTERVAL_MS, _MOST_INTERVAL_MS = 100, 10_000
_THEMES = ("dark", "light", "high-contrast", "mono")


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on the last one
    terminal = all(stream is not None and stream.isatty() for stream in streams)
    if not terminal or os.environ.get("TERM", "dumb") == "dumb":
        raise CommandError(
            "the dashboard needs a terminal that can move the cursor; `ttmem smi -w` prints one snapshot after another"
        )
    try:
        import textual  # noqa: F401
    except ImportError:
        raise CommandError("the dashboard needs Textual; install it with: pip install 'ttmem[top]'") from None
    from ttmem.show.top.start import start

    return start(
        api=api_socket(args),
        root=args.root,
        wanted=tuple(flat(args.chips)),
        readonly=args.readonly,
        ascii=args.ascii,
        theme=args.theme,
        interval=None if args.refresh is None else args.refresh / 1000,
    )
