# SPDX-License-Identifier: Apache-2.0
"""Puts the dashboard together and runs it until the user has seen enough."""

from __future__ import annotations

import os
import sys

from ttmem.show.text import style_of
from ttmem.show.top.app import Top
from ttmem.show.top.charts import Charts
from ttmem.show.top.cores import Cores
from ttmem.show.top.dashboard import LEAST_INTERVAL, MOST_INTERVAL, Dashboard
from ttmem.show.top.model import Model
from ttmem.show.top.overview import Overview
from ttmem.show.top.processes import Processes
from ttmem.show.top.rows import Signs, View
from ttmem.show.top.settings import Settings, default_path
from ttmem.show.top.telemetry import Telemetry
from ttmem.show.top.things import Things


def start(
    *,
    api: str | None,
    root: str = "/",
    wanted: tuple[str, ...] = (),
    readonly: bool = False,
    ascii: bool = False,
    theme: str | None = None,
    interval: float | None = None,
) -> int:
    """Returns the exit code."""
    settings = Settings(default_path())
    model = Model(wanted=wanted, readonly=readonly, hidden=os.getpid())
    chosen = interval if interval is not None else settings.get("interval", model.interval)
    model.interval = min(max(chosen, LEAST_INTERVAL), MOST_INTERVAL)
    signs = Signs("ascii" if style_of(sys.stdout, ascii=ascii).ascii else "braille")
    views: list[View] = [Overview(), Charts(), Telemetry(), Processes(root=root), Cores(), Things()]
    dashboard = Dashboard(model, views, settings, signs)
    dashboard.theme = theme or ("mono" if os.environ.get("NO_COLOR") else dashboard.theme)
    app = Top(dashboard, api=api, root=root)
    app.run()
    return app.return_code or 0
