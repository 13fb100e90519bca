# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests of pages: Chromium without a window, driven by Playwright.

`Tab` fails the test if the page wrote an error or a warning to the console, violated its content security policy, or
asked for anything but itself.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ttmem.pages.html_page import BundleMissing, load_bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request

_SECONDS = 30  # for anything that a page does
_RESIZED_SECONDS = 10
_NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "TTMEM_REQUIRE_BROWSER"  # set by .ci/run: then a missing browser is a failure
_WATCH_POLICY = """
window.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.policyViolations.push(`${event.violatedDirective} ${event.blockedURI} in line ${event.lineNumber}`));
"""
_WAIT = """
async ([argument, milliseconds]) => {
  const check = CHECK;
  const end = performance.now() + milliseconds;
  while (!check(argument)) {
    if (performance.now() > end) return false;
    await new Promise((done) => setTimeout(done, 10));
  }
  return true;
}
"""
# Elements of the page that reach beyond its right edge and are not inside something that scrolls or is hidden.
_CUT = """
() => [...document.querySelectorAll("body *")].filter((element) => {
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.height === 0 || box.right <= document.documentElement.clientWidth + 1) return false;
  for (let outer = element.parentElement; outer && outer !== document.body; outer = outer.parentElement) {
    if (getComputedStyle(outer).overflowX !== "visible") return false;
  }
  return getComputedStyle(element).position !== "fixed";
}).map((element) => `${element.tagName.toLowerCase()}.${element.className}`).slice(0, 10)
"""


def find_chromium() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def need_pages() -> str:
    """The path of Chromium. Skips the test if there is none, or if ttmem was built without the pages."""
    chromium, reason = find_chromium(), ""
    if chromium is None:
        reason = f"needs a browser on PATH: {', '.join(_NAMES)}"
    try:
        load_bundle()
    except BundleMissing as error:
        reason = str(error)
    if reason and os.environ.get(REQUIRED):
        pytest.fail(reason)
    if reason or chromium is None:
        pytest.skip(reason)
    return chromium


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium; the sandbox does not work for root."""
    chromium = need_pages()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, chromium_sandbox=os.geteuid() != 0, args=["--disable-gpu"]
        )
        try:
            yield started
        finally:
            started.close()


class Tab:
    """A page in a tab of its own, with nothing stored from other tabs."""

    def __init__(
        self, browser: Browser, width: int = 1440, height: int = 900, theme: Literal["light", "dark"] = "light"
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, permissions=["clipboard-read"]
        )
        self.context.set_default_timeout(1000 * _SECONDS)
        self.page: Page = self.context.new_page()
        self.page.add_init_script(_WATCH_POLICY)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.allowed: tuple[str, ...] = ("data:", "blob:")
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error.message}"))
        self.page.on("crash", lambda _: self.problems.append("the page crashed"))
        self.context.on("request", self._asked)

    def open(self, address: str | Path, hash: str = "") -> Page:
        """Open a file or a URL, and wait until the page has drawn itself."""
        if isinstance(address, Path):
            address = address.resolve().as_uri()
            self.allowed += (address,)
        else:
            origin = "/".join(address.split("/")[:3])
            self.allowed += (f"{origin}/",)
        self.page.goto(f"{address}#{hash}" if hash else address)
        self.page.wait_for_selector("#ttmem-app > *")
        return self.page

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith(self.allowed):
            self.problems.append(f"asked for {request.url}")

    @property
    def data(self) -> dict[str, Any]:
        """The document that the page shows."""
        found: dict[str, Any] = json.loads(self.page.locator("#ttmem-page").text_content() or "")
        return found

    def check(self) -> None:
        """Fails if something went wrong since the page was opened."""
        violations = self.page.evaluate("window.policyViolations ?? []")
        assert self.problems == []
        assert violations == []

    def leave(self) -> None:
        """Check the page and close it, before the server stops: otherwise its next question would be an error."""
        self.check()
        self.page.goto("about:blank")

    def check_width(self) -> None:
        """Fails if the page scrolls sideways, or if an element is cut at its right edge. Canvases follow later."""
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        self.wait_for(fits, seconds=_RESIZED_SECONDS)
        assert self.page.evaluate(_CUT) == []

    def wait_for(self, condition: str, argument: object = None, seconds: float = _SECONDS) -> None:
        """Wait until an expression, or a function of the argument, is true.

        Playwright's own way needs `eval` in the page, which the policy forbids.
        """
        check = condition if "=>" in condition.split("\n")[0] else f"() => {condition}"
        met = self.page.evaluate(_WAIT.replace("CHECK", check), [argument, 1000 * seconds])
        assert met, f"{condition} was not true within {seconds:g} s"

    def press_until(self, key: str, wanted: Locator, most: int = 200) -> None:
        """Press a key until an element has the focus."""
        for _ in range(most):
            self.page.keyboard.press(key)
            if wanted.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{most} times {key} do not reach {wanted}")

    def close(self) -> None:
        self.context.close()


def table(found: Locator) -> list[dict[str, str]]:
    """The rows of a table by the titles of its columns, as text."""
    titles, rows = found.evaluate(
        """(table) => [[...table.querySelectorAll("thead th")].map((cell) => cell.innerText.trim()),
           [...table.querySelectorAll("tbody tr")].map((row) =>
             [...row.children].map((cell) => cell.innerText.trim()))]"""
    )
    return [dict(zip(titles, row)) for row in rows]


# Texts whose colour is hard to read on what is behind them. Colours are those that the browser has computed.
_FAINT = """
(least) => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [...parts.slice(0, 3).map((value) => value * 255), parts[3] ?? 1]
      : [parts[0], parts[1], parts[2], parts[3] ?? 1];
  };
  const light = ([r, g, b]) => [r, g, b].map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const hidden = !element.checkVisibility() || element.closest("script, style, svg, :disabled");
    if (hidden || !texts.currentNode.data.trim()) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [a, b] = [light(over(parse(style.color), back)), light(back)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < least) {
      const text = texts.currentNode.data.trim().slice(0, 40);
      found.push(`${element.tagName.toLowerCase()}.${element.className} "${text}"`);
    }
  }
  return [...new Set(found)].slice(0, 10);
}
"""


def faint_texts(page: Page, least: float = 3.0) -> list[str]:
    """Texts with less contrast than this, as WCAG computes it."""
    found: list[str] = page.evaluate(_FAINT, least)
    return found
