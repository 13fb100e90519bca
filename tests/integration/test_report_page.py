# SPDX-License-Identifier: Apache-2.0
"""The page of `ttmem report` in a real browser, from real data. Every tab must stay without errors and requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Tab, faint_texts
from tests.page_samples import MARKUP, Samples, quiet, samples_of
from tests.support import wait_until
from ttmem.model.units import human

Tabs = Callable[..., Tab]
PARTS = ["overview", "timeline", "flame", "map", "origin", "allocations", "cores", "failures", "leaks", "statistics"]
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return samples_of(tmp_path_factory)


def opened(tab: Tab, path: Path, hash: str = "") -> dict[str, Any]:
    """Open a report, and wait until all of its parts are made. Its document."""
    page = tab.open(path, hash)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # parts are made when they come near the screen
    settle(tab)
    report: dict[str, Any] = tab.data["report"]
    return report


def settle(tab: Tab, part: str = "") -> None:
    """Wait until a part, or every one, shows what was chosen. Parts outside of the screen follow later."""
    tab.wait_for(
        """(part) => !document.querySelector(`${part}.part.waiting, ${part}[aria-busy=true]`)
          && ![...document.querySelectorAll(".empty, .snapped")].some((one) =>
            `${one.title} ${one.textContent}`.includes("Decoding…"))""",
        part,
    )


def choose(tab: Tab, hash: str, part: str = "") -> None:
    """Choose by the address of the page, and wait for a part or for all of them."""
    tab.page.evaluate(
        """async (hash) => {
          location.hash = hash;
          for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame);
        }""",
        hash,
    )
    settle(tab, part)


def copied(tab: Tab, part: str) -> list[dict[str, str]]:
    """The rows of the first table of a part, as its button copies them: sizes are bytes."""
    settle(tab, f"#{part}")
    shown = tab.page.locator(f"#{part}")
    shown.get_by_role("button", name="Copy table").first.click()
    shown.get_by_role("button", name="Copied").first.wait_for()  # before that, the clipboard may have an earlier text
    text = tab.page.evaluate("navigator.clipboard.readText()")
    titles, *rows = (line.split("\t") for line in text.split("\n"))
    return [dict(zip(titles, row)) for row in rows]


def part_texts(tab: Tab) -> dict[str, str]:
    """What a reader, or a screen reader, gets of each part."""
    settle(tab)
    texts: dict[str, str] = tab.page.evaluate(
        """(parts) => Object.fromEntries(parts.map((id) => {
          const part = document.getElementById(id);
          const labels = [...(part?.querySelectorAll("[aria-label]") ?? [])].map((one) => one.ariaLabel);
          return [id, [part?.innerText, ...labels].join("\\n")];
        }))""",
        PARTS,
    )
    return texts


@pytest.mark.parametrize(
    "name", ["decoder", "failure", "galaxy", "demo", "story", "evil", "empty", "truncated", "without_records"]
)  # fmt: skip
def test_a_page_of_every_recording(name: str, tabs: Tabs, samples: Samples) -> None:
    """It shows its verdict and all its parts, reads nothing but itself, and its policy forbids the rest."""
    tab = tabs()
    report = opened(tab, samples.report(name))
    text = tab.page.inner_text("body")
    assert all(" ".join(line.split()) in " ".join(text.split()) for line in report["verdict"]["lines"] if line)
    assert "cannot be shown" not in text
    assert "undefined" not in text
    assert "NaN" not in text
    assert len(tab.requests) == 1
    policy = tab.page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_policy_is_enforced(tab: Tab, samples: Samples) -> None:
    tab.open(samples.report("story"))
    refused = tab.page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          const asked = await fetch("https://example.org/").then(() => "answered", () => "refused");
          return [window.hacked ?? "not run", asked];
        }"""
    )
    assert refused == ["not run", "refused"]
    tab.wait_for("window.policyViolations.length >= 2")
    tab.page.evaluate("window.policyViolations = []")
    assert all("Content Security Policy" in problem or "Refused" in problem for problem in tab.problems)
    tab.problems.clear()


def rows_of_dump(path: Path, at: str, by: str, *options: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Bytes and number of what was live, by pool and key, according to `ttmem dump`."""
    found = json.loads(quiet("dump", "--file", str(path), "--at", at, "--by", by, "--json", "--top", "1000", *options))
    return {
        pool["pool"]: {row[by] or "not known": (row["per_chip"], row["count"]) for row in pool["rows"]}
        for pool in found["pools"]
    }


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("decoder", "peak:l1"),
        ("decoder", "phase:prefill"),
        ("failure", "failure"),
        ("demo", "peak:dram"),
    ],
)
def test_live_bytes_equal_those_of_dump(name: str, at: str, tabs: Tabs, samples: Samples) -> None:
    """By line and operation, in each pool, at named moments: what the page copies is what `ttmem dump` has."""
    tab = tabs()
    report = opened(tab, samples.report(name))
    group, number = next(
        (one, number) for number, one in enumerate(report["groups"]) if any(pool["peak"] for pool in one["pools"])
    )
    where = at
    if at.startswith("peak"):
        pool_name = {"peak:dram": "dram", "peak:l1": "l1_buffers"}[at]
        time = next(pool["peak_ns"] for pool in group["pools"] if pool["pool"] == pool_name)
        where = f"{at}@{group['shown_chip']}"
    elif at == "failure":
        time = next(mark["time_ns"] for mark in report["marks"] if mark["type"] == "failure")
    else:
        ended = [phase["until_ns"] for phase in report["phases"] if phase["name"] == at.removeprefix("phase:")]
        time = ended[-1] - 1
    tab.page.locator("#origin").scroll_into_view_if_needed()
    for by, title in (("line", "Line"), ("op", "Operation")):
        expected = rows_of_dump(samples.recording(name), where, by, "-d", group["shown_chip"])
        for pool in ("dram", "l1_buffers", "programs"):
            choose(tab, f"group={number}&at={time}&pool={pool}&by={by}", "#origin")
            if pool not in expected:
                assert tab.page.locator("#origin tbody tr").count() == 0
                continue
            shown = {row[title]: (int(row["Live"]), int(row["Allocations"])) for row in copied(tab, "origin")}
            live = {key: value for key, value in shown.items() if value[1]}
            assert live == expected[pool], (at, by, pool)


def bytes_of(text: str) -> float:
    number, unit = text.split()
    return float(number) * SIZES[unit]


@pytest.mark.parametrize("name", ["decoder", "galaxy", "demo"])
def test_peaks_equal_the_account(name: str, tabs: Tabs, samples: Samples) -> None:
    """The peaks of the first screen, against `ttmem replay --json` of each chip."""
    tab = tabs()
    report = opened(tab, samples.report(name))
    chips = {
        chip["chip"]: chip
        for chip in json.loads(quiet("replay", str(samples.recording(name)), "--json", "--at", "end"))["chips"]
    }
    assert {chip for group in report["groups"] for chip in group["chips"]} == set(chips)
    cards = tab.page.locator("#overview .peak-group")
    assert cards.count() == len(report["groups"])
    for number, group in enumerate(report["groups"]):
        text = " ".join(cards.nth(number).inner_text().split())
        for pool in group["pools"]:
            if pool["pool"] in ("dram", "l1_buffers"):
                name = "dram" if pool["pool"] == "dram" else "l1"
                account = {chips[chip]["memory"][name]["peak"] for chip in group["chips"]}
                assert account == {pool["peak"]}
                shown = human(pool["peak"])
                assert shown in text or shown.replace(".0 ", " ") in text, text


def test_everything_follows_the_chosen_window(tab: Tab, samples: Samples) -> None:
    """A drag over the timeline changes the flame graph, the map, and every table that depends on time."""
    opened(tab, samples.report("decoder"))
    before = part_texts(tab)
    panels = tab.page.locator(".timeline-panels")
    panels.scroll_into_view_if_needed()
    box = panels.bounding_box()
    assert box is not None
    y = box["y"] + 60
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=4)
    tab.page.mouse.up()
    tab.wait_for("document.querySelector('.snapped').innerText.includes('Window')")
    after = part_texts(tab)
    for part in ("flame", "map", "origin", "allocations"):
        assert before[part] != after[part], f"{part} did not change"
    assert re.search(r"at=\d+-\d+", tab.page.url), "the address has the window, so that it can be sent"
    sums = copied(tab, "origin")
    assert all(int(row["Allocated"]) - int(row["Freed"]) == int(row["Change"]) for row in sums)
    again = tab.page.url.split("#")[1]
    tab.page.reload()
    opened(tab, samples.report("decoder"), again)
    assert copied(tab, "origin") == sums


def test_the_snapped_moment_is_shown(tab: Tab, samples: Samples) -> None:
    """A time between two edges: the page says to which edge it went, and how far that is."""
    report = opened(tab, samples.report("story"))
    time = report["length_ns"] * 17 // 20  # no event is near it
    choose(tab, f"at={time}")
    tab.wait_for("document.querySelector('.snapped').innerText.includes('snapped by')")


def test_with_keys_only(tab: Tab, samples: Samples) -> None:
    """Moments, pools, filter, table rows and the flame graph are reached without a mouse."""
    opened(tab, samples.report("decoder"))
    keyboard, page = tab.page.keyboard, tab.page
    for key in ("ArrowLeft", "ArrowLeft", "Escape", "Shift+ArrowLeft"):
        before = page.evaluate("location.hash")  # it has the moment in nanoseconds
        keyboard.press(key)
        tab.wait_for("(before) => location.hash !== before", before)
    assert re.fullmatch(r"#at=0-\d+", page.evaluate("location.hash"))
    keyboard.press("p")
    tab.wait_for("!location.hash.includes('-')")
    pressed = page.locator("[aria-label=Pool] [aria-pressed=true]")
    pool = pressed.inner_text()
    keyboard.press("o")
    wait_until(lambda: pressed.inner_text() != pool, "another pool", 20)
    settle(tab)
    while page.locator("#origin tbody tr").count() == 0:  # at this peak, not every pool has something
        keyboard.press("o")
        settle(tab)
    keyboard.press("/")
    keyboard.type("matmul")
    tab.wait_for("location.hash.includes('search=matmul')")
    keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    keyboard.press("Backspace")
    tab.wait_for("!location.hash.includes('search')")
    row = page.locator("#origin tbody tr").first
    tab.press_until("Tab", row)
    keyboard.press("Enter")
    tab.wait_for("location.hash.includes('only.line')")
    flame = page.locator("#flame [role=tree]")
    tab.press_until("Shift+Tab", flame)
    for _ in range(2):
        keyboard.press("ArrowDown")
    keyboard.press("Enter")
    assert page.locator("#flame .flame-path button").count() >= 3
    keyboard.press("Escape")
    assert page.locator("#flame .flame-path button").count() == 1
    keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_every_control_has_a_name(tab: Tab, samples: Samples) -> None:
    opened(tab, samples.report("failure"))
    nameless = tab.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [tabindex='0']")].filter((one) =>
          !(one.ariaLabel || one.title || one.innerText?.trim() || one.labels?.length || one.closest("label")))
          .map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["failure", "galaxy", "evil"])
def test_width_and_contrast(name: str, theme: str, tabs: Tabs, samples: Samples) -> None:
    """From 1280 to 2560 pixels nothing is cut and the page does not scroll sideways; all texts can be read."""
    tab = tabs(theme=theme)
    opened(tab, samples.report(name))
    for width in (1280, 1440, 1920, 2560):
        tab.page.set_viewport_size({"width": width, "height": 1000})
        tab.check_width()
    assert faint_texts(tab.page) == []
    ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 128
    assert dark == (theme == "dark")
    tab.page.keyboard.press("d")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert faint_texts(tab.page) == []


def test_markup_is_text(tab: Tab, samples: Samples) -> None:
    """Names of operations, shapes, files and phases that look like HTML are shown as they are."""
    opened(tab, samples.report("evil"), "by=op")
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("img").count() == 0
    assert MARKUP in tab.page.locator("#origin").inner_text()
    assert tab.page.locator("script").count() == tab.page.evaluate(
        "document.querySelectorAll('#ttmem-page, script[data-section], script:not([type])').length"
    )


def test_the_map_has_the_free_blocks_of_the_explanation(tab: Tab, samples: Samples) -> None:
    """Also: what programs take in turn does not make the allocator's free blocks smaller."""
    report = opened(tab, samples.report("failure"))
    failure = report["explained"][-1]["verdict"]["failure"]
    words = tab.page.locator("#map").inner_text()
    assert f"free {human(failure['free'])} in " in words
    assert f" largest {human(failure['largest'])}" in words


def test_a_file_name_that_is_no_text(tab: Tab, samples: Samples, tmp_path: Path) -> None:
    """Bytes that are no UTF-8, and markup: the title and the page show them escaped."""
    recording = tmp_path / "odd\udcff<b>.ttmem"
    recording.write_bytes(samples.recording("story").read_bytes())
    page = tmp_path / "page.html"
    quiet("report", str(recording), "-o", str(page))
    opened(tab, page)
    assert "<b>.ttmem" in tab.page.title()
    assert "<b>.ttmem" in tab.page.locator("h1").inner_text()


def test_a_failed_allocation_is_explained(tab: Tab, samples: Samples) -> None:
    """The page opens at the failure, and has the explanation of `ttmem explain`."""
    report = opened(tab, samples.report("failure"))
    assert report["verdict"]["status"] == "out_of_memory"
    failures = " ".join(tab.page.locator("#failures").inner_text().split())
    assert report["explained"]
    for one in report["explained"]:
        headline = " ".join(one["verdict"]["headline"].split())
        assert headline[:1].upper() + headline[1:] in failures


def test_a_leak_is_listed_with_its_line(tab: Tab, samples: Samples) -> None:
    report = opened(tab, samples.report("decoder"))
    assert report["verdict"]["status"] == "leaks"
    assert "ttnn_decoder.py" in tab.page.locator("#leaks").inner_text()


def test_a_mesh_is_shown_once(tab: Tab, samples: Samples) -> None:
    report = opened(tab, samples.report("galaxy"))
    assert sum(len(group["chips"]) for group in report["groups"]) == 32
    assert len(report["groups"]) <= 2
    assert "32 chips" in tab.page.locator("#overview").inner_text()


@pytest.mark.parametrize("name", ["truncated", "without_records"])
def test_an_incomplete_recording_says_so(name: str, tab: Tab, samples: Samples) -> None:
    """Also if nothing of it can be read but its header: then it is not known whether a chip was used."""
    report = opened(tab, samples.report(name))
    assert not report["losses"]["finished"]
    assert bool(report["groups"]) == (name == "truncated")
    text = tab.page.inner_text("body")
    assert "The recording was not finished" in text
    assert re.search(r"\d+ bytes at its end are not a complete block", text)
    assert "No chip was used" not in text
    assert ("The recording is incomplete." in text) == (name == "without_records")
