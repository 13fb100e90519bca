# SPDX-License-Identifier: Apache-2.0
"""The page of `ttmem fit --html` in a real browser, from a search with the real ttnn on mock devices."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser import Tab, faint_texts, table
from tests.mock.wheel import wheel
from tests.runs import TTMEM
from tests.support import PATIENCE
from ttmem.model.units import human

MODEL = """
import sys, ttnn
device = ttnn.open_device(device_id=0)
kept = [
    ttnn.empty([1, 1, 32768, 8192], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
    for _ in range(8 * int(sys.argv[1]))
]
print("<script>alert(1)</script>")
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a search; its JSON is beside it."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "model.py").write_text(MODEL)
    done = subprocess.run(
        [*TTMEM, "fit", "--json", "--board", "n150,p150", "--vary", "batch=1..4", "--html", "fit.html", "--",
         wheel("3.10").python, "model.py", "{batch}"],
        env={**os.environ, "HOME": str(folder)}, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout, done.stderr
    (folder / "fit.json").write_text(done.stdout)
    return folder / "fit.html"


def test_the_page_has_the_numbers_of_the_document(page: Path, tab: Tab) -> None:
    document = json.loads(page.with_name("fit.json").read_text())
    assert {(one["board"], one["largest"], one["next"]) for one in document["borders"]} == {
        ("n150", 2, 3), ("p150", 4, None),
    }  # fmt: skip
    shown = tab.open(page)
    rows = table(shown.get_by_role("table", name="Runs"))
    found = {(row["Machine"], row["Values"]): (row["Verdict"], row["DRAM at the peak"]) for row in rows}
    words = {"fits": "fits", "fails": "does not fit", "unknown": "cannot tell"}
    assert found == {
        (run["board"], f"batch={run['values']['batch']}"): (words[run["verdict"]], _short(run["dram"]["peak"]))
        for run in document["boards"]
    }
    assert shown.locator(".verdict .first").inner_text() == (
        "n150: largest batch 2; 3 does not fit. p150: largest batch 4, the end of the range."
    )


def test_a_run_is_chosen_with_keys_and_its_failure_is_shown(page: Path, tab: Tab) -> None:
    shown = tab.open(page)
    details = shown.get_by_role("region", name="One run")
    assert details.locator("h2").inner_text() == "n150 batch=3"
    assert "out of memory: 512 MiB of DRAM" in details.inner_text()
    row = shown.get_by_role("row").filter(has_text="p150").first
    row.focus()
    shown.keyboard.press("Enter")
    assert details.locator("h2").inner_text() == "p150 batch=1"
    assert "every allocation succeeded" in details.inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_its_window_in_both_themes(page: Path, tabs: Callable[..., Tab], theme: str) -> None:
    tab = tabs(width=1280, theme=theme)
    shown = tab.open(page)
    tab.check_width()
    assert faint_texts(shown) == []
    shown.set_viewport_size({"width": 2560, "height": 1300})
    tab.check_width()


def _short(size: int) -> str:
    text = human(size)
    number, unit = text.split()
    whole = float(number) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit) == size
    return text.replace(".0 ", " ") if whole else text
