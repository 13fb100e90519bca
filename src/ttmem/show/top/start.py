# SPDX-License-Identifier: Apache-2.0
"""Builds the dashboard and runs it until the user ends it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Protocol

from ttmem.show.text import style_of
from ttmem.show.top.app import Top
from ttmem.show.top.dashboard import LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS, Dashboard
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.rows import Characters, View
from ttmem.show.top.settings import Settings, default_path
from ttmem.show.top.views.allocation_view import Allocations
from ttmem.show.top.views.charts import Charts
from ttmem.show.top.views.core_view import Cores
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.processes import Processes
from ttmem.show.top.views.telemetry_view import Telemetry

_LOOK_SECONDS = 0.2  # between two calls of a host


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


def views_of(root: str) -> list[View]:
    """All views, in the order of their keys."""
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
) -> int:
    """Run the dashboard and return the exit code. ``remember`` is the file for settings, by default the user's own."""
    settings = Settings(remember or default_path())
    model = Model(wanted=wanted, readonly=readonly, hidden=os.getpid())
    chosen = interval if interval is not None else settings.get("interval", model.interval)
    model.interval = min(max(chosen, LEAST_INTERVAL_SECONDS), MOST_INTERVAL_SECONDS)
    signs = Characters("ascii" if style_of(sys.stdout, ascii=ascii).ascii else "braille")
    dashboard = Dashboard(model, views_of(root), settings, signs)
    if theme is not None:
        dashboard.theme = theme
    elif os.environ.get("NO_COLOR"):
        dashboard.lend("mono")
    if host is None:
        app = Top(dashboard, api=api, root=root)
    else:
        app = guest = _Guest(dashboard, api=api, root=root)
        guest.host = host
    # Screens are trees that are freed with the next one, so searching them for cycles would waste time.
    gc.set_threshold(50_000, 20, 100)
    app.run()
    if host is not None and not (app.return_code or dashboard.done or host.has_ended()):
        return 128 + signal.SIGTERM  # ended by a signal, or the terminal was closed
    return app.return_code or 0
