# SPDX-License-Identifier: Apache-2.0
"""Builds the dashboard and runs it until the user ends it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ttmem.show.text import style_of
from ttmem.show.top.app import Top
from ttmem.show.top.dashboard import LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS, Dashboard
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.data_feed import DataFeed, Feed, FeedUpdate
from ttmem.show.top.parts.recording_feed import RecordedSource, RecordingFeed
from ttmem.show.top.parts.rows import Characters, View
from ttmem.show.top.playback import Playback
from ttmem.show.top.settings import Settings, default_path
from ttmem.show.top.views.allocation_view import Allocations
from ttmem.show.top.views.charts import Charts
from ttmem.show.top.views.core_view import Cores
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.processes import Processes
from ttmem.show.top.views.telemetry_view import Telemetry

_LAST_READ_SECONDS = 5.0  # of a recording, after the end
_LOOK_SECONDS = 0.2  # between two calls of a host


class Recorded(NamedTuple):
    """A recording to show: its documents, its name, and its range."""

    source: RecordedSource
    name: str
    begin: float
    end: float


class Host(Protocol):
    """A program that runs the dashboard as a part of itself."""

    def has_ended(self) -> bool:
        """Whether the dashboard should end."""

    def status(self) -> str:
        """A sentence for the last line, shown if there is no other message."""


class _Guest(Top):
    """A dashboard with a host."""

    host: Host
    _shown_status: str | None = None

    def on_mount(self) -> None:  # Textual also calls the method of the base class
        self.set_interval(_LOOK_SECONDS, self._ask_host)

    def _ask_host(self) -> None:
        model = self._dashboard.model
        if model.message in (None, self._shown_status):
            model.message = self._shown_status = self.host.status()
        if self.host.has_ended():
            self.exit()


def views_of(root: str | None) -> list[View]:
    """All views, in the order of their keys. ``root`` has the files of the machine; None for a recording."""
    return [Overview(), Charts(), Telemetry(), Processes(root=root), Cores(), Allocations()]


def start(
    *,
    api: str | None,
    root: str = "/",
    wanted: tuple[str, ...] = (),
    readonly: bool = False,
    ascii: bool = False,
    theme: str | None = None,
    interval: float | None = None,
    remember: str | None = None,
    host: Host | None = None,
    recorded: Recorded | None = None,
) -> int:
    """Run the dashboard and return the exit code. ``remember`` is the file for settings, by default the user's own.

    With ``recorded``, it shows that recording, and neither the server nor the machine.
    """
    settings = Settings(remember or default_path())
    player = None if recorded is None else Playback(*recorded[1:])
    model = Model(wanted=wanted, readonly=readonly, hidden=os.getpid() if recorded is None else None, playback=player)
    chosen = interval if interval is not None else settings.get("interval", model.interval)
    model.interval = min(max(chosen, LEAST_INTERVAL_SECONDS), MOST_INTERVAL_SECONDS)
    signs = Characters("ascii" if style_of(sys.stdout, ascii=ascii).ascii else "braille")
    dashboard = Dashboard(model, views_of(root if recorded is None else None), settings, signs)
    if theme is not None:
        dashboard.theme = theme
    elif os.environ.get("NO_COLOR"):
        dashboard.lend("mono")

    def feed(on_update: Callable[[FeedUpdate], None]) -> Feed:
        if recorded is not None:
            return RecordingFeed(on_update, recorded.source, ascii=signs.ascii)
        return DataFeed(on_update, api=api, root=root, ascii=signs.ascii)

    if host is None:
        app = Top(dashboard, feed)
    else:
        app = guest = _Guest(dashboard, feed)
        guest.host = host
    # Screens are trees that are freed with the next one, so searching them for cycles would waste time.
    gc.set_threshold(50_000, 20, 100)
    app.run()
    app.wait_for_feed(_LAST_READ_SECONDS)
    if host is not None and not (app.return_code or dashboard.done or host.has_ended()):
        return 128 + signal.SIGTERM  # ended by a signal, or the terminal was closed
    return app.return_code or 0
