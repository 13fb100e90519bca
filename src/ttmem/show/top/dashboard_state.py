# SPDX-License-Identifier: Apache-2.0
"""The state of the dashboard: the last snapshot, answers from the server, the history, the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.documents.common_text import by_number, chip_numbers
from ttmem.show.chip_selector import UnknownChip, only
from ttmem.show.top.parts.chip_history import ChipHistory

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, ProcessRow, Snapshot, SourceState
    from ttmem.show.top.playback import Playback

_KEPT_SECONDS = 10.0
_LEAST_WINDOW_SECONDS = 1e-4


class Answer(NamedTuple):
    """The last answer of the API: data, or why there is none. ``time`` is monotonic."""

    data: Any  # the requested document, or None
    trouble: str | None
    time: float


class TimeSpan(NamedTuple):
    """What charts show, in seconds since 1970. A recording has a cursor at the moment, and times after its start."""

    until: float
    window: float  # seconds
    cursor: float | None = None
    origin: float | None = None


class Model:
    """The state. Updates of the feed and keys change it, all in one thread; views read it."""

    def __init__(
        self,
        *,
        wanted: tuple[str, ...] = (),
        readonly: bool = False,
        hidden: int | None = None,
        playback: Playback | None = None,
    ) -> None:
        self.wanted = wanted  # chips to show, as `ttmem smi -d` takes them; all if empty
        self.readonly = readonly
        self._hidden = hidden  # pid to leave out of the snapshot: our own
        self.playback = playback  # of a recording
        self.past = ChipHistory()
        self._unfiltered: Snapshot | None = None  # the snapshot with all chips
        self.snapshot: Snapshot | None = None
        self.numbers: dict[str, int] = {}  # of all chips, by id
        self.trouble: str | None = None  # why the snapshot is old, or comes from the machine alone
        self.now = 0.0  # monotonic, when the snapshot was made
        self.until = 0.0  # the same in seconds since 1970: charts end there
        self.interval = 0.5
        self.paused = False
        self.answers: dict[str, Answer] = {}
        self.selected: str | None = None  # id of the selected chip, the same in all views
        self._missed: Any = None  # the selected chip if it is gone, and its replacement until it is back
        self.message: str | None = None  # one line for the user, until the next key

    def take(self, snapshot: Snapshot, time: float, now: float) -> None:
        """Store a new snapshot; ``time`` is seconds since 1970. While paused, it is only added to the history."""
        if self.playback is not None:
            self._unfiltered, self.now, self.until = snapshot, now, self.playback.position.time
            self._pick()
            return
        self.past.add(time, snapshot, self.interval)
        if self.paused and self.snapshot is not None:
            return
        self._unfiltered, self.now, self.until = snapshot, now, self.past.newest
        self._pick()

    def take_answers(self, answers: dict[str, Answer], wanted: list[str], now: float) -> None:
        """Store new answers. While paused, the old ones stay; otherwise unused answers are dropped after a while.

        A view that is shown again shows its last answer until the next one arrives.
        """
        if self.paused:
            answers = {path: answer for path, answer in answers.items() if path not in self.answers}
        else:
            kept = {path: answer for path, answer in self.answers.items() if now - answer.time < _KEPT_SECONDS}
            self.answers = {path: self.answers[path] for path in wanted if path in self.answers} | kept
        self.answers.update(answers)

    def pick(self, wanted: tuple[str, ...]) -> None:
        """Show these chips only, or all of them."""
        self.wanted = wanted
        self._pick()

    def _pick(self) -> None:
        snapshot = self._unfiltered
        if snapshot is None:
            return
        if self._hidden is not None and any(process["pid"] == self._hidden for process in snapshot["processes"]):
            others = [process for process in snapshot["processes"] if process["pid"] != self._hidden]
            snapshot = {**snapshot, "processes": others}
        self.numbers = chip_numbers(snapshot)
        snapshot = {**snapshot, "chips": by_number(snapshot["chips"], self.numbers)}
        try:
            self.snapshot = only(snapshot, list(self.wanted)) if self.wanted else snapshot
        except UnknownChip as error:
            here = [name for name in self.wanted if _is_here(name, snapshot)]
            self.snapshot, self.message = only(snapshot, here) if here else snapshot, str(error)
        chip_ids = [chip["chip"] for chip in self.chips]
        if self._missed and self._missed[0] in chip_ids and self.selected == self._missed[1]:
            self.selected, self._missed = self._missed[0], None
        elif self.selected not in chip_ids:
            before, self.selected = self.selected, chip_ids[0] if chip_ids else None
            self._missed = self._missed or (before and (before, self.selected))
        elif self._missed and self.selected != self._missed[1]:
            self._missed = None  # the user has selected another chip

    @property
    def answering(self) -> bool:
        """Are requests answered? The machine alone has only a snapshot."""
        return self.snapshot is not None and (self.playback is not None or bool(self.snapshot["server"]))

    def span(self, seconds: float | None) -> TimeSpan:
        """What a chart of this length shows: the last seconds, or of a recording those around the moment.

        None is all of the recording.
        """
        player = self.playback
        if player is None:
            return TimeSpan(self.until, seconds or 0.0)
        window = max(player.length, _LEAST_WINDOW_SECONDS)
        if seconds is None or seconds >= window:
            return TimeSpan(player.end, window, self.until, player.begin)
        until = min(player.end, max(self.until + seconds / 2, player.begin + seconds))
        return TimeSpan(until, seconds, self.until, player.begin)

    @property
    def chips(self) -> list[ChipRow]:
        return [] if self.snapshot is None else self.snapshot["chips"]

    @property
    def processes(self) -> list[ProcessRow]:
        return [] if self.snapshot is None else self.snapshot["processes"]

    @property
    def sources(self) -> list[SourceState]:
        """The sources that are worth a message, except for the server, which has its own messages.

        An absent source is worth a message only if nothing else is known, or if the user requested it, as with umd.
        """
        found = [] if self.snapshot is None else self.snapshot["sources"]
        enough = self.chips or self.processes
        unused = [one["name"] for one in found if enough and one["state"] == "absent" and one["name"] != "umd"]
        return [one for one in found if one["name"] not in ("server", *unused)]

    def chip(self) -> ChipRow | None:
        """The selected chip."""
        return next((chip for chip in self.chips if chip["chip"] == self.selected), None)

    def choose(self, step: int) -> None:
        """Select the next or the previous chip."""
        chip_ids = [chip["chip"] for chip in self.chips]
        if chip_ids:
            place = chip_ids.index(self.selected) if self.selected in chip_ids else 0
            self.selected = chip_ids[max(0, min(len(chip_ids) - 1, place + step))]


def _is_here(name: str, snapshot: Snapshot) -> bool:
    try:
        only(snapshot, [name])
    except UnknownChip:
        return False
    return True
