# SPDX-License-Identifier: Apache-2.0
"""The frame of a view: the line of tabs above it, the line of keys below it, and the help page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time, source_state
from ttmem.documents.recorded_moments import offset_text
from ttmem.show.text import Style, cells, wrap
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.rows import Characters, Row, Size, Span, View, fitted, width_of
from ttmem.show.top.playback import KEYS as PLAYER

if TYPE_CHECKING:
    from ttmem.model.schema import Snapshot
    from ttmem.show.top.playback import Playback

COMMON = (
    ("1 to 6", "choose a view; or click its name"),
    ("up, down, j, k", "choose a chip or a row; or click, or turn the wheel"),
    ("tab, shift+tab", "the next chip, the one before, in every view"),
    ("+ -", "refresh more often, less often"),
    ("space", "pause, or continue"),
    ("d", "show only some chips: numbers, PCI addresses or ids"),
    ("t", "theme: dark, light, high-contrast, mono"),
    ("h, ?", "this help"),
    ("q, Ctrl-C", "quit; what you chose is remembered"),
)
CHIPS_ASKED = "Chips (0,1 or 01:00.0 or an id; nothing for all)"
MOMENT_ASKED = "Moment (+2.3s, -1s, peak:l1, phase:NAME, failure, end)"
_NOT_RECORDED = ("space", "+ -")  # mean something else for a recording
_COMMON_SHOWN_ALWAYS = 4  # the others are in the last line
_KEY_COLUMNS = 18  # of a key in the help
_ROOMY_COLUMNS = 100  # from this width on, the tabs have more space
_SLOW_SECONDS = 1.5  # after three intervals and this time, a snapshot is shown as old


def tabs(views: Sequence[View], current: int, width: int) -> Row:
    """The names of the views, one span for each."""
    apart = "  " if width >= _ROOMY_COLUMNS else " "
    texts = [f"{apart[1:]}{number} {view.name} " for number, view in enumerate(views, 1)]
    return [(text, "title" if number == current else "head") for number, text in enumerate(texts)]


def tab_at(x: int, views: Sequence[View], current: int, width: int) -> int | None:
    """The view whose name is at a column."""
    for number, (text, _) in enumerate(tabs(views, current, width)):
        if x < cells(text):
            return number if x >= 0 else None
        x -= cells(text)
    return None


def header(model: Model, views: Sequence[View], current: int, width: int, clock: float) -> Row:
    """Tabs, and on the right as much of the state as fits, the most important part at the edge."""
    left = tabs(views, current, width)
    room = width - width_of(left)
    right: Row = []
    for word in _state(model, clock):
        if cells(word[0]) + 2 > room:
            break
        room -= cells(word[0]) + 2
        right = [("  ", ""), word, *right]
    return fitted([*left, (" " * max(0, room), ""), *right], width)


def age(model: Model, clock: float) -> str | None:
    """The age of the snapshot, if it is older than expected; ``clock`` is monotonic."""
    if model.snapshot is None:
        return None
    old = clock - model.now
    if old <= 3 * model.interval + _SLOW_SECONDS and not model.paused:
        return None
    return f"{old:.0f} s" if old < 100 else f"{old / 60:.0f} min" if old < 6000 else f"{old / 3600:.0f} h"


def _state(model: Model, clock: float) -> list[Span]:
    snapshot = model.snapshot
    if snapshot is None:
        return [("looking..." if model.playback is None else "reading...", "dim")]
    if model.playback is not None:
        return _recorded_state(model, model.playback, snapshot)
    old = age(model, clock)
    out: list[Span] = []
    if model.paused:
        out.append((f"PAUSED {old}", "warn"))
    elif old is not None:
        out.append((f"{old} OLD", "bad"))
    out.append((local_time(snapshot["time"]).partition(" ")[2], "bold"))
    out.append((f"{model.interval:g} s", "dim"))
    if snapshot["server"] is None:
        out.append(("no server", "warn"))
    if model.wanted:
        out.append((f"only {','.join(model.wanted)}", "warn"))
    out.append((str(snapshot["host"]), ""))
    if snapshot["server"] is not None:
        out.append((f"server pid {snapshot['server']['pid']}, {snapshot['server']['events']:,} events", "dim"))
    missing = [source_state(one) for one in model.sources if one["state"] != "ok"]
    if missing:
        out.append((", ".join(missing), "dim"))
    return out


def _recorded_state(model: Model, player: Playback, snapshot: Snapshot) -> list[Span]:
    """That it is a recording, its moment, and what is missing in it."""
    out: list[Span] = [("RECORDING", "warn")]
    out.append((offset_text(player.position.time, player.begin), "bold"))
    if player.problems:
        out.append(("INCOMPLETE", "bad"))
    if model.wanted:
        out.append((f"only {','.join(model.wanted)}", "warn"))
    out.append((str(snapshot["host"]), ""))
    begin, end = (local_time(time, 3) for time in (player.begin, player.end))
    same = begin.partition(" ")[0] == end.partition(" ")[0]
    out.append((f"{begin} to {end.partition(' ')[2] if same else end}", "dim"))
    return out


def footer(model: Model, width: int, signs: Characters, typed: str | None = None) -> Row:
    """The message and the keys; instead of both, the line that is being typed."""
    if typed is not None:
        return fitted([(typed[max(0, len(typed) - width + 1) :], "key"), ("_", "bold")], width)
    keys: Row = []
    play = "pause" if model.playback is None else "stop" if model.playback.playing else "play"
    for key, what in (("space", play), ("d", "chips"), ("t", "theme"), ("h", "help"), ("q", "quit")):
        keys += [("  ", ""), (key, "key"), (f" {what}", "dim")]
    message: Span = ("", "")
    if model.message:
        message = (model.message, "warn")
    elif model.trouble:
        message = (model.trouble, "bad" if model.snapshot and model.snapshot["server"] else "warn")
    elif model.playback is not None and model.playback.problems:
        more = f" (+{len(model.playback.problems) - 1})" if len(model.playback.problems) > 1 else ""
        message = (f"incomplete: {model.playback.problems[0]}{more}", "warn")
    if message[0]:
        while keys and width_of(keys) + cells(message[0]) > width and len(keys) > 6:
            keys = keys[3:]
    room = width - width_of(keys)
    left = Style(ascii=signs.ascii).cut(message[0], max(0, room))
    return fitted([(left, message[1]), (" " * max(0, room - cells(left)), ""), *keys], width)


def help_rows(view: View, size: Size, *, recorded: bool = False) -> list[Row]:
    """All keys: those of the view, those of a recording, then those that mean the same everywhere.

    On a low screen, the keys that the last line names are left out.
    """
    own = [row for key, what in view.keys for row in _key(key, what, size.width)] or [[("  none of its own", "dim")]]
    title: Row = [(f"Keys of {view.name}", "title"), ("  any key closes this", "dim")]
    rows: list[Row] = [title, *own, []]
    if recorded:
        player = [row for key, what in PLAYER for row in _key(key, what, size.width)]
        rows = [*rows, [("Keys of the recording", "title")], *player, []]
        if len(rows) > size.height:
            rows = [row for row in rows if row]
    often = [item for item in COMMON if not recorded or item[0] not in _NOT_RECORDED]
    for common in (often, often[:_COMMON_SHOWN_ALWAYS]):
        others = [row for key, what in common for row in _key(key, what, size.width)]
        everything: list[Row] = [*rows, [("Keys everywhere", "title")], *others]
        if len(everything) <= size.height:
            break
    return [fitted(row, size.width) for row in everything[: size.height]]


def _key(key: str, what: str, width: int) -> list[Row]:
    """A key and its effect, in as many rows as needed."""
    first, *others = wrap(what, Style(max(8, width - _KEY_COLUMNS)))
    rest: list[Row] = [[(" " * _KEY_COLUMNS, ""), (text, "")] for text in others]
    return [[(f"  {key:<{_KEY_COLUMNS - 2}}", "key"), (first, "")], *rest]
