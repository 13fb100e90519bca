# SPDX-License-Identifier: Apache-2.0
"""Loads the data of the dashboard from a recording, in a thread: the moment that was asked for last comes first."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ttmem.documents.recorded_moments import NoSuchMoment
from ttmem.show.text import Style
from ttmem.show.top.dashboard_state import Answer
from ttmem.show.top.parts.chip_history import ChipHistory
from ttmem.show.top.parts.data_feed import FeedUpdate, odd_chip_ids, with_real_ids
from ttmem.show.top.playback import RecordedUpdate, Request, Step, ToMoment, ToTime

if TYPE_CHECKING:
    from ttmem.documents.recorded_moments import PhaseBar, Position, RecordedHistory, StepKind, TimeMark
    from ttmem.model.schema import Snapshot

_TURN_SECONDS = 0.02  # of reading the history, before requests are looked at again
_REPORT_SECONDS = 0.5  # between two updates of the history while it is read, at least
_REPORT_RATIO = 5  # the same, as a multiple of the time that an update takes


class HistorySource(Protocol):
    """Reads the history of a recording piece by piece."""

    @property
    def done(self) -> bool: ...

    @property
    def progress(self) -> float: ...

    def read_on(self, seconds: float) -> None: ...

    def history(self) -> RecordedHistory: ...


class RecordedSource(Protocol):
    """Answers from a recording, with the documents that a server had answered with at that moment."""

    @property
    def problems(self) -> list[str]: ...

    def seek_time(self, time: float) -> Position: ...

    def seek_text(self, text: str | None) -> Position: ...

    def step(self, kind: StepKind, count: int) -> Position: ...

    def snapshot(self) -> Snapshot: ...

    def answer(self, path: str) -> Any: ...

    def marks(self) -> list[TimeMark]: ...

    def phases(self) -> list[PhaseBar]: ...

    def history(self) -> HistorySource: ...

    def close(self) -> None: ...


class RecordingFeed:
    """A thread that carries out requests, answers what the view wants, and otherwise reads the history."""

    def __init__(self, on_update: Callable[[FeedUpdate], None], source: RecordedSource, *, ascii: bool = False) -> None:
        self._on_update, self._source = on_update, source
        self._style = Style(ascii=ascii)
        self._requests: list[Request] = [ToMoment(None)]
        self._asked = self._done = 0
        self._wants: tuple[str, ...] = ()
        self._answered: set[str] = set()  # paths, at the moment
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._chip_ids: dict[str, str] = {}
        self._marked = self._failed = False
        self._next_report = 0.0
        self._phases: list[PhaseBar] = []
        self._thread = threading.Thread(target=self._run, daemon=True, name="recording")

    def start(self) -> None:
        self._thread.start()

    def want(self, paths: list[str], interval: float) -> None:
        """Set the paths to answer at each moment. A recording is not asked again, so there is no interval."""
        if tuple(paths) != self._wants:
            self._wants = tuple(paths)
            self._wake.set()

    def seek(self, requests: list[Request]) -> None:
        """Go somewhere else. A request for a time replaces all that were not carried out yet; steps add up."""
        with self._lock:
            for request in requests:
                self._asked += 1
                last = self._requests[-1] if self._requests else None
                if isinstance(request, Step) and isinstance(last, Step) and last.kind == request.kind:
                    self._requests[-1] = Step(last.kind, last.by + request.by)
                elif isinstance(request, Step):
                    self._requests.append(request)
                else:
                    self._requests = [request]
        if requests:
            self._wake.set()

    def close(self) -> None:
        """End the thread, without waiting for what it reads."""
        self._closed = True
        self._wake.set()

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            try:
                update = self.round()
            except Exception as error:
                self._failed = True  # do not try to read the rest again and again
                update = self._broken(error)
            if self._closed:
                break
            if update is not None:
                self._on_update(update)
            elif self._idle:
                self._wake.wait()
        self._source.close()

    def join(self, seconds: float) -> None:
        """Wait for the thread after `close`, because the file that it reads is closed then."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def _idle(self) -> bool:
        return self._failed or (self._marked and self._source.history().done)

    def _broken(self, error: Exception) -> FeedUpdate:
        if os.environ.get("TTMEM_DEBUG") == "1" and not self._closed:
            raise error
        self._done = self._asked
        why = f"internal error: {type(error).__name__}: {error}; please report it with TTMEM_DEBUG=1 ttmem top FILE"
        found = RecordedUpdate(self._done, refused=self._clean(why))
        return FeedUpdate(None, None, {}, time.time(), time.monotonic(), found)

    def round(self) -> FeedUpdate | None:
        """Do what is most urgent; None if there is nothing to show for it."""
        with self._lock:
            requests, self._requests = self._requests, []
            asked = self._asked
        if requests:
            return self._moved(requests, asked)
        missing = [path for path in self._wants if path not in self._answered]
        if missing and self._snapshot is not None:
            return self._update(RecordedUpdate(self._done), answers=self._answers(missing))
        return None if self._failed else self._read_on()

    def _moved(self, requests: list[Request], asked: int) -> FeedUpdate:
        position, refused = None, None
        for request in requests:
            try:
                position = self._go(request)
            except NoSuchMoment as error:
                refused = str(error)
        if position is None and self._snapshot is None:  # there is no first moment, so the start is shown
            position = self._go(ToTime(0.0))
        self._done = asked
        if position is None:
            return self._update(RecordedUpdate(asked, refused=self._clean(refused)))
        found = self._source.snapshot()
        self._chip_ids = odd_chip_ids(found)
        self._snapshot = self._clean(found)
        self._answered.clear()
        answers = self._answers(list(self._wants))
        position = position._replace(words=self._clean(position.words))
        return self._update(RecordedUpdate(asked, position, self._clean(refused)), self._snapshot, answers)

    def _go(self, request: Request) -> Position:
        if isinstance(request, ToTime):
            return self._source.seek_time(request.time)
        if isinstance(request, ToMoment):
            return self._source.seek_text(request.text)
        return self._source.step(request.kind, request.by)

    def _answers(self, paths: list[str]) -> dict[str, Answer]:
        answers = {}
        for path in paths:
            if self._requests or self._closed:
                break  # another moment is wanted by now
            try:
                found = self._clean(self._source.answer(with_real_ids(path, self._chip_ids)))
                answers[path] = Answer(found, None, time.monotonic())
            except (LookupError, ValueError) as error:
                answers[path] = Answer(None, self._clean(str(error)), time.monotonic())
            self._answered.add(path)
        return answers

    def _read_on(self) -> FeedUpdate | None:
        """Read the landmarks, then the history, a part at a time."""
        if not self._marked:
            self._marked = True
            try:
                found = RecordedUpdate(self._done, marks=self._source.marks())
                self._phases = self._source.phases()
            except NoSuchMoment as error:
                found = RecordedUpdate(self._done, refused=self._clean(str(error)))
            return self._update(found)
        reader = self._source.history()
        if reader.done:
            return None
        reader.read_on(_TURN_SECONDS)
        now = time.monotonic()
        if not reader.done and now < self._next_report:
            return None
        past = ChipHistory.of_recording(reader.history(), self._phases)  # here, because it takes long for many chips
        took = time.monotonic() - now
        self._next_report = now + max(_REPORT_SECONDS, _REPORT_RATIO * took)
        return self._update(RecordedUpdate(self._done, past=past))

    def _update(
        self, recorded: RecordedUpdate, snapshot: Snapshot | None = None, answers: dict[str, Answer] | None = None
    ) -> FeedUpdate:
        progress = self._source.history().progress if self._marked else 0.0
        problems = tuple(self._clean(text) for text in self._source.problems)
        recorded = recorded._replace(progress=progress, problems=problems)
        return FeedUpdate(snapshot, None, answers or {}, time.time(), time.monotonic(), recorded)

    def _clean(self, found: Any) -> Any:
        return self._style.clean(found)
