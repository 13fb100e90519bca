# SPDX-License-Identifier: Apache-2.0
"""Opens recordings: what happened in them, and the account at any moment.

with Recording("run.ttmem") as recording:
    opened = recording.at(recording.end - 1.0)
    print(opened.ledger.live_count())
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeGuard

from ttmem.account.ledger import Ledger
from ttmem.account.observer import FailureObserver
from ttmem.account.saved_history import restore
from ttmem.account.totals import TotalWithContents
from ttmem.model.events import Event, Failed, Mark, PhaseBegan, PhaseEnded
from ttmem.model.validation import check_time
from ttmem.recording.blocks import Block, BlockType, RecordingError, SegmentReader
from ttmem.recording.columns import CHECKPOINT, FAILED, PHASES
from ttmem.recording.event_entries import EventDecoder, SourceName
from ttmem.recording.playhead import Playhead
from ttmem.recording.recorded_ring import Placed, RecordedFold, RecordedProcess, RecordedRing
from ttmem.recording.replay import Merge, Numbered, Reached, ReplaySink, RingStretch
from ttmem.recording.segment_folder import SEGMENT_SUFFIX
from ttmem.wire.agent_ring import RECORD, RECORD_SIZE, Record, RingEvent

if TYPE_CHECKING:
    from ttmem.recording.lifetimes import Lifetimes

_EVENT_BYTE = 16
_FAR_HISTORIES = 2  # that a moment is away: to open it costs about as much as the records between two histories
_PHASE_RECORDS = (int(RingEvent.PHASE_BEGAN), int(RingEvent.PHASE_ENDED))


class Happened(NamedTuple):
    """Something that a recording has a time for: a failed allocation, or the start or end of a phase."""

    time: float
    source: SourceName | None
    event: Event


class Sample(NamedTuple):
    """Host memory of processes and telemetry of chips at a time."""

    time: float
    host: dict[int, dict[str, int]]  # by pid: bytes that are `resident`, and in `huge_pages`
    telemetry: dict[str, dict[str, Any]]  # by PCI address; empty if it was not recorded


class Opened(NamedTuple):
    """The account at a moment."""

    time: float  # of the last event before the moment, or the start of the recording
    ledger: Ledger
    all_chips: TotalWithContents  # the buffers of all chips together


class Recording:
    """A recording: one file, or a folder of segments. RecordingError or OSError if it cannot be read."""

    def __init__(self, path: str | BinaryIO) -> None:
        self.path = path if isinstance(path, str) else ""
        self.problems: list[str] = []  # what could not be read, in words
        self.facts: dict[str, Any] = {}
        self._files: list[BinaryIO] = []
        self._lifetimes: Lifetimes | None = None
        self._at_end: Opened | None = None
        self._blocks: list[Block] = []
        self._events: list[Placed] = []
        self._samples: list[Placed] = []
        self._histories: list[Placed] = []
        by_process: dict[int, list[Placed]] = {}
        self.finished = True  # its writer closed it
        try:
            for segment in self._segments(path) if isinstance(path, str) else (SegmentReader(path),):
                self.finished = segment.finished
                self.problems += segment.damage
                self._blocks += segment.blocks
                for block in segment.blocks:
                    placed = Placed(block, _payload_of(segment, block))
                    if block.type == BlockType.EVENTS:
                        self._events.append(placed)
                    elif block.type == BlockType.SAMPLES:
                        self._samples.append(placed)
                    elif block.type == BlockType.HISTORY:
                        self._histories.append(placed)
                    elif block.type == BlockType.FACTS:
                        self._take_facts(placed)
                    elif block.type != BlockType.INDEX:
                        by_process.setdefault(block.process, []).append(placed)
        except BaseException:
            self.close()
            raise
        self.processes: dict[int, RecordedProcess] = {}
        for number, blocks in by_process.items():
            try:
                self.processes[number] = RecordedProcess(number, blocks, self._note)
            except RecordingError as error:
                self._note(str(error))
        times = [
            one.block.time
            for blocks in (self._events, *by_process.values())
            for one in blocks
            if one.block.type in (BlockType.EVENTS, BlockType.RECORDS) and _is_time(one.block.time)
        ]
        start = self.facts.get("start")
        first = float(start) if _is_time(start) else min(times, default=0.0)
        self.begin: float = min([first, *times]) if times else first
        self.end: float = max(times, default=self.begin)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(
        self,
        time: float = inf,
        reached: Reached | None = None,
        *,
        failure_observer: FailureObserver | None = None,
        from_start: bool = False,
    ) -> Opened:
        """The account at a moment: after all events up to that time, or as soon as ``reached`` is true.

        It begins with the last history before the moment; with ``from_start``, everything is applied. Failures before
        that history may not be observed.
        """
        head = self._head(None if from_start else self._history_before(time, reached is not None), failure_observer)
        head.advance(time, reached)
        return Opened(head.time, head.ledger, head.all_chips)

    def at_end(self) -> Opened:
        """The account at the end. It is made once for several questions, and must not be changed."""
        if self._at_end is None:
            self._at_end = self.at()
        return self._at_end

    def playhead(
        self, time: float = -inf, reached: Reached | None = None, *, failure_observer: FailureObserver | None = None
    ) -> Playhead:
        """The account at a moment as with `at`. Without ``reached``, it can be moved on to later moments."""
        head = self._head(self._history_before(time, reached is not None), failure_observer)
        head.advance(time, reached)
        return head

    def stepper(self, step: float) -> Playhead:
        """An account before everything, to be moved on to the ends of steps of time, and sampled there.

        The steps begin at multiples of ``step``, a power of two. At their ends, the totals and resident programs are
        those of all events, and so are the highest values that totals reached in each step. Nothing else is.
        """
        from ttmem.recording.thinned_ring import thinned_stretches

        all_chips = TotalWithContents()
        sink = ReplaySink(Ledger(all_chips=all_chips), self.begin, None)
        stretches = thinned_stretches(self, sink, step)
        return Playhead(sink, Merge(sink, self._numbered_events(), stretches, self._invalid), all_chips)

    def moved(self, head: Playhead | None, time: float, *, failure_observer: FailureObserver | None = None) -> Playhead:
        """The account at a time: a playhead moved on to it, or a new one if that is faster."""
        if head is None or head.stopped or time < head.reach or self._is_far(head.reach, time):
            return self.playhead(time, failure_observer=failure_observer)
        head.advance(time)
        return head

    def replay(self, ledger: Ledger, time: float = inf, reached: Reached | None = None) -> float:
        """Apply all events from the start to a new account. Returns the time of the last one."""
        sink = ReplaySink(ledger, self.begin, reached)
        self._from_start(sink).advance(time)
        return sink.last

    def blocks(self) -> list[Block]:
        """Every block, in the order of the file."""
        return self._blocks

    def failures(self) -> list[Happened]:
        """Every exception of the runtime while it allocated memory, in order."""
        return self._happened(FAILED, (int(RingEvent.FAILED),), (Failed,))

    def phases(self) -> list[Happened]:
        """Every begin and end of a phase, in order."""
        return self._happened(PHASES, _PHASE_RECORDS, (PhaseBegan, PhaseEnded))

    def events(self) -> Iterator[Happened]:
        """The events of sources other than rings, in the order of the file."""
        return (Happened(*item[1:]) for item in self._numbered_events())

    def samples(self) -> list[Sample]:
        """Host memory of the recorded processes and telemetry of the chips, about once a second."""
        found = []
        for placed in self._samples:
            try:
                row = json.loads(placed.payload())
                host = {int(pid): dict(one) for pid, one in row["host"].items()}
                telemetry = {str(pci): dict(one) for pci, one in row["telemetry"].items()}
                found.append(Sample(float(row["time"]), host, telemetry))
            except (RecordingError, ValueError, KeyError, TypeError, AttributeError) as error:
                self._note(str(error))
        return found

    def marks(self) -> list[Happened]:
        """The points in time that the user named."""
        found = [one for one in self.events() if isinstance(one.event, Mark)]
        return sorted(found, key=lambda one: one.time)

    def lifetimes(self) -> Lifetimes:
        """Every allocation and every program as rows of tables of numpy."""
        if self._lifetimes is None:
            from ttmem.recording.lifetimes import lifetimes

            self._lifetimes = lifetimes(self, self._note)
        return self._lifetimes

    @property
    def gaps(self) -> list[tuple[SourceName, int, int]]:
        """Records that were lost: whose, and the first and last sequence number."""
        return [(one.source, first, last) for one in self.processes.values() for first, last in one.gaps]

    # -- inside --------------------------------------------------------------------------------------------------

    def _segments(self, path: str) -> Iterator[SegmentReader]:
        paths = [path]
        if os.path.isdir(path):
            paths = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(SEGMENT_SUFFIX)]
            if not paths:
                raise RecordingError("a folder without segments of a recording")
        for number, one in enumerate(paths):
            file = open(one, "rb")  # noqa: SIM115 - closed by close()
            self._files.append(file)
            try:
                yield SegmentReader(file)
            except RecordingError as error:
                if len(paths) == 1:
                    raise
                self._note(f"segment {number + 1}: {error}")

    def _take_facts(self, placed: Placed) -> None:
        try:
            found = json.loads(placed.payload())
            if isinstance(found, dict):
                self.facts.update(found)
        except (RecordingError, ValueError) as error:
            self._note(str(error))

    def _note(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _history_before(self, time: float, earlier: bool) -> History | None:
        """The last history that was written before a time, or not after it, and whose records are all there."""
        for placed in reversed(self._histories):
            if placed.block.time < time or (placed.block.time == time and not earlier):
                try:
                    past = History.of(placed.payload())
                except RecordingError as error:
                    self._note(str(error))
                    continue
                if all(
                    number in self.processes and self.processes[number].can_reach(last)
                    for number, last in past.rings.items()
                ):
                    return past
        return None

    def _is_far(self, after: float, until: float) -> bool:
        """Is it faster to open a moment than to move on to it from an earlier one?"""
        return sum(after < placed.block.time <= until for placed in self._histories) >= _FAR_HISTORIES

    def _head(self, past: History | None, failure_observer: FailureObserver | None = None) -> Playhead:
        """The account at a history, or before everything."""
        all_chips = TotalWithContents()
        ledger = Ledger(all_chips=all_chips, failure_observer=failure_observer)
        sink = ReplaySink(ledger, self.begin, None)
        return Playhead(sink, self._from_start(sink) if past is None else self._from_history(past, sink), all_chips)

    def _from_start(self, sink: ReplaySink) -> Merge:
        stretches = [_whole(one, sink) for one in self.processes.values()]
        return Merge(sink, self._numbered_events(), stretches, self._invalid)

    def _from_history(self, past: History, sink: ReplaySink) -> Merge:
        """Apply what is live at a history and the history itself; returns what follows.

        What rings had live comes from the table before the history, that of other sources from their checkpoint and
        the events after it; from all events if there is no checkpoint.
        """
        folds = {
            number: RecordedFold.of(self.processes[number], sink, self.processes[number].table_before(last))
            for number, last in past.rings.items()
        }
        following = {number: RingStretch(_returning(fold)) for number, fold in folds.items()}
        events = _Split(self._numbered_events(self._checkpoint_before(past.events)))
        before = [RingStretch(_returning(fold), past.rings[number]) for number, fold in folds.items()]
        Merge(sink, events.up_to(past.events), before, self._invalid).advance(inf)
        try:
            restore(sink.ledger, past.account, past.time)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise RecordingError(f"a history is invalid: {type(error).__name__}: {error}") from None
        for number, process in self.processes.items():
            if number > past.known:
                following[number] = _whole(process, sink)
        return Merge(sink, events.rest(), [*following.values()], self._invalid)

    def _invalid(self, fold: RecordedFold, error: Exception) -> None:
        pid = fold.ring.process.source.info.pid
        self._note(f"pid {pid}: its records are invalid from here on: {error}")

    def _checkpoint_before(self, number: int) -> int:
        """The index of the last block of events that has the state after at most so many events; 0: the first block."""
        for index in range(len(self._events) - 1, 0, -1):
            block = self._events[index].block
            if block.flags & CHECKPOINT and block.number <= number and self._is_readable(self._events[index]):
                return index
        return 0

    def _is_readable(self, placed: Placed) -> bool:
        try:
            placed.payload()
        except RecordingError as error:
            self._note(str(error))
            return False
        return True

    def _numbered_events(self, start: int = 0) -> Numbered:
        """The events from a block on, each with its number; those of a checkpoint, with which it begins, have 0."""
        decoder = EventDecoder()
        for index in range(start, len(self._events)):
            placed = self._events[index]
            repeated = bool(placed.block.flags & CHECKPOINT)
            if repeated and index > start:
                continue  # the blocks before have it
            try:
                for number, item in enumerate(decoder.events(placed.payload()), placed.block.number):
                    yield (0 if repeated else number, *item)
            except RecordingError as error:
                self._note(str(error))

    def _happened(self, flag: int, records: tuple[int, ...], events: tuple[type, ...]) -> list[Happened]:
        found = [one for one in self._flagged_events(flag) if type(one.event) in events]
        for process in self.processes.values():
            ring = RecordedRing(process)
            for index in process.records:
                block = process.blocks[index].block
                raw = process.raw_records(index) if block.flags & flag else None
                if raw is None:
                    continue
                column = raw[_EVENT_BYTE::RECORD_SIZE]
                for place in (n for n, code in enumerate(column) if code in records):
                    record = Record._make(RECORD.unpack_from(raw, place * RECORD_SIZE))
                    time = record.time * 1e-9 + process.offset
                    found.append(Happened(time, process.source, _event_of(ring, record)))
        return sorted(found, key=lambda one: one.time)

    def _flagged_events(self, flag: int) -> Iterator[Happened]:
        """The events of the blocks that have some with this flag."""
        if not any(one.block.flags & flag for one in self._events):
            return
        decoder = EventDecoder()
        for index, placed in enumerate(self._events):
            if not index or not placed.block.flags & CHECKPOINT:
                try:
                    for item in decoder.events(placed.payload(), only_define=not placed.block.flags & flag):
                        yield Happened(*item)
                except RecordingError as error:
                    self._note(str(error))


class History(NamedTuple):
    """What the account knew of the past when it had applied certain records."""

    time: float
    rings: dict[int, int]  # number of the process -> the last record that was applied
    known: int  # processes so far; those that are not in ``rings`` had ended
    events: int  # of other sources, so far
    account: dict[str, Any]

    @classmethod
    def of(cls, payload: bytes) -> History:
        try:
            found = json.loads(payload)
            rings = {int(number): int(last) for number, last in found["rings"].items()}
            return cls(float(found["time"]), rings, int(found["known"]), int(found["events"]), found["account"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordingError(f"a history is invalid: {error}") from None


def _is_time(value: Any) -> TypeGuard[float]:
    """Can that be a time? A file from elsewhere may contain anything."""
    try:
        check_time(value)
    except (ValueError, TypeError, OverflowError):
        return False
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Split:
    """Numbered events in two parts: up to a number, and the rest."""

    def __init__(self, events: Numbered) -> None:
        self._events = events
        self._next: tuple[int, float, SourceName | None, Event] | None = None

    def up_to(self, number: int) -> Numbered:
        for item in self._events:
            if item[0] > number:
                self._next = item
                return
            yield item

    def rest(self) -> Numbered:
        if self._next is not None:
            yield self._next
        yield from self._events


def _whole(process: RecordedProcess, sink: ReplaySink) -> RingStretch:
    """All records of a process."""
    return RingStretch(lambda: RecordedFold.of(process, sink), since=process.since)


def _returning(fold: RecordedFold) -> Callable[[], RecordedFold]:
    return lambda: fold


def _payload_of(segment: SegmentReader, block: Block) -> Callable[[], bytes]:
    return lambda: segment.payload(block)


def _event_of(ring: RecordedRing, record: Record) -> Event:
    """A record of a failure or phase as an event; a failure without its device."""
    if record.event == RingEvent.PHASE_BEGAN:
        return PhaseBegan(record.address, ring.name(record.name) or "", record.size)
    if record.event == RingEvent.PHASE_ENDED:
        return PhaseEnded(record.address)
    cause = ring.cause(record.cores)
    return Failed(None, ring.name(record.name) or "", cause.tag, cause.stack)
