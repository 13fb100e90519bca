# SPDX-License-Identifier: Apache-2.0
"""How fast Chromium shows a page that is a file, and how much memory its tab uses.

Each load has a new context without any cache. The loads of the page alternate with those of a reference page, because
the load of a shared machine changes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.browser import find_chromium, running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

LOADS = 5
_TIMEOUT_SECONDS = 120
_WIDTH, _HEIGHT = 1440, 900
# The time at which the parts on the first screen are drawn. A part is drawn in the frame after its data is decoded.
_WATCH_FIRST_SCREEN = """
(() => {
  const visible = (element) => {
    const box = element.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  };
  const drawn = () => document.querySelector("#ttmem-app > *")
    && ![...document.querySelectorAll("#ttmem-app .part.waiting")].some(visible)
    && ![...document.querySelectorAll("#ttmem-app .empty")].some(
      (one) => visible(one) && one.textContent.includes("Decoding…"));
  const look = () => {
    if (!drawn()) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => { window.firstScreenDrawn = performance.now(); }));
  };
  requestAnimationFrame(look);
})();
"""
_FIRST_PAINT = """
() => new Promise((found) => new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (entry.name === "first-contentful-paint") found(entry.startTime);
}).observe({ type: "paint", buffered: true }))
"""
_FIRST_SCREEN = """
async () => {
  while (window.firstScreenDrawn === undefined) await new Promise(requestAnimationFrame);
  return window.firstScreenDrawn;
}
"""
# Printing draws all parts, also those far from the screen.
_ALL_PARTS = """
async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const began = performance.now();
  dispatchEvent(new Event("beforeprint"));
  do await frame(); while (document.querySelector(".part.waiting, [aria-busy=true]")
    || [...document.querySelectorAll(".empty, .snapped")].some(
      (one) => `${one.title} ${one.textContent}`.includes("Decoding…")));
  await frame();
  return performance.now() - began;
}
"""


class PageLoad(NamedTuple):
    """Milliseconds since the start of the navigation, and bytes at the end."""

    first_paint: float  # first contentful paint
    first_screen: float | None  # None: not a page of ttmem
    other_parts: float | None  # from the first screen until all parts are drawn
    heap: float  # of JavaScript, after a garbage collection; without decoded sections and pictures
    process: float  # of the tab's process, without mapped files


def why_not() -> str | None:
    """Why pages cannot be loaded; None if they can."""
    if find_chromium() is None:
        return "Chromium is not on PATH"
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed"
    return None


def loads(pages: list[Path], count: int = LOADS) -> list[list[PageLoad]]:
    """Load each page so often, in turn. The first load of a browser is slower, so it is not counted."""
    found: list[list[PageLoad]] = [[] for _ in pages]
    with running_browser() as browser:
        _load(browser, pages[0])
        for _ in range(count):
            for page, results in zip(pages, found):
                results.append(_load(browser, page))
    return found


def _load(browser: Browser, path: Path) -> PageLoad:
    with _new_context(browser) as context:
        page = context.new_page()
        page.add_init_script(_WATCH_FIRST_SCREEN)
        page.goto(path.resolve().as_uri())
        first_paint = float(page.evaluate(_FIRST_PAINT))
        first_screen = other_parts = None
        if page.locator("#ttmem-app").count():
            # The script is ready some milliseconds before the browser shows the frame.
            first_screen = max(first_paint, float(page.evaluate(_FIRST_SCREEN)))
            other_parts = float(page.evaluate(_ALL_PARTS))
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        session.send("HeapProfiler.collectGarbage")
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        return PageLoad(first_paint, first_screen, other_parts, metrics["JSHeapUsedSize"], _process_bytes(browser))


@contextmanager
def _new_context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, offline=True)
    context.set_default_timeout(1000 * _TIMEOUT_SECONDS)
    try:
        yield context
    finally:
        context.close()


def _process_bytes(browser: Browser) -> float:
    """The memory of the tab's process. There is one tab; a spare process of Chromium is smaller."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return max(_resident(process["id"]) for process in processes if process["type"] == "renderer")


def _resident(pid: int) -> float:
    """Bytes in memory that are not pages of files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    kibibytes = {name: text.split()[0] for name, text in (line.split(":", 1) for line in lines) if text.split()}
    return 1024.0 * (int(kibibytes["RssAnon"]) + int(kibibytes["RssShmem"]))
