# SPDX-License-Identifier: Apache-2.0
"""Run the allocation server until SIGINT or SIGTERM.

SIGUSR1 prints everything that is allocated; SIGHUP is ignored.

Exit code: 0 it was ended, 1 it cannot listen or record, or another error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio

from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import add_socket, size
from ttmem.ingest.legacy_lines import STYLES
from ttmem.server.daemon import Options, ServeError, Server
from ttmem.server.listen import ListenError
from ttmem.wire.endpoint import LEGACY_PATH, api_path, default_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_socket(parser, "event socket to listen on (default: $TTMEM_SOCKET, otherwise the path for this user)")
    add("--group", metavar="NAME", help="group that may connect (default: only the owner may)")
    add("--no-legacy-path", action="store_true", help=f"do not also listen on {LEGACY_PATH}")
    add("--record", metavar="FILE", help="write a recording to FILE, for `ttmem replay` and commands with --file")
    add(
        "--record-limit", metavar="SIZE", type=size,
        help="make the recording a folder of at most SIZE, such as 2G; the oldest parts of it are deleted",
    )  # fmt: skip
    add(
        "--metrics",
        metavar="[HOST:]PORT",
        help="also serve metrics for Prometheus on TCP (default HOST: 127.0.0.1)",
    )
    add("--log-format", choices=("text", "json"), default="text", help="format of the event lines (default: text)")
    add("--log-style", choices=STYLES, default="newest", help="wording of the event lines (default: newest)")
    add(
        "--noc-capacity",
        action="store_true",
        help="answer legacy queries with the L1 of the whole NOC grid",
    )
    add("--no-machine", action="store_true", help="do not read telemetry, holders of chips and tt-metal's counters")
    add("--machine", metavar="DIR", default="/", help=argparse.SUPPRESS)  # for tests: files of a machine
    add("-q", "--quiet", action="store_true", help="print no event lines")
    add("--stats", action="store_true", help="print statistics on standard output at the end")


def run(args: argparse.Namespace) -> int:
    if args.record_limit is not None and args.record is None:
        raise UsageError("--record-limit needs --record")
    options = Options(
        socket=args.socket or default_path(),
        group=args.group,
        legacy_path=None if args.no_legacy_path else LEGACY_PATH,
        record=args.record,
        record_limit=args.record_limit,
        metrics=_address(args.metrics) if args.metrics else None,
        log_format=args.log_format,
        log_style=args.log_style,
        quiet=args.quiet,
        statistics=args.stats,
        noc_capacity=args.noc_capacity,
        machine=None if args.no_machine else args.machine,
    )
    try:
        asyncio.run(_serve(options))
    except (ListenError, ServeError) as error:
        raise CommandError(str(error)) from None
    return 0


async def _serve(options: Options) -> None:
    server = Server(options)
    api = api_path(options.socket)
    await server.run(lambda: complain(f"ttmem: serving {options.socket}, API {api}"))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--metrics takes PORT or HOST:PORT, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
