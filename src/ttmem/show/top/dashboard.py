# SPDX-License-Identifier: Apache-2.0
"""The dashboard without its terminal: the current view, the effect of keys and clicks, and all rows of the screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ttmem.model.printable import printable
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.frame import CHIPS_ASKED, MOMENT_ASKED, footer, header, help_rows, tab_at, tabs
from ttmem.show.top.parts.data_feed import FeedUpdate
from ttmem.show.top.parts.rows import Characters, Row, Size, View, fitted
from ttmem.show.top.parts.slider import moment_row, slider_row, time_at
from ttmem.show.top.playback import Playback, RecordedUpdate, ToMoment
from ttmem.show.top.settings import Settings
from ttmem.show.top.themes import THEMES, following
from ttmem.wire.api_client import malformed

LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS = 0.1, 10.0
_INTERVALS_SECONDS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_LEAST_ROWS, _ROOMY_ROWS = 6, 12  # minimum heights for the moment of a recording, and for its time line
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
        self._moment_asked = False  # what is typed is a moment, not chips
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
        if self.model.playback is not None:
            self.model.playback.look(clock)
        player = [] if self._helping else self._player_rows(size)
        inner = Size(size.width, max(0, size.height - 2 - len(player)))
        if self._helping:
            body = help_rows(self.view, inner, recorded=self.model.playback is not None)
        else:
            body = self._guarded(lambda: self.view.rows(self.model, inner, self.signs), [])
        filled = [fitted(row, size.width) for row in body[: inner.height]]
        filled += [[(" " * size.width, "")]] * (inner.height - len(filled))
        first = self._guarded(
            lambda: header(self.model, self.views, self.current, size.width, clock),
            fitted(tabs(self.views, self.current, size.width), size.width),
        )
        last = footer(self.model, size.width, self.signs, self._typed())
        return [first, *filled, *player, last][: size.height]

    def _player_rows(self, size: Size) -> list[Row]:
        """The time line of a recording and the moment in words; on a low screen only the moment."""
        player = self.model.playback
        if player is None or size.height < _LEAST_ROWS:
            return []
        rows = [slider_row(player, size.width, self.signs), moment_row(player, size.width, self.signs)]
        return rows if size.height >= _ROOMY_ROWS else rows[1:]

    def _typed(self) -> str | None:
        """The line that is being typed."""
        if self._prompt is None:
            return None
        return f"{MOMENT_ASKED if self._moment_asked else CHIPS_ASKED}: {self._prompt}"

    def take(self, update: FeedUpdate, asked: list[str]) -> None:
        """Store an update of the feed. For a malformed snapshot a message is shown, and the last one stays."""
        model = self.model
        model.trouble = update.trouble
        if update.recorded is not None and model.playback is not None:
            self._take_moment(update.recorded, model.playback)
        model.take_answers(update.answers, asked, update.now)
        if update.snapshot is not None:
            snapshot = update.snapshot
            self._guarded(lambda: model.take(snapshot, update.time, update.now), None)
            if self._reopened:
                self._reopened = False
                self._guarded(self._fall_back, None)

    def _take_moment(self, recorded: RecordedUpdate, player: Playback) -> None:
        model = self.model
        if player.take(recorded):
            model.answers.clear()  # they are of another moment
            for view in self.views:
                if view is not self.view and hasattr(view, "forget"):
                    view.forget()
        if recorded.refused is not None:
            model.message = recorded.refused
        if recorded.past is not None:
            model.past = recorded.past

    def tick(self, clock: float) -> bool:
        """Go on with a recording that plays; True if there is a request."""
        return self.model.playback is not None and self.model.playback.tick(clock)

    def _fall_back(self) -> None:
        """Show the overview if the view of the last time would be empty."""
        name, snapshot = self.view.name, self.model.snapshot
        if snapshot is not None and not self.model.answering and getattr(self.view, "needs_server", False):
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
        elif not (self._guarded(lambda: self.view.press(key, self.model), False) or self._play(key)):
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
        elif self.drags(y):
            self.drag(x)
        elif y < self._size.height - 1:
            self._guarded(lambda: self.view.click(x, y - 1, self.model), False)
        self._remember()

    def drags(self, y: int) -> bool:
        """Is the time line of a recording in this row?"""
        there = self.model.playback is not None and self._size.height >= _ROOMY_ROWS
        return there and y == self._size.height - 3 and not self._helping

    def drag(self, x: int) -> None:
        """Move the moment to a column of the time line."""
        player = self.model.playback
        if player is not None and (time := time_at(player, x, self._size.width)) is not None:
            player.go(time)

    def _play(self, key: str) -> bool:
        """Handle a key of a recording; False if it is none."""
        player = self.model.playback
        if player is not None and key == "at":
            self._prompt, self._moment_asked = "", True
            return True
        return player is not None and player.press(key)

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
            self._prompt, self._moment_asked = ",".join(model.wanted), False
        elif key == "t":
            self.theme = following(self.theme)
            model.message = f"theme: {self.theme}"
        elif key in ("h", "question_mark", "f1"):
            self._helping = True
        elif key == "q":
            self.done = True

    def _type(self, key: str, character: str | None) -> None:
        """Handle a key while the user types the names of chips, or a moment."""
        text = self._prompt or ""
        if key == "enter" and self._moment_asked:
            self._prompt = None
            if self.model.playback is not None and text.strip():
                self.model.playback.ask(ToMoment(text.strip()))
        elif key == "enter":
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
