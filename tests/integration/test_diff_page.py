# SPDX-License-Identifier: Apache-2.0
"""The page of `ttmem diff --html` in a real browser: real ttnn with a changed model, and runs that do not differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser import Tab, faint_texts, table
from tests.page_samples import Samples, quiet, samples_of
from tests.runs import ttmem

Tabs = Callable[..., Tab]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return samples_of(tmp_path_factory)


def opened(tab: Tab, samples: Samples, old: str, new: str) -> dict[str, Any]:
    tab.open(samples.diff(old, new))
    tab.wait_for("document.querySelectorAll('.diff-timeline .uplot').length > 0")
    found: dict[str, Any] = tab.data["diff"]
    return found


def test_a_changed_model(tab: Tab, samples: Samples) -> None:
    """Headline, figures and rows are those of `ttmem diff`; the flame graph has the same change."""
    page = opened(tab, samples, "decoder", "changed")
    files = str(samples.recording("decoder")), str(samples.recording("changed"))
    diff = json.loads(quiet("diff", *files, "--json"))
    assert page["diff"] == diff
    text = " ".join(tab.page.inner_text("body").split())
    assert diff["headline"][1:] in text
    shown = table(tab.page.get_by_role("table", name="Figures of the whole runs"))
    assert len(shown) == len(diff["figures"])
    assert [row["Change"] == "same" for row in shown] == [figure["change"] == 0 for figure in diff["figures"]]
    dram = next(pool for pool in diff["pools"] if pool["pool"] == "dram")
    assert dram["change"] == 2 * 256 * 1024 * 2  # a layer more: two weights of bfloat16
    flame = tab.page.get_by_role("tree")
    assert "+1 MiB" in (flame.get_by_role("treeitem").get_attribute("aria-label") or "")
    rows = tab.page.get_by_role("table", name="Changes of DRAM")
    assert len(table(rows)) == len(dram["rows"])


def test_moved_lines_are_the_same_call_site(tab: Tab, samples: Samples) -> None:
    """Each call site of both recordings is one of the page, and the sums of both are exact."""
    page = opened(tab, samples, "decoder", "changed")
    common = set(page["old"]["sites"]) & set(page["new"]["sites"])
    assert len(common) >= 8  # operations of the layers, which are in both
    assert max(page["old"]["sites"] + page["new"]["sites"]) < len(page["sites"])
    for pool in page["diff"]["pools"]:
        assert all(page["rows"][pool["pool"]]), "every row has call sites"


def test_a_chosen_row_and_a_chosen_moment(tab: Tab, samples: Samples) -> None:
    """A row filters the flame graph and gets a panel of its own; a key on the timeline changes the table."""
    opened(tab, samples, "decoder", "changed")
    panels = tab.page.locator(".diff-timeline .panel-row")
    before = panels.count()
    row = tab.page.get_by_role("table", name="Changes of DRAM").locator("tbody tr").first
    row.focus()
    tab.page.keyboard.press("Enter")
    tab.wait_for("(count) => document.querySelectorAll('.diff-timeline .panel-row').length === count + 1", before)
    tab.page.locator("button.filter").click()
    tab.wait_for("(count) => document.querySelectorAll('.diff-timeline .panel-row').length === count", before)
    sites = tab.page.get_by_role("table", name="Call sites of both runs")
    at_peak = table(sites)
    timeline = tab.page.locator(".timeline-panels")
    timeline.focus()
    tab.page.keyboard.press("Home")
    tab.wait_for("document.querySelector('.moments').innerText.includes('at the chosen moment')")
    assert table(sites) != at_peak
    tab.page.get_by_role("button", name="Back to").click()
    assert table(sites) == at_peak


def test_the_same_recording_twice(tab: Tab, samples: Samples) -> None:
    opened(tab, samples, "decoder", "decoder")
    assert "No difference" in tab.page.inner_text("body")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_width_and_contrast(theme: str, tabs: Tabs, samples: Samples) -> None:
    tab = tabs(theme=theme)
    opened(tab, samples, "decoder", "changed")
    for width in (1280, 1920, 2560):
        tab.page.set_viewport_size({"width": width, "height": 1000})
        tab.check_width()
    assert faint_texts(tab.page) == []


def test_markup_is_text(tab: Tab, samples: Samples) -> None:
    opened(tab, samples, "story", "evil")
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("img").count() == 0


def test_documents_of_runs_have_no_page(samples: Samples, tmp_path: Any) -> None:
    document = tmp_path / "run.json"
    document.write_text('{"schema": "ttmem.run/1"}')
    ran = ttmem("diff", str(document), str(samples.recording("story")), "--html", str(tmp_path / "page.html"))
    assert ran.code == 2
    assert "is no recording" in ran.err
    assert not (tmp_path / "page.html").exists()
