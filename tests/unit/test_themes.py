# SPDX-License-Identifier: Apache-2.0
"""Themes: each defines every style, and text is readable."""

from __future__ import annotations

from itertools import combinations

import pytest
from rich.style import Style

from tests.screens import QUIET, contrast
from ttmem.cli import top
from ttmem.show.top.parts.rows import HEAT, STYLES
from ttmem.show.top.themes import THEMES, following, look_of


def test_the_command_knows_all_themes() -> None:
    assert tuple(THEMES) == top._THEMES


@pytest.mark.parametrize("theme", THEMES)
def test_every_style_has_a_look(theme: str) -> None:
    assert set(THEMES[theme]) == set(STYLES)
    for style in STYLES:
        Style.parse(look_of(theme, style))
        Style.parse(look_of(theme, f"{style} select".strip()))


@pytest.mark.parametrize("theme", [name for name in THEMES if name != "mono"])
@pytest.mark.parametrize("style", [name for name in STYLES if name not in QUIET])
def test_text_can_be_read(theme: str, style: str) -> None:
    """WCAG requires 4.5; a high-contrast theme has 7."""
    least = 7.0 if theme == "high-contrast" else 4.5
    if style == "bad" and theme == "high-contrast":
        least = 4.5  # white on red
    assert contrast(Style.parse(look_of(theme, style))) >= least
    if style != "title" and style not in HEAT:  # these are never selected
        chosen = contrast(Style.parse(look_of(theme, f"{style} select".strip())))
        assert chosen >= (4.5 if theme == "high-contrast" else 3.0)


@pytest.mark.parametrize("theme", THEMES)
def test_steps_of_heat_are_told_apart(theme: str) -> None:
    """By the background colour; without colours by weight and lines."""
    looks = [Style.parse(look_of(theme, name)) for name in HEAT]
    grounds = {look if theme == "mono" else look.bgcolor for look in looks}
    assert len(grounds) == len(HEAT)
    assert theme == "mono" or Style.parse(look_of(theme, "")).bgcolor not in grounds


@pytest.mark.parametrize("theme", [name for name in THEMES if name != "mono"])
def test_what_is_empty_of_a_bar_is_fainter_than_what_is_full(theme: str) -> None:
    track = contrast(Style.parse(look_of(theme, "track")))
    for name in ("good", "warn", "bad", "bar", *STYLES[STYLES.index("dram") : STYLES.index("free")]):
        assert contrast(Style.parse(look_of(theme, name))) >= max(3.0, track + 1)


def test_mono_has_no_colours() -> None:
    for style in STYLES:
        look = Style.parse(look_of("mono", style))
        assert {colour.name for colour in (look.color, look.bgcolor) if colour} <= {"default"}


def test_all_themes_follow_each_other() -> None:
    seen = ["dark"]
    while (name := following(seen[-1])) != "dark":
        seen.append(name)
    assert sorted(seen) == sorted(THEMES)


@pytest.mark.parametrize("theme", THEMES)
def test_what_must_be_told_apart_is(theme: str) -> None:
    """Good and bad, selected and not selected differ; with colours also degrees of bad, and the kinds of memory."""
    pairs = [("good", "bad"), ("good", "warn"), ("", "select"), ("", "dim"), ("head", "title"), ("bar", "track")]
    if theme != "mono":
        pairs += combinations(("good", "warn", "bad"), 2)
        pairs += combinations(("dram", "l1", "cb", "kernel"), 2)
    for one, other in pairs:
        assert Style.parse(look_of(theme, one)) != Style.parse(look_of(theme, other)), (one, other)
