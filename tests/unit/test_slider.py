# SPDX-License-Identifier: Apache-2.0
"""The time line of a recording: its marks, its moment, and where a click leads."""

from __future__ import annotations

import pytest

from tests.unit.test_smi_properties import width_of
from ttmem.documents.recorded_moments import Position, TimeMark
from ttmem.show.top.parts.rows import Characters, text_of
from ttmem.show.top.parts.slider import moment_row, slider_row, time_at
from ttmem.show.top.playback import Playback, RecordedUpdate, ToTime


@pytest.fixture
def player() -> Playback:
    made = Playback("run.ttmem", 100.0, 110.0)
    made.take(
        RecordedUpdate(
            0,
            Position(105.0, "at the peak of all buffers"),
            marks=[TimeMark(102.0, "phase"), TimeMark(108.0, "failure"), TimeMark(102.0, "peak")],
            progress=1.0,
        )
    )
    return made


def test_a_line(player: Playback) -> None:
    assert text_of(slider_row(player, 36, Characters("ascii"))) == " = 1x ====^=====O-----x---- 10.000s "
    assert text_of(slider_row(player, 36, Characters())) == " ■ 1x ━━━━▲━━━━━●─────✖──── 10.000s "


def test_the_sign_of_a_mark_stays_under_the_moment(player: Playback) -> None:
    player.take(RecordedUpdate(0, Position(108.0)))
    row = slider_row(player, 60, Characters())
    assert [text for text, style in row if style == "title"] == ["✖"]


def test_where_it_will_be(player: Playback) -> None:
    player.ask(ToTime(107.0))
    assert text_of(slider_row(player, 36, Characters("ascii"))).count("o") == 1
    for clock in (50.0, 50.1):
        player.look(clock)
        assert "loading" not in text_of(moment_row(player, 100, Characters())), "most are there at once"
    player.look(50.3)
    text = text_of(moment_row(player, 100, Characters()))
    assert "loading +7.000000s..." in text
    assert "at the peak" not in text


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("charts", ["braille", "ascii"])
def test_its_width(player: Playback, width: int, charts: str) -> None:
    for row in (slider_row(player, width, Characters(charts)), moment_row(player, width, Characters(charts))):
        assert width_of(text_of(row)) == width
        assert text_of(row).isascii() or charts != "ascii"
    assert text_of(moment_row(player, width, Characters(charts))).startswith(" +5.000000s of 10.000s  at the")


def test_every_cell_leads_to_its_time(player: Playback) -> None:
    """A click on the sign of a time goes there, within a cell."""
    width = 80
    for time in (100.0, 102.5, 107.0, 110.0):
        player.take(RecordedUpdate(0, Position(time)))
        x = text_of(slider_row(player, width, Characters("ascii"))).index("O")
        found = time_at(player, x, width)
        assert found is not None
        assert abs(found - time) <= 10.0 / player.cells
    assert time_at(player, 0, width) is None
    assert time_at(player, width - 1, width) is None


def test_an_instant() -> None:
    player = Playback("x", 100.0, 100.0)
    assert text_of(slider_row(player, 40, Characters("ascii"))).count("O") == 1
    assert time_at(player, 20, 40) == 100.0
