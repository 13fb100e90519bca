# SPDX-License-Identifier: Apache-2.0
"""The player of recordings without a recording: what keys ask for, and what it plays."""

from __future__ import annotations

import pytest

from ttmem.documents.recorded_moments import Position
from ttmem.show.top.playback import SPEEDS, Playback, RecordedUpdate, Request, Step, ToTime


@pytest.fixture
def player() -> Playback:
    made = Playback("run.ttmem", 100.0, 110.0)
    made.cells = 11
    return made


def shows(player: Playback, time: float) -> None:
    """The feed carries out everything, and arrives at a time."""
    player.requests()
    assert player.take(RecordedUpdate(player._asked, Position(time)))


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        ("comma", Step("event", -1)),
        ("full_stop", Step("event", 1)),
        ("left_square_bracket", Step("phase", -1)),
        ("right_square_bracket", Step("phase", 1)),
        ("left_curly_bracket", Step("peak", -1)),
        ("right_curly_bracket", Step("peak", 1)),
        ("N", Step("failure", -1)),
        ("n", Step("failure", 1)),
        ("left", ToTime(104.0)),
        ("right_parenthesis", ToTime(106.0)),
        ("home", ToTime(100.0)),
        ("dollar_sign", ToTime(110.0)),
    ],
)
def test_keys(player: Playback, key: str, request_: Request) -> None:
    shows(player, 105.0)
    player.playing = True
    assert player.press(key)
    assert player.requests() == [request_]
    assert player.requests() == []
    assert not player.playing, "who moves wants to look"


def test_other_keys_are_not_its_own(player: Playback) -> None:
    assert not any(player.press(key) for key in ("q", "1", "up", "tab", "d", "enter"))
    assert player.requests() == []


def test_arrows_go_on_from_what_was_asked_for(player: Playback) -> None:
    shows(player, 105.0)
    for _ in range(3):
        player.press("right")
    assert player.requests()[-1] == ToTime(108.0)
    assert (player.loading, player.target, player.position.time) == (True, 108.0, 105.0)
    player.take(RecordedUpdate(player._asked - 1))
    assert player.loading, "the last one is not done yet"
    shows(player, 108.0)
    assert (player.loading, player.target) == (False, 108.0)


def test_it_plays_at_its_speed(player: Playback) -> None:
    shows(player, 102.0)
    assert not player.tick(0.0)
    player.press("space")
    assert not player.tick(50.0), "it starts now"
    assert player.tick(51.5)
    assert player.requests() == [ToTime(103.5)]
    assert not player.tick(52.0), "it waits for the moment"
    shows(player, 103.5)
    player.press("greater_than_sign")
    assert player.speed == 2.0
    assert not player.tick(60.0), "from here on with another speed"
    assert player.tick(61.0)
    assert player.requests() == [ToTime(105.5)]
    shows(player, 105.5)
    player.tick(99.0)
    assert player.requests() == [ToTime(110.0)]
    shows(player, 110.0)
    assert player.playing
    assert not player.tick(99.1)
    assert not player.playing, "the end"
    player.press("space")
    assert player.requests() == [ToTime(100.0)], "from the start again"


def test_speeds_have_limits(player: Playback) -> None:
    for _ in range(20):
        player.press("minus")
    assert player.speed == SPEEDS[0]
    for _ in range(20):
        player.press("plus")
    assert player.speed == SPEEDS[-1]


def test_a_refusal_stops_it(player: Playback) -> None:
    player.playing = True
    assert not player.take(RecordedUpdate(0, refused="there is no later event"))
    assert not player.playing
