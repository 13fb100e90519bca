# SPDX-License-Identifier: Apache-2.0
"""The live list of events, their rate, and a pause to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from time import localtime
from typing import Any, NamedTuple

from ttmem.documents.common_text import zone
from ttmem.model.units import human
from ttmem.show.chip_table import Names, short_size
from ttmem.show.text import Style
from ttmem.show.top.parts.listing import WIDE_COLUMNS, Column, Cursor, Placed, line
from ttmem.show.top.parts.rows import STYLES, Row, Span

_RATE_SECONDS = 10.0  # over which a rate is averaged
_LEAST_SECONDS = 1.0  # with less, a rate is meaningless
_MANY_EVENTS = 500  # from this number on, older ones may have been dropped
_LOUD = {
    "Freed": "dim",
    "Lost": "bad",
    "lost": "bad",
    "Rejected": "warn",
    "ProcessExited": "warn",
    "Mark": "mark",
    "PhaseBegan": "mark",
    "PhaseEnded": "mark",
}
_COLUMNS_OF = ("time", "event", "pid", "user_id", "chip", "chips", "kind", "size", "id")


class EventFilter(NamedTuple):
    """A filter for events or allocations; None and empty mean all."""

    kinds: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    pid: int | None = None
    least: int = 0
    text: str = ""
    made_by: tuple[str, str] | None = None  # of allocations: what they are grouped by, and the key of one group

    def query(self) -> dict[str, Any]:
        """As parameters of /allocations and /breakdown."""
        named = {"chip": ",".join(self.chips), "kind": ",".join(self.kinds), "pid": self.pid, "text": self.text}
        query: dict[str, Any] = {name: value for name, value in named.items() if value not in (None, "")}
        query |= {"min_size": self.least} if self.least else {}
        return query | ({self.made_by[0]: self.made_by[1]} if self.made_by else {})

    def fits(self, event: dict[str, Any]) -> bool:
        return (
            (not self.kinds or event.get("kind") in self.kinds)
            and (not self.chips or not set(_chips(event)).isdisjoint(self.chips))
            and (self.pid is None or event.get("pid") == self.pid)
            and (not self.least or (event.get("size") or 0) >= self.least)
            and (not self.text or self.text.lower() in str(list(event.values())).lower())
        )


def _chips(event: dict[str, Any]) -> list[str]:
    """The chips of an event: those of a mesh, or one, or none."""
    return event.get("chips") or ([event["chip"]] if event.get("chip") else [])


class EventFollower:
    """The events that are shown: the newest at the bottom, or those at the time of a pause."""

    def __init__(self) -> None:
        self.cursor = Cursor()
        self._held: list[dict[str, Any]] | None = None
        self._last: list[dict[str, Any]] = []

    @property
    def follows(self) -> bool:
        return self._held is None

    def look(
        self, events: list[dict[str, Any]], wanted: EventFilter, height: int
    ) -> tuple[list[dict[str, Any]], range]:
        """The matching events, and the visible part of them."""
        self._last = events
        source = events if self._held is None else self._held
        shown = source if wanted == EventFilter() else [event for event in source if wanted.fits(event)]
        if self._held is None:
            self.cursor.total = len(shown)
            self.cursor.go(len(shown) - 1)
        return shown, self.cursor.look([id(event) for event in shown], height)

    def press(self, key: str) -> bool:
        if key == "F":
            self._held = self._last if self._held is None else None
        elif key == "end":
            self._held = None
        elif self.cursor.press(key):
            self.hold()
        else:
            return False
        return True

    def hold(self) -> None:
        """Pause at the visible events: a user who moves up wants to read."""
        self.cursor.moved = True
        self._held = self._last if self._held is None else self._held


def columns(wide: bool, chip: int) -> tuple[Column, ...]:
    size = 11 if wide else 6
    return (
        Column("time", f"TIME {zone(localtime()).strip()}", 12, 12, 0),
        Column("pid", "PID", 7, 7, 0, right=True),
        Column("event", "EVENT", 10, 15, 0),
        Column("chip", "CHIPS", max(5, chip), max(5, chip), 1),
        Column("kind", "KIND", 8, 15 if wide else 8, 2),
        Column("size", "SIZE", size, size, 3, right=True),
        Column("id", "ID", 12, 18, 10, right=True),
        Column("rest", "WHAT", 10, 20, 4),
    )


def row(event: dict[str, Any], placed: Sequence[Placed], names: Names, style: Style) -> Row:
    kind = event.get("kind")
    loud = _LOUD.get(event.get("event", ""), "")
    texts: dict[str, str] = {
        "time": clock(event.get("time")),
        "pid": str(event.get("pid") or "-"),
        "event": str(event.get("event") or "-"),
        "chip": names.several(_chips(event)) or "-",
        "kind": kind or "-",
        "size": (human if style.width >= WIDE_COLUMNS else short_size)(event.get("size")),
        "id": str(event.get("id") or "-"),
        "rest": rest(event),
    }
    spans: list[Span] = []
    for one in placed:
        text = style.clean(texts[one.column.name])
        spans.append((text, kind_style(kind) if one.column.name == "kind" and loud != "dim" else loud))
    return line(spans, placed, style.width, style)


def rest(event: dict[str, Any]) -> str:
    """The fields of an event without a column: text first, then fields by name.

    >>> rest({"event": "Allocated", "tag": "ttnn.add", "refs": 1, "program": None, "size": 5})
    'ttnn.add  refs 1'
    """
    if event.get("event") == "lost":
        return f"{event.get('count', '?')} events: this reader was too slow for them"
    words = [str(event[name]) for name in ("tag", "text", "name") if event.get(name)]
    skipped = (*_COLUMNS_OF, "tag", "text", "name", *(("device", "devices") if event.get("chip") else ()))
    fields = [f"{name} {value}" for name, value in event.items() if name not in skipped and value is not None]
    return "  ".join(words + fields)


def clock(seconds: Any) -> str:
    """
    >>> clock(1794789886.448134), clock(None)
    ('00:44:46.448', '-')
    """
    try:
        return datetime.fromtimestamp(seconds).strftime("%H:%M:%S.%f")[:-3]
    except (TypeError, ValueError, OverflowError, OSError):
        return "-"


def kind_style(kind: str | None) -> str:
    """The colour of a kind; kernels of all sorts have one."""
    name = "kernel" if kind and kind.endswith("_kernel") else kind or ""
    return name if name in STYLES else ""


def rates(events: list[dict[str, Any]], now: float | None, since: float | None = None) -> list[tuple[str, float]]:
    """Events per second by type, the most frequent first, over the last ten seconds or since the start.

    ``since`` is the start of the stream.
    """
    timed = [event for event in events if isinstance(event.get("time"), (int, float))]
    if not timed:
        return []
    end = max(timed[-1]["time"], now or 0.0)
    first = timed[0]["time"] if len(timed) >= _MANY_EVENTS else min(since or 0.0, end - _LEAST_SECONDS)
    begin = max(end - _RATE_SECONDS, first)
    counts = Counter(event["event"] for event in timed if event["time"] >= begin)
    seconds = max(end - begin, 0.001)
    return [(name, count / seconds) for name, count in counts.most_common()]


def number(rate: float) -> str:
    """
    >>> number(0.04), number(2.5), number(1477.1)
    ('0.0', '2.5', '1,477')
    """
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"
