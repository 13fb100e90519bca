# SPDX-License-Identifier: Apache-2.0
"""The dashboard on a terminal: a Textual application with one widget that redraws only the lines that changed."""

from __future__ import annotations

import asyncio
import signal
import sys
import termios
import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.parts.data_feed import Feed, FeedUpdate
from ttmem.show.top.parts.rows import Row, Size
from ttmem.show.top.themes import look_of

_PLAY_SECONDS = 0.1  # between two moments of a recording that plays
_BEAT_SECONDS = 1.0  # after this time, the age of a snapshot is updated even without new data


def _whole_lines() -> type[Any] | None:
    """An update of whole lines, each with its number; None if this Textual lacks the private class for it."""
    try:
        from textual._compositor import CompositorUpdate
    except ImportError:
        return None

    class Lines(CompositorUpdate):
        def __init__(self, lines: list[tuple[int, Strip]]) -> None:
            self._lines = lines

        def render_segments(self, console: Console) -> str:
            return "".join([f"\x1b[{y + 1}H{strip.render(console)}" for y, strip in self._lines])

    return Lines if hasattr(App, "_display") else None


Lines = _whole_lines()


class Canvas(Widget, can_focus=True):
    """The rows of the dashboard, line by line."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: ansi_default; }"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__()
        self._dashboard = dashboard
        self._rows: list[Row] = []
        self._width = 0  # of each row
        self._styles: dict[tuple[str, str], Style] = {}
        self._theme = dashboard.theme

    def draw(self) -> None:
        """Compute all rows, and redraw those that changed."""
        width, height = self.size
        if not width or not height:
            return
        rows = self._dashboard.rows(Size(width, height), time.monotonic())
        before, self._rows, self._width = self._rows, rows, width
        if len(before) != len(rows) or self._theme != self._dashboard.theme:
            self._theme = self._dashboard.theme
            self.refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip(before, rows)) if old != new]
        if changed and Lines is not None:
            # This is the only widget. Letting Textual compute the layout at each tick would cost more than the lines.
            self.app._display(self.screen, Lines([(y, self.render_line(y)) for y in changed]))
        elif changed:
            self.refresh(*[Region(0, y, width, 1) for y in changed])

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines. There are no borders, margins or colour filters, so this is enough."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        if y >= len(self._rows):
            return Strip.blank(self.size.width, self._style(""))
        return Strip([Segment(text, self._style(name)) for text, name in self._rows[y]], self._width)

    def _style(self, name: str) -> Style:
        found = self._styles.get((self._theme, name))
        if found is None:
            found = self._styles[self._theme, name] = Style.parse(look_of(self._theme, name))
        return found

    def on_resize(self) -> None:
        self._rows = []
        self.draw()


class Top(App[None]):
    """Passes keys and clicks to the dashboard, updates from the feed to its model, and its rows to the terminal."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[Any]] = []
    CSS = "Screen { background: ansi_default; overflow: hidden; }"

    def __init__(self, dashboard: Dashboard, feed: Callable[[Callable[[FeedUpdate], None]], Feed]) -> None:
        """``feed`` makes the feed, which calls the function that it is given with each update."""
        super().__init__(ansi_color=True)
        self._dashboard = dashboard
        self._canvas = Canvas(dashboard)
        self._feed = feed(self._take_update)
        self._loop_of_app: asyncio.AbstractEventLoop | None = None
        self._drawn = 0.0
        self._asked: list[str] = []
        self._dragging = False  # the mouse moves the moment of a recording

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self._loop_of_app = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._loop_of_app.add_signal_handler(number, self.exit)
        self.app_resume_signal.subscribe(self, lambda _: self._canvas.refresh())  # the shell has used the screen
        self._canvas.focus()
        self._ask()
        self._feed.start()
        self.set_interval(_BEAT_SECONDS, self._beat)
        if self._dashboard.model.playback is not None:
            self.set_interval(_PLAY_SECONDS, self._play)

    def on_unmount(self) -> None:
        self._feed.close()

    def wait_for_feed(self, seconds: float) -> None:
        """After the end: wait until nothing is read any more."""
        self._feed.close()
        self._feed.join(seconds)

    async def on_event(self, event: events.Event) -> None:
        """Pass all keys to the dashboard, because Textual's own keys, such as tab, have other meanings here."""
        if isinstance(event, events.Key) and event.key == "ctrl+z":
            self.action_suspend_process()
        elif isinstance(event, events.Key):
            self._dashboard.press(event.key, event.character)
            self._after()
        else:
            await super().on_event(event)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1:
            self._dragging = self._dashboard.drags(int(event.screen_y))
            self._dashboard.click(int(event.screen_x), int(event.screen_y))
            self._after()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging and event.button == 1:
            self._dashboard.drag(int(event.screen_x))
            self._after()

    def on_mouse_up(self) -> None:
        self._dragging = False

    def on_mouse_scroll_up(self) -> None:
        self._dashboard.press("up")
        self._after()

    def on_mouse_scroll_down(self) -> None:
        self._dashboard.press("down")
        self._after()

    def _after(self) -> None:
        if self._dashboard.done:
            self.exit()
            return
        self._ask()
        self._draw()

    def _ask(self) -> None:
        self._asked = self._dashboard.wants()
        self._feed.want(self._asked, self._dashboard.model.interval)
        if self._dashboard.model.playback is not None:
            self._feed.seek(self._dashboard.model.playback.requests())

    def _take_update(self, update: FeedUpdate) -> None:
        """Called in the feed's thread."""
        if self._loop_of_app is not None and not self._loop_of_app.is_closed():
            self._loop_of_app.call_soon_threadsafe(self._take, update)

    def _take(self, update: FeedUpdate) -> None:
        self._dashboard.take(update, self._asked)
        self._ask()
        self._draw()

    def _play(self) -> None:
        player = self._dashboard.model.playback
        if self._dashboard.tick(time.monotonic()):
            self._ask()
            self._draw()
        elif player is not None and player.loading:
            self._draw()  # it may take so long that the screen says so

    def _beat(self) -> None:
        if time.monotonic() - self._drawn >= _BEAT_SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self.is_headless or _is_there():
            self._canvas.draw()
        else:  # output would not be read, and with enough pending output Textual cannot end
            self.exit()


def _is_there() -> bool:
    """Whether there is still a terminal. Only its owner gets a signal when it is closed."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except termios.error:
        return False
    return True
