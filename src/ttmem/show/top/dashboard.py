# SPDX-License-Identifier: Apache-2.0
"""The dashboard without its terminal: the current view, the effect of keys and clicks, and all rows of the screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ttmem.model.printable import printable
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.frame import footer, header, help_rows, tab_at, tabs
from ttmem.show.top.parts.data_feed import FeedUpdate
from ttmem.show.top.parts.rows import Characters, Row, Size, View, fitted
from ttmem.show.top.settings import Settings
from ttmem.show.top.themes import THEMES, following
from ttmem.wire.api_client import malformed

LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS = 0.1, 10.0
_INTERVALS_SECONDS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_T = TypeVar("_T")
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "shift+tab": -1, "tab": 1}


class Dashboard:
    """The contents of the screen; the application passes keys to it and requests rows."""

    def __init__(
        self, model: Model, views: Sequence[View], settings: Settings, signs: Characters = Characters()
    ) -> None:
        self.model, self.signs = model, signs
        self.views: Sequence[View] = views
        self._settings = settings
        self.current = min(max(0, settings.get("view", 0)), len(views) - 1)
        theme = settings.get("theme", "dark")
        self.theme = theme if theme in THEMES else "dark"
        self._lent: str | None = None  # a temporary theme that is not a choice of the user
        self._reopened = True  # is the current view that of the settings, and was there no snapshot yet?
        self._waiting: int | None = None  # the view of the settings, if another is shown because there is no server
        self.done = False
        self._helping = False
        self._prompt: str | None = None
        self._size = Size(80, 24)
        for view in views:
            for name in getattr(view, "kept", ()):
                setattr(view, name, settings.get(f"{view.name}.{name}", getattr(view, name)))
        model.message = settings.trouble

    @property
    def view(self) -> View:
        found: View = self.views[self.current]
        return found

    def lend(self, theme: str) -> None:
        """Use this theme without storing it in the settings."""
        self.theme = self._lent = theme

    def wants(self) -> list[str]:
        return [] if self._helping else self._guarded(lambda: self.view.wants(self.model), [])

    def rows(self, size: Size, clock: float) -> list[Row]:
        """The rows of the screen, each with the full width; ``clock`` is monotonic."""
        self._size = size
        inner = Size(size.width, max(0, size.height - 2))
        if self._helping:
            body = help_rows(self.view, inner)
        else:
            body = self._guarded(lambda: self.view.rows(self.model, inner, self.signs), [])
        filled = [fitted(row, size.width) for row in body[: inner.height]]
        filled += [[(" " * size.width, "")]] * (inner.height - len(filled))
        first = self._guarded(
            lambda: header(self.model, self.views, self.current, size.width, clock),
            fitted(tabs(self.views, self.current, size.width), size.width),
        )
        return [first, *filled, footer(self.model, size.width, self.signs, self._prompt)][: size.height]

    def take(self, update: FeedUpdate, asked: list[str]) -> None:
        """Store an update of the feed. For a malformed snapshot a message is shown, and the last one stays."""
        model = self.model
        model.trouble = update.trouble
        model.take_answers(update.answers, asked, update.now)
        if update.snapshot is not None:
            snapshot = update.snapshot
            self._guarded(lambda: model.take(snapshot, update.time, update.now), None)
            if self._reopened:
                self._reopened = False
                self._guarded(self._fall_back, None)

    def _fall_back(self) -> None:
        """Show the overview if the view of the last time would be empty."""
        name, snapshot = self.view.name, self.model.snapshot
        if snapshot is not None and snapshot["server"] is None and getattr(self.view, "needs_server", False):
            self._waiting, self.current = self.current, 0
            self.model.message = f"{name} needs a server and there is none: this is the overview"

    def press(self, key: str, character: str | None = None) -> None:
        """Handle a key by Textual's name, and the character it types, if any."""
        self.model.message = None
        self._reopened = False
        if key == "ctrl+c":
            self.done = True
        elif self._prompt is not None:
            self._type(key, character)
        elif self._helping:
            self._helping = False
        elif not self._guarded(lambda: self.view.press(key, self.model), False):
            self._common(key)
        self._remember()

    def click(self, x: int, y: int) -> None:
        self.model.message = None
        if y == 0:
            chosen = tab_at(x, self.views, self.current, self._size.width)
            if chosen is not None:
                self.current, self._waiting = chosen, None
            self._helping = False
        elif self._helping:
            self._helping = False
        elif y < self._size.height - 1:
            self._guarded(lambda: self.view.click(x, y - 1, self.model), False)
        self._remember()

    def _guarded(self, call: Callable[[], _T], otherwise: _T) -> _T:
        """Call a view. If it fails, a message is shown, and the other views continue."""
        try:
            return call()
        except Exception as error:
            if os.environ.get("TTMEM_DEBUG") == "1":
                raise
            why = malformed(error, "top")
            if self.model.trouble is not None:  # there is no server
                why = f"internal error: {type(error).__name__}: {error}; please report it with TTMEM_DEBUG=1 ttmem top"
            self.model.message = printable(f"{self.view.name}: {why}")
            return otherwise

    def _common(self, key: str) -> None:
        model = self.model
        if len(key) == 1 and key.isdecimal() and 1 <= int(key) <= len(self.views):
            self.current, self._waiting = int(key) - 1, None
        elif key in _STEPS:
            model.choose(_STEPS[key])
        elif key == "space":
            model.paused = not model.paused
        elif key in ("plus", "equals_sign"):
            model.interval = max(
                [step for step in _INTERVALS_SECONDS if step < model.interval], default=LEAST_INTERVAL_SECONDS
            )
        elif key in ("minus", "underscore"):
            model.interval = min(
                [step for step in _INTERVALS_SECONDS if step > model.interval], default=MOST_INTERVAL_SECONDS
            )
        elif key == "d":
            self._prompt = ",".join(model.wanted)
        elif key == "t":
            self.theme = following(self.theme)
            model.message = f"theme: {self.theme}"
        elif key in ("h", "question_mark", "f1"):
            self._helping = True
        elif key == "q":
            self.done = True

    def _type(self, key: str, character: str | None) -> None:
        """Handle a key while the user types the names of chips."""
        text = self._prompt or ""
        if key == "enter":
            self._prompt = None
            self.model.pick(tuple(name.strip() for name in text.split(",") if name.strip()))
        elif key == "escape":
            self._prompt = None
        elif key == "backspace":
            self._prompt = text[:-1]
        elif key == "ctrl+u":
            self._prompt = ""
        elif character is not None and character.isprintable():
            self._prompt = text + character

    def _remember(self) -> None:
        if self.current:
            self._waiting = None  # the user has chosen a view
        view = self.current if self._waiting is None else self._waiting
        chosen: dict[str, Any] = {"view": view, "interval": float(self.model.interval)}
        if self.theme != self._lent:
            chosen["theme"], self._lent = self.theme, None
        for view in self.views:
            chosen |= {f"{view.name}.{name}": getattr(view, name) for name in getattr(view, "kept", ())}
        before = self._settings.trouble
        self._settings.put(chosen)
        if self._settings.trouble != before:
            self.model.message = self._settings.trouble
