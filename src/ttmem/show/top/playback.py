# SPDX-License-Identifier: Apache-2.0
"""Playing a recording: the moment that is shown, where the user wants to go, and the keys for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Union

from ttmem.documents.recorded_moments import Position

if TYPE_CHECKING:
    from ttmem.documents.recorded_moments import StepKind, TimeMark
    from ttmem.show.top.parts.chip_history import ChipHistory

SPEEDS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 1000.0)
KEYS = (
    ("space", "play, or stop; the mouse: click or drag on the time line"),
    ("< >, - +", "play slower, faster"),
    (", .", "the event before, the next one"),
    ("[ ]", "the start or end of a phase before, the next one"),
    ("{ }", "the peak before, the next one"),
    ("N, n", "the failed allocation before, the next one"),
    ("( ), arrows", "back, on by a cell of the time line; left and right if the view does not use them"),
    ("^ $, home, end", "the start, the end; home and end if the view does not use them"),
    ("@", "a moment as for --at: +2.3s, peak:l1, phase:NAME, failure, end"),
)
_SLOW_SECONDS = 0.2  # a shorter message would flicker
_STEPS: dict[str, tuple[StepKind, int]] = {
    "comma": ("event", -1),
    "full_stop": ("event", 1),
    "left_square_bracket": ("phase", -1),
    "right_square_bracket": ("phase", 1),
    "left_curly_bracket": ("peak", -1),
    "right_curly_bracket": ("peak", 1),
    "N": ("failure", -1),
    "n": ("failure", 1),
}
_CELLS = {"left": -1, "left_parenthesis": -1, "right": 1, "right_parenthesis": 1}
_SPEED_STEPS = {
    "less_than_sign": -1,
    "minus": -1,
    "underscore": -1,
    "greater_than_sign": 1,
    "plus": 1,
    "equals_sign": 1,
}


class ToTime(NamedTuple):
    """Go to a time, in seconds since 1970."""

    time: float


class ToMoment(NamedTuple):
    """Go to a moment as `--at` takes it; None is the moment that matters."""

    text: str | None


class Step(NamedTuple):
    """Go so many events or landmarks on, or back."""

    kind: StepKind
    by: int


Request = Union[ToTime, ToMoment, Step]


class RecordedUpdate(NamedTuple):
    """What a feed found out about a recording; None is what did not change."""

    done: int  # requests that were carried out
    position: Position | None = None
    refused: str | None = None  # why the last request was not possible
    marks: list[TimeMark] | None = None
    past: ChipHistory | None = None  # of the whole recording, as far as it was read
    progress: float = 0.0  # the part of the history that was read
    problems: tuple[str, ...] = ()  # what cannot be read


class Playback:
    """The state of a player. Keys and clicks make requests, which the application passes on to the feed."""

    def __init__(self, name: str, begin: float, end: float) -> None:
        self.name, self.begin, self.end = name, begin, end
        self.position = Position(begin)
        self.known = False  # is the position that of a snapshot?
        self.marks: list[TimeMark] = []
        self.progress = 0.0
        self.problems: tuple[str, ...] = ()
        self.playing, self.speed = False, 1.0
        self.cells = 1  # of the time line, when it was last drawn
        self.slow = False  # a request takes so long that the screen says so
        self._since: float | None = None  # the clock when a request was first waited for
        self._asked = self._done = 0
        self._target: float | None = None  # the requested time, until it is shown
        self._requests: list[Request] = []
        self._anchor: tuple[float, float] | None = None  # clock and time when it began to play

    @property
    def length(self) -> float:
        return self.end - self.begin

    @property
    def loading(self) -> bool:
        """Is a request not carried out yet?"""
        return self._done < self._asked

    def look(self, clock: float) -> None:
        """Note how long a request takes; ``clock`` is monotonic."""
        self._since = None if not self.loading else clock if self._since is None else self._since
        self.slow = self._since is not None and clock - self._since >= _SLOW_SECONDS

    @property
    def target(self) -> float:
        """The time that is shown, or that will be."""
        return self.position.time if self._target is None else self._target

    def ask(self, request: Request) -> None:
        self._asked += 1
        self._target = max(self.begin, min(self.end, request.time)) if isinstance(request, ToTime) else None
        self._requests.append(request)

    def requests(self) -> list[Request]:
        """New requests, each once."""
        found, self._requests = self._requests, []
        return found

    def take(self, update: RecordedUpdate) -> bool:
        """Store an update; True if another moment is shown now."""
        self._done = max(self._done, update.done)
        if not self.loading:
            self._target = self._since = None
            self.slow = False
        self.progress, self.problems = update.progress, update.problems
        if update.marks is not None:
            self.marks = update.marks
        if update.refused is not None:
            self.playing = False
        moved = update.position is not None
        if update.position is not None:
            self.position, self.known = update.position, True
        return moved

    # -- keys ----------------------------------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        """Handle a key by Textual's name; False if it has no meaning here."""
        if key in _STEPS:
            self._stop()
            self.ask(Step(*_STEPS[key]))
        elif key in _CELLS:
            self._stop()
            self.ask(ToTime(self.target + _CELLS[key] * self.length / max(1, self.cells - 1)))
        elif key in ("circumflex_accent", "home"):
            self._stop()
            self.ask(ToTime(self.begin))
        elif key in ("dollar_sign", "end"):
            self._stop()
            self.ask(ToTime(self.end))
        elif key in _SPEED_STEPS:
            place = SPEEDS.index(self.speed) + _SPEED_STEPS[key]
            self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place))]
            self._anchor = None
        elif key == "space":
            self._toggle()
        else:
            return False
        return True

    def go(self, time: float) -> None:
        """Go to a time that the user pointed to."""
        self._stop()
        self.ask(ToTime(time))

    def _stop(self) -> None:
        self.playing, self._anchor = False, None

    def _toggle(self) -> None:
        self.playing, self._anchor = not self.playing, None
        if self.playing and self.target >= self.end:
            self.ask(ToTime(self.begin))

    def tick(self, clock: float) -> bool:
        """While it plays, go on to where it should be by now; ``clock`` is monotonic. True if that is a request.

        A moment that takes long is waited for, and those in between are left out.
        """
        if not self.playing or self.loading:
            return False
        if self._anchor is None:
            self._anchor = clock, self.position.time
        began, time = self._anchor
        wanted = min(self.end, time + (clock - began) * self.speed)
        if wanted <= self.position.time:
            self.playing = self.position.time < self.end
            return False
        self.ask(ToTime(wanted))
        return True
