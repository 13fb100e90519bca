# SPDX-License-Identifier: Apache-2.0
"""Show one snapshot of the machine: chips, their holders, and where their memory goes.

With a server, it shows everything that the server knows; without one, what the machine itself shows: telemetry,
processes that have a chip open, and tt-metal's own counters. It opens no chip and disturbs no job.

Exit code: 0 shown, 1 nothing to show (no chip and no process) or an error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from ttmem.cli import Answered, CommandError, UsageError
from ttmem.cli.options import add_chips, add_socket, add_style, add_utc, api_socket, flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem.documents.local_snapshot import LocalSnapshot
    from ttmem.model.machine_rows import MachineLook
    from ttmem.model.schema import Snapshot

_ANSWER_SECONDS = 2.0  # timeout of a server
_RETRY_SECONDS = 10.0  # before a server that did not answer is asked again
_LEAST_REFRESH_MS = 100
_REFRESH_MS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="refresh until q or Ctrl-C")
    parser.add_argument(
        "-r",
        metavar="MS",
        dest="refresh",
        type=_refresh,
        help=f"refresh interval in ms, implies --watch (default: {_REFRESH_MS})",
    )
    parser.add_argument("-n", metavar="N", dest="count", type=_count, help="end after N snapshots, implies --watch")
    add_chips(parser, "show only this chip and the processes on it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help='print JSON, schema "ttmem.snapshot/1"; with --watch one line for each snapshot',
    )
    form.add_argument("--csv", action="store_true", help="print CSV, one row for each chip")
    add_style(parser)
    add_utc(parser)
    parser.add_argument(
        "--umd", nargs="?", const="idle", choices=("idle", "anyway"),
        help="also ask tt-umd, once: it OPENS the chips that no process holds, or all of them (`anyway`), which has "
        "made running jobs slower or hang; this adds remote chips and more telemetry",
    )  # fmt: skip
    add_socket(parser)
    parser.add_argument("--file", metavar="FILE", help="recording to read instead of the machine and its server")
    parser.add_argument("--at", metavar="MOMENT", help="moment of the recording, as in `ttmem replay`")
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # for tests: files of a machine


def _refresh(text: str) -> int:
    if not text.isdecimal() or int(text) < _LEAST_REFRESH_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from {_LEAST_REFRESH_MS} up")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of snapshots")
    return int(text)


def run(args: argparse.Namespace) -> int:
    view = _View(args)
    watched = args.watch or args.refresh or args.count
    if args.file is not None or args.at is not None:
        from ttmem.cli.recorded import check_at

        check_at(args)
        if watched or args.umd:
            raise UsageError("a recording does not change: leave out -w, -r, -n and --umd")
    if args.umd and watched:
        raise UsageError("--umd opens the chips, so it prints only one snapshot; leave out --umd, or -w, -r and -n")
    if not watched:
        view.emit()
    else:
        _watch(args, view)
    return 1 if view.empty else 0


class _View:
    """Takes snapshots and prints them in the requested format."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._wanted = flat(args.chips)
        self._source = _SnapshotSource(api_socket(args), args.root, args.umd)
        self._printed = 0
        self._numbers: dict[str, int] | None = None
        self.empty = False

    def emit(self) -> None:
        """Print one snapshot."""
        if self._args.json:
            import json

            print(self._shown(json.dumps))
        elif self._args.csv:
            from ttmem.show import smi_csv as csv

            rows = self._shown(csv.rows)
            print(rows if self._printed else csv.header() + rows, end="")
        else:
            print("\n" * bool(self._printed) + self.text())
        self._printed += 1

    def text(self) -> str:
        """One snapshot as a screen."""
        from ttmem.show.smi_screen import render
        from ttmem.show.text import style_of

        style = style_of(sys.stdout, ascii=self._args.ascii, colour=not self._args.no_color)
        return self._shown(lambda snapshot: render(snapshot, style, in_full=bool(self._wanted), numbers=self._numbers))

    def _shown(self, form: Callable[[Snapshot], str]) -> str:
        """A new snapshot, formatted by ``form``."""
        if self._args.file is not None:
            from ttmem.cli.recorded import replay, titled
            from ttmem.show.text import style_of

            found = replay(self._args.file, self._args.at)
            shown = form(self._picked(found.snapshot))
            if self._args.json or self._args.csv:
                return shown
            return titled(
                found.where, shown, style_of(sys.stdout, ascii=self._args.ascii, colour=not self._args.no_color)
            )
        snapshot = self._source.snapshot()
        if not self._source.answered:
            return form(self._picked(snapshot))
        with Answered("smi"):
            return form(self._picked(snapshot))

    def _picked(self, snapshot: Snapshot) -> Snapshot:
        self.empty = not snapshot["chips"] and not snapshot["processes"]
        if not self._wanted:
            return snapshot
        from ttmem.documents.common_text import chip_numbers
        from ttmem.show.chip_selector import UnknownChip, only

        self._numbers = chip_numbers(snapshot)  # of all chips: a selection has the same numbers
        try:
            return only(snapshot, self._wanted)
        except UnknownChip as error:
            raise CommandError(str(error)) from None


class _SnapshotSource:
    """The server's snapshot if there is a server, else a snapshot of the machine itself."""

    def __init__(self, api: str | None, root: str, umd: str | None) -> None:
        self._api, self._root, self._umd = api, root, umd
        self._local: LocalSnapshot | None = None
        self._asked_again = 0.0
        self.answered = False  # whether the last snapshot came from a server
        self._absent = "", ""  # why there is no server: a state and a sentence

    def snapshot(self) -> Snapshot:
        found = self._ask() if time.monotonic() >= self._asked_again else None
        self.answered = found is not None
        if found is None:
            return self._alone(None)
        with Answered("smi"):
            return self._alone(found) if self._umd else found

    def _ask(self) -> Snapshot | None:
        from ttmem.documents.unknown_rows import SCHEMA
        from ttmem.wire.api_client import ApiError, NoServer, OutOfReach, get_document

        try:
            path = "/snapshot?machine=0" if self._umd else "/snapshot"
            found: Snapshot = get_document(path, SCHEMA, socket_path=self._api, timeout=_ANSWER_SECONDS)
            return found
        except ApiError as error:
            if self._api is not None:
                raise CommandError(str(error)) from None
            states = {NoServer: "not running", OutOfReach: "out of reach"}
            self._absent = states.get(type(error), "does not answer"), str(error)
            if not isinstance(error, NoServer):
                self._asked_again = time.monotonic() + _RETRY_SECONDS
            return None

    def _alone(self, account: Snapshot | None) -> Snapshot:
        """A snapshot of the machine, with a server's account if there is one."""
        from ttmem.documents.local_snapshot import LocalSnapshot, no_account

        self._local = self._local or LocalSnapshot(self._root)
        return self._local.snapshot(account or no_account(*self._absent), self._with_umd if self._umd else None)

    def _with_umd(self, seen: MachineLook) -> MachineLook:
        from ttmem.sources import umd

        print(f"ttmem smi: {umd.WARNING}", file=sys.stderr)
        sure = all(source["state"] == "ok" for source in seen["sources"] if source["name"] == "processes")
        anyway = self._umd == "anyway"
        found = umd.read(seen["chips"], seen["processes"], foreign=seen["foreign"], sure=sure, anyway=anyway)
        return umd.enrich(seen, found)


def _watch(args: argparse.Namespace, view: _View) -> None:
    """Refresh until q, Ctrl-C or SIGTERM. None of them is an error."""
    import signal

    from ttmem.show.watch import Frame, repeat, watch

    interval = (args.refresh or _REFRESH_MS) / 1000
    live = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    last = ""

    def frame() -> Frame:
        nonlocal last
        last = view.text()
        return Frame(last, f"q ends, every {interval:g} s")

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if live and not (args.json or args.csv):
            watch(frame, interval, count=args.count)
            if args.count:
                print(last)  # the alternate screen is closed
        else:
            repeat(view.emit, interval, args.count)
    except KeyboardInterrupt:
        pass
