# SPDX-License-Identifier: Apache-2.0
"""The API of a recording: the same routes as those of a server, over the account at a moment that can be chosen.

It is not thread-safe: everything is called from one thread.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nextafter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ttmem import __version__
from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_messages import parse
from ttmem.documents.common_text import chip_numbers
from ttmem.documents.cores import Cores
from ttmem.documents.recorded_moments import (
    NoSuchMoment,
    PhaseBar,
    Position,
    StepKind,
    TimeMark,
)
from ttmem.documents.recorded_snapshot import recorded_snapshot
from ttmem.documents.snapshot import take_snapshot
from ttmem.ingest.clock import Clock
from ttmem.ingest.sink import Sink
from ttmem.model.units import human
from ttmem.recording.blocks import RecordingError
from ttmem.recording.event_times import EventTimes
from ttmem.recording.landmarks import Landmarks, landmarks, phase_runs
from ttmem.recording.moments import Moment, MomentError, default_moment, find_moment
from ttmem.recording.recording_file import Recording
from ttmem.server.current_snapshot import AccountSnapshots, CurrentSnapshot
from ttmem.server.dumps import Dumps
from ttmem.server.event_stream import EventStream, event_json
from ttmem.server.history import History
from ttmem.server.http_server import HttpError, Request
from ttmem.server.recorded_history import HistoryReader
from ttmem.server.router import Api

if TYPE_CHECKING:
    from ttmem.model.schema import ServerFigures, Snapshot
    from ttmem.recording.playhead import Playhead

_EVERYBODY = 0  # the user who sees what belongs to all users, as in `ttmem replay`
_LISTED_EVENTS = 500  # before the moment
_MOST_PHASES = 400  # that charts show: the longest


class RecordedApi:
    """A recording, and the account at one of its moments."""

    def __init__(
        self,
        recording: Recording,
        first: Moment | None = None,
        *,
        find_chip: Callable[[str, Ledger], str] | None = None,
    ) -> None:
        """``first`` is the moment that matters. ``find_chip`` gives the id of a chip that is named in a moment."""
        self._first = first
        self._recording = recording
        self._find_chip = find_chip
        self._loop = asyncio.new_event_loop()
        self._times = EventTimes(recording)
        self._landmarks: Landmarks | None = None
        self._end: Ledger | None = None  # the account of the end
        self._reader: HistoryReader | None = None
        self._head: Playhead | None = None
        self._moment: Moment | None = None  # if a landmark is shown
        self._api: Api | None = None
        self._snapshot: Snapshot | None = None
        self._shown: tuple[Playhead | None, int] | None = None  # what the two are of
        self.begin, self.end = recording.begin, recording.end
        self.position = Position(recording.begin)

    def close(self) -> None:
        """The recording itself stays open."""
        self._loop.close()

    @property
    def problems(self) -> list[str]:
        """What could not be read."""
        found = list(self._recording.problems)
        if not self._recording.finished and not found:
            found.append("it was not closed, and is read up to its last block")
        lost = sum(last - first + 1 for _, first, last in self._recording.gaps)
        return [*found, f"{lost:,} records were lost"] if lost else found

    # -- moments -------------------------------------------------------------------------------------------------

    def seek_time(self, time: float) -> Position:
        """Go to a time; one outside the range is the start or the end."""
        time = max(self.begin, min(self.end, time))
        words = "at its start" if time == self.begin else "at its end" if time == self.end else ""
        with _readable():
            self._go(Moment(time, words))
        return self.position

    def seek_text(self, text: str | None) -> Position:
        """Go to a moment as `--at` takes it, or to the one that matters. NoSuchMoment if there is none."""
        with _readable():
            if text is not None:
                self._go(find_moment(self._recording, text, is_failure=_is_failure, find_chip=self._find_chip))
            else:
                self._go(self._first or default_moment(self._recording, is_failure=_is_failure))
        return self.position

    def step(self, kind: StepKind, count: int) -> Position:
        """Go so many events or landmarks on, or back if it is negative; to the last one if there are fewer."""
        with _readable():
            if kind == "event":
                self._go_to_event(self._event_time(count))
            else:
                self._go(self._landmark(kind, count))
        return self.position

    def _event_time(self, count: int) -> float:
        time = found = self.position.time
        if count < 0:
            earlier = self._times.before(time, -count)
            found = time if earlier is None else max(earlier, self.begin)
        for _ in range(count):
            later = self._times.after(found)
            if later is None:
                break
            found = later
        if found == time:
            raise NoSuchMoment(f"there is no {'later' if count > 0 else 'earlier'} event")
        return found

    def _landmark(self, kind: StepKind, count: int) -> Moment:
        found = self._of_kind(kind)
        place = next((number for number, one in enumerate(found) if one is self._moment), None)
        if place is not None:
            wanted = place + count
        elif count > 0:
            wanted = bisect_right(found, self.position.time, key=_time_of) + count - 1
        else:
            wanted = bisect_left(found, self.position.time, key=_time_of) + count
        wanted = max(0, min(len(found) - 1, wanted))
        later = place is None or wanted != place
        if place is None and found:
            later = found[wanted].time > self.position.time if count > 0 else found[wanted].time < self.position.time
        if not found or not later:
            words = {"peak": "peak", "phase": "start or end of a phase", "failure": "failed allocation"}[kind]
            which = "" if not found else "later " if count > 0 else "earlier "
            raise NoSuchMoment(f"there is no {which}{words}")
        return found[wanted]

    def _of_kind(self, kind: StepKind) -> list[Moment]:
        if self._landmarks is None:
            account = self._end_account()
            numbers = chip_numbers(take_snapshot(account, time="", host=""))
            self._landmarks = landmarks(
                self._recording,
                account,
                is_failure=_is_failure,
                chip_name=lambda chip: f"chip {numbers.get(chip, chip)}",
            )
        return {"peak": self._landmarks.peaks, "phase": self._landmarks.phases}.get(kind, self._landmarks.failures)

    def _go(self, moment: Moment) -> None:
        """Open a moment: from the account that is there if it is earlier, or from the last history before it."""
        if moment.reached is not None:
            self._head = self._recording.playhead(moment.time, moment.reached)
        else:
            self._move(moment.time)
        self._moment = moment
        self._arrived(max(self.begin, min(self.end, moment.time)), moment.words)

    def _go_to_event(self, time: float) -> None:
        """Open the moment after all events of a time, and say which these are."""
        self._move(nextafter(time, 0.0))
        assert self._head is not None
        seen: list[dict[str, Any]] = []
        self._head.advance(time, observer=lambda *event: seen.append(event_json(*event)))
        self._moment = None
        more = f", and {len(seen) - 1} more at the same time" if len(seen) > 1 else ""
        self._arrived(time, f"after {event_words(seen[-1])}{more}" if seen else "")

    def _move(self, time: float) -> None:
        self._head = self._recording.moved(self._head, time)

    def _arrived(self, time: float, words: str) -> None:
        self.position = Position(time, words)
        shown = self._head, self.ledger.seq
        if shown != self._shown:  # else nothing happened since the last moment
            self._shown, self._api, self._snapshot = shown, None, None

    def marks(self) -> list[TimeMark]:
        """All landmarks. The first call reads the recording."""
        kinds: tuple[StepKind, ...] = ("phase", "peak", "failure")
        with _readable():
            return [TimeMark(one.time, kind) for kind in kinds for one in self._of_kind(kind)]

    def phases(self) -> list[PhaseBar]:
        """The runs of phases, in the order of their starts; if there are very many, the longest."""
        with _readable():
            account, runs = self._end_account(), phase_runs(self._recording)
        chips: dict[int, frozenset[str]] = {}
        for process in (*account.departed, *account.processes.values()):
            chips[process.info.pid] = chips.get(process.info.pid, frozenset()) | frozenset(process.shares)
        longest = sorted(runs, key=lambda run: run.since - (self.end if run.until is None else run.until))
        kept = set(longest[:_MOST_PHASES])
        return [PhaseBar(*run, chips.get(run.pid, frozenset())) for run in runs if run in kept]

    def _end_account(self) -> Ledger:
        if self._end is None:
            self._end = self._recording.at().ledger
        return self._end

    def history(self) -> HistoryReader:
        """Reads the history of all chips."""
        if self._reader is None:
            self._reader = HistoryReader(self._recording)
        return self._reader

    # -- documents -----------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The account at the moment."""
        if self._head is None:
            self._go(Moment(self.begin, ""))
        assert self._head is not None
        return self._head.ledger

    def snapshot(self) -> Snapshot:
        ledger = self.ledger
        if self._snapshot is None:
            time = self._head.time if self._head is not None else self.begin
            self._snapshot = recorded_snapshot(self._recording, ledger, time)
        return self._snapshot

    def answer(self, path: str) -> Any:
        """A document of the API; LookupError or ValueError with the reason if there is none."""
        split = urlsplit(path)
        if split.path == "/events":
            return {"events": self._events_before(), "lost": 0, "since": self.begin}
        asked = Request("GET", unquote(split.path), dict(parse_qsl(split.query)), _EVERYBODY)
        try:
            return self._loop.run_until_complete(self._answer(asked))
        except HttpError as error:
            raise (LookupError if error.status == 404 else ValueError)(str(error)) from None

    async def _answer(self, asked: Request) -> Any:
        # A new one for each moment, because maps of cores would otherwise be used again for a while.
        self._api = self._api or _api_over(self.ledger, self.position.time)
        body = (await self._api.handle(asked)).body
        return json.loads(body if isinstance(body, bytes) else b"".join([piece async for piece in body]))

    def _events_before(self) -> list[dict[str, Any]]:
        """The last events before the moment, with those at it."""
        moment = self._moment or Moment(self.position.time, "")
        first = self._times.before(nextafter(moment.time, float("inf")), _LISTED_EVENTS)
        if first is None:
            return []
        seen: list[dict[str, Any]] = []
        head = self._recording.playhead(nextafter(first, 0.0))
        head.advance(moment.time, moment.reached, observer=lambda *event: seen.append(event_json(*event)))
        return seen[-_LISTED_EVENTS:]


def _api_over(ledger: Ledger, time: float) -> Api:
    clock = _StoppedClock(time)
    sink = Sink(ledger, now=clock.now)
    feed, cores = EventStream(sink), Cores(ledger)

    def figures() -> ServerFigures:
        return {
            "status": "recording",
            "parts": [],
            "pid": 0,
            "since": time,
            "version": __version__,
            "clients": 0,
            "accepted": 0,
            "live_allocations": ledger.live_count(),
            "unread_replies": 0,
            "socket": "",
        }

    return Api(
        ledger=ledger,
        sink=sink,
        current=CurrentSnapshot(AccountSnapshots(ledger, cores, feed, clock, figures), machine=False),
        cores=cores,
        dumps=Dumps(ledger, clock, _ignore, _ignore),
        history=History(),
        feed=feed,
        clock=clock,
        server=figures,
        catch_up=lambda: None,
    )


@contextmanager
def _readable() -> Iterator[None]:
    """Report what cannot be read as a moment that is not there."""
    try:
        yield
    except (MomentError, RecordingError) as error:
        raise NoSuchMoment(str(error)) from None
    except OSError as error:
        raise NoSuchMoment(f"the recording cannot be read: {error.strerror}") from None


class _StoppedClock(Clock):
    """Stands at a moment."""

    def __init__(self, time: float) -> None:
        super().__init__()
        self._time = time

    def now(self) -> float:
        return self._time


def _ignore(_: object) -> None:
    """A recording writes no dumps."""


def _is_failure(message: str) -> bool:
    """Is the message of an exception about memory?"""
    return parse(message) is not None


def _time_of(moment: Moment) -> float:
    return moment.time


def event_words(event: dict[str, Any]) -> str:
    """An event in a few words.

    >>> event_words({"event": "Allocated", "kind": "dram", "size": 2048, "tag": "ttnn.add", "pid": 7})
    'Allocated dram 2.0 KiB ttnn.add'
    """
    size = event.get("size")
    name = event.get("tag") or event.get("text") or event.get("name")
    words = [event["event"], event.get("kind"), None if size is None else human(size), name]
    return " ".join(str(word) for word in words if word)
