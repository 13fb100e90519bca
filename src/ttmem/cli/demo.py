# SPDX-License-Identifier: Apache-2.0
"""Show everything on simulated devices: a server, a workload in its own processes, and the dashboard.

On a terminal, it opens the dashboard of `ttmem top`, and the workload runs until q is pressed. Elsewhere, or with
--once, the workload runs to its end; then a snapshot of the moment with the most memory and a summary are printed. With
--web, it serves the page of `ttmem web` instead of the dashboard, and the workload runs until Ctrl-C.

Exit code: 0 it was ended, 1 no server, or the workload failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import add_address, add_socket, add_utc
from ttmem.demo.demo_session import DemoError, DemoSession, Worker, demo_session
from ttmem.documents.pool_amounts import sizes_text
from ttmem.model.printable import printable
from ttmem.show.smi_screen import render
from ttmem.show.text import style_of
from ttmem.sim.board_types import MACHINES
from ttmem.sim.workloads import WORKLOADS, parts_of
from ttmem.wire.api_client import ApiError, get_json
from ttmem.wire.endpoint import api_path

if TYPE_CHECKING:
    from ttmem.model.schema import ProcessRow, Snapshot

_STEP_SECONDS = 0.05  # between two steps of a live workload
_ENDLESS_ROUNDS = 1 << 40
_NOTICE_SECONDS = 5.0
_ASK_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    listed = "; ".join(f"{name}: {entry.summary}" for name, entry in WORKLOADS.items())
    parser.add_argument(
        "workload",
        nargs="?",
        type=_workload,
        default="decode",
        metavar="NAME",
        help=f"workload (default: decode). {listed}",
    )
    parser.add_argument(
        "--devices", default="n150", choices=MACHINES, help="simulated machine (default: n150, four chips)"
    )
    parser.add_argument("--seconds", type=_seconds, metavar="N", help="end after N seconds")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print one snapshot and a summary, also on a terminal")
    form.add_argument("--json", action="store_true", help='print the snapshot as JSON, schema "ttmem.snapshot/1"')
    form.add_argument("--web", action="store_true", help="serve the live page in a browser, as `ttmem web`")
    add_address(parser)
    add_socket(parser, "socket of the server to report to (default: $TTMEM_SOCKET if it answers, otherwise its own)")
    add_utc(parser)


def _workload(text: str) -> str:
    if text not in WORKLOADS:
        raise argparse.ArgumentTypeError(f"there is no workload {text!r}; there are {', '.join(WORKLOADS)}")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run(args: argparse.Namespace) -> int:
    if not args.web and (args.port is not None or args.host is not None or args.open):
        raise UsageError("--port, --host and --open need --web; the dashboard has no address")
    live = args.web or (not (args.once or args.json) and _can_draw())
    path = args.socket or _server_of_environment()
    _end_on_signals()
    try:
        with demo_session(path, args.devices if live else None) as session:
            return _run_workload(args, session, live)
    except (DemoError, ApiError) as error:
        raise CommandError(str(error)) from None


def _server_of_environment() -> str | None:
    """The server of TTMEM_SOCKET. A missing server is not an error: the demo then starts its own."""
    path = os.environ.get("TTMEM_SOCKET")
    if not path:
        return None
    try:
        get_json("/health", socket_path=api_path(path), timeout=_ASK_SECONDS)
    except ApiError:
        complain(f"ttmem demo: TTMEM_SOCKET: no server answers on {path}; the demo starts its own")
        return None
    return path


def _can_draw() -> bool:
    """Whether the dashboard can be shown. Prints what to install if a package is missing."""
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on the last one
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    if os.environ.get("TERM", "dumb") == "dumb":
        return False
    if find_spec("textual") is None:
        print("One snapshot only; for the dashboard: pip install 'ttmem[top]'", file=sys.stderr)
        return False
    return True


def _end_on_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_on_signal)


def _end_on_signal(number: int, frame: object) -> None:
    """Raise, so that context managers stop the server and the workers."""
    raise SystemExit(128 + number)


def _run_workload(args: argparse.Namespace, session: DemoSession, live: bool) -> int:
    entry = WORKLOADS[args.workload]
    endless = entry.endless and (live or args.seconds is not None)
    parts = parts_of(args.workload, args.devices)
    started = time.monotonic()
    session.start_workers(args.workload, args.devices, parts, _ENDLESS_ROUNDS if endless else entry.rounds)
    snapshot = _watch(session, args) if live else _run(session, args.seconds)
    took = time.monotonic() - started
    if args.json:
        json.dump(snapshot, sys.stdout)
        print()
        session.stop_workers()
        return 0
    print(render(snapshot, style_of(sys.stdout)))
    print()
    processes = "one process" if parts == 1 else f"{parts} processes"
    print(f"{args.workload} on simulated {args.devices} devices, {processes}, {took:.1f} s")
    _print_end(session, snapshot)
    return 0


def _run(session: DemoSession, seconds: float | None) -> Snapshot:
    """Run all steps; returns the snapshot of the moment when every process holds the most, or has ended."""
    deadline = None if seconds is None else time.monotonic() + seconds
    snapshot = None
    while session.running:
        session.finish_step()
        late = deadline is not None and time.monotonic() >= deadline
        if late or not session.busy:
            if session.running:
                snapshot = session.snapshot()
            break
        session.start_step()
        if deadline is not None:
            time.sleep(_STEP_SECONDS)
    return snapshot or _after_exit(session)


class _WorkloadThread(threading.Thread):
    """Runs the workload step by step behind the dashboard, and keeps the error if it fails."""

    def __init__(self, session: DemoSession, seconds: float | None) -> None:
        super().__init__(daemon=True, name="workload")
        self.trouble: Exception | None = None
        self._session = session
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopping.wait(_STEP_SECONDS):
                self._session.finish_step()
                self._session.start_step()
        except Exception as error:
            self.trouble = error

    def has_ended(self) -> bool:
        """Whether the dashboard should end. It stays open after the workload has ended, to show the last state."""
        return self.trouble is not None or (self._deadline is not None and time.monotonic() >= self._deadline)

    def status(self) -> str:
        return f"simulated: {_last_step(self._session.workers[0])}"

    def stop(self) -> None:
        self._stopping.set()
        self.join(_NOTICE_SECONDS)  # a limit, because a worker may be suspended


def _watch(session: DemoSession, args: argparse.Namespace) -> Snapshot:
    """Show the dashboard until q, or the page until Ctrl-C; returns the last snapshot."""
    workload = _WorkloadThread(session, args.seconds)
    workload.start()
    try:
        code = _serve(session, args, workload) if args.web else _show(session, workload)
    finally:
        _end_on_signals()  # the dashboard has replaced the signal handlers
        workload.stop()
    if workload.trouble is not None:
        raise workload.trouble
    if code:
        raise SystemExit(code)
    return session.snapshot() if session.running else _after_exit(session)


def _show(session: DemoSession, workload: _WorkloadThread) -> int:
    from ttmem.show.top.start import start

    return start(
        api=api_path(session.path),
        readonly=not session.private,  # our own server has only our own workers
        remember=os.path.join(session.folder, "top.json"),  # choices made here are not kept
        host=workload,
    )


def _serve(session: DemoSession, args: argparse.Namespace, workload: _WorkloadThread) -> int:
    from ttmem.cli.web import serve

    return serve(args, api=api_path(session.path), ended=workload.has_ended)


def _after_exit(session: DemoSession) -> Snapshot:
    """The snapshot once the server has noticed that the processes are gone."""
    gone = {worker.pid for worker in session.workers}
    deadline = time.monotonic() + _NOTICE_SECONDS
    while True:
        snapshot = session.snapshot()
        if not any(p["pid"] in gone and p["state"] != "exited" for p in snapshot["processes"]):
            return snapshot
        if time.monotonic() > deadline:
            raise CommandError(f"the server did not notice the exits within {_NOTICE_SECONDS:g} s")
        time.sleep(0.002)


def _print_end(session: DemoSession, snapshot: Snapshot) -> None:
    """Print the last step of each process, and what is left when all have ended."""
    for worker in session.workers:
        print(f"  pid {worker.pid}: {printable(_last_step(worker))}")
    session.stop_workers()
    after = _after_exit(session)
    pids = {worker.pid for worker in session.workers}
    before = [process for process in snapshot["processes"] if process["pid"] in pids]
    left = [process for process in after["processes"] if process["pid"] in pids and process["state"] != "exited"]
    print(f"Freed when the workload ended: {_held(before)}.")
    print(f"Still allocated: {_held(left)}.")


def _last_step(worker: Worker) -> str:
    code = worker.process.poll()
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return worker.did


def _held(processes: Iterable[ProcessRow]) -> str:
    return sizes_text(item for process in processes for share in process["chips"] for item in share["kinds"].items())
