# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows of a recording and of a phase, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import ttmem
from tests.browser import Tab
from tests.page_samples import MARKUP, Samples, samples_of
from ttmem.model.units import human

# Jupyter puts the HTML of a result into a page with other content.
_NOTEBOOK = '<!doctype html><meta charset="utf-8"><body><div id="ttmem-app"><h1>Notebook</h1>{}</div></body>'


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return samples_of(tmp_path_factory)


def shown(tab: Tab, html: str, folder: Path) -> None:
    path = folder / "notebook.html"
    path.write_text(_NOTEBOOK.format(html), encoding="utf-8")
    tab.allowed += ("about:srcdoc",)
    tab.open(path)


def test_the_summary_of_a_recording(tab: Tab, samples: Samples, tmp_path: Path) -> None:
    """Its peaks are those of the report. It needs no script, and stays small."""
    with ttmem.load(samples.recording("decoder")) as recording:
        html = recording._repr_html_()
        page = recording.report()
    assert "<script" not in html
    assert len(html) < 50_000
    shown(tab, html, tmp_path)
    text = tab.page.inner_text("body")
    assert "n150 chip 0" in text
    assert tab.page.locator("svg polygon").count() >= 3
    path = tmp_path / "report.html"
    page.save(path)
    tab.open(path)
    for pool in tab.data["report"]["groups"][0]["pools"]:
        assert pool["pool"] == "system" or human(pool["peak"]) in text


def test_a_mesh_is_shown_once(tab: Tab, samples: Samples, tmp_path: Path) -> None:
    with ttmem.load(samples.recording("galaxy")) as recording:
        shown(tab, recording._repr_html_(), tmp_path)
    assert "32 chips with the same buffers" in tab.page.inner_text("body")


@pytest.mark.parametrize("name", ["empty", "truncated", "without_records", "evil", "failure"])
def test_the_summary_of_an_odd_recording(name: str, tab: Tab, samples: Samples, tmp_path: Path) -> None:
    with ttmem.load(samples.recording(name)) as recording:
        shown(tab, recording._repr_html_(), tmp_path)
    text = tab.page.inner_text("body")
    expected = {"truncated": "was not closed", "without_records": "was not closed", "failure": "failed allocations"}
    assert expected.get(name, "") in text
    assert ("No chip was used" in text) == (name == "empty")
    assert tab.page.evaluate("window.hacked") is None


def test_the_report_in_a_frame(tab: Tab, samples: Samples, tmp_path: Path) -> None:
    """The page works without an origin: nothing stored, no address of its own, no way to the notebook."""
    with ttmem.load(samples.recording("decoder")) as recording:
        shown(tab, recording.report()._repr_html_(), tmp_path)
    frame = tab.page.frame_locator("iframe")
    frame.locator("[aria-label=Pool] button").nth(1).click()
    frame.get_by_role("button", name="End", exact=True).click()
    frame.get_by_role("button", name="Light or dark").click()
    frame.locator("#timeline .uplot").first.wait_for()
    assert frame.locator("#overview").inner_text().startswith("Leaks")


def test_a_phase_is_a_table(tab: Tab, tmp_path: Path) -> None:
    client = ttmem.AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
    with ttmem.phase(MARKUP) as phase:
        client.report_allocation(device_id=0, size=3 << 20, buffer_type="dram", buffer_id=0x1000)
        client.report_deallocation(device_id=0, buffer_id=0x1000)
        client.report_allocation(device_id=0, size=1 << 20, buffer_type="dram", buffer_id=0x2000)
    client.close(0)
    shown(tab, phase._repr_html_(), tmp_path)
    text = tab.page.inner_text("body")
    assert MARKUP in text
    assert "0 B\t3.0 MiB\t1.0 MiB\t+1.0 MiB" in text
    assert tab.page.evaluate("window.hacked") is None


def test_a_phase_without_a_meter_says_so() -> None:
    assert "nothing in this process measured memory" in ttmem.phase("load")._repr_html_()
