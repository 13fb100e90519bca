# SPDX-License-Identifier: Apache-2.0
"""The pages of `ttmem web` in a real browser: every live view, a server that restarts, and a recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.browser import Tab, faint_texts
from tests.integration.test_web import Web
from tests.page_samples import MARKUP, Samples, samples_of
from tests.support import Server
from ttmem import AllocationClient

Tabs = Callable[..., Tab]
VIEWS = ["Overview", "Charts", "Telemetry", "Processes", "Cores", "Allocations", "Events", "Doctor"]
MIB = 1 << 20


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return samples_of(tmp_path_factory)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, chromium: object) -> Iterator[tuple[Server, Web]]:
    """A server to which a client reports two buffers, one with a name full of markup."""
    server = Server(tmp_path_factory.mktemp("web"))
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_allocation(device_id=0, size=300 * MIB, buffer_type="dram", buffer_id=0x1000, tag=MARKUP)
    client.report_allocation(device_id=0, size=2 * MIB, buffer_type="l1", buffer_id=0x2000, tag="ttnn.add")
    web = Web("--socket", server.path)
    yield server, web
    client.close(0)
    assert web.stop() == 0
    server.stop()


def opened(tab: Tab, web: Web) -> None:
    tab.open(f"{web.url}?token={web.token}")
    tab.wait_for("document.querySelector('.live-state')?.classList.contains('good')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view(theme: str, tabs: Tabs, served: tuple[Server, Web]) -> None:
    """By keys: each view shows itself without errors, from 1280 to 2560 pixels, and can be read."""
    tab = tabs(theme=theme)
    opened(tab, served[1])
    for number, name in enumerate(VIEWS, 1):
        tab.page.keyboard.press(str(number))
        tab.page.locator(".live-tabs [aria-current], .live-tabs [aria-selected=true]").filter(has_text=name).wait_for()
        for width in (1280, 2560):
            tab.page.set_viewport_size({"width": width, "height": 900})
            tab.check_width()
        assert faint_texts(tab.page) == [], name
        text = tab.page.inner_text("body")
        assert "undefined" not in text, name
        assert "NaN" not in text, name
    assert all(url.startswith(served[1].url) for url in tab.requests)


def test_numbers_and_markup_of_allocations(tab: Tab, served: tuple[Server, Web]) -> None:
    opened(tab, served[1])
    tab.wait_for("document.body.innerText.includes('300 MiB')")
    tab.page.keyboard.press("6")
    tab.wait_for("(name) => document.body.innerText.includes(name)", MARKUP)
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("img").count() == 0


def test_the_token_is_not_in_the_address(tab: Tab, served: tuple[Server, Web]) -> None:
    opened(tab, served[1])
    assert served[1].token not in tab.page.url


def test_a_recording(tab: Tab, samples: Samples) -> None:
    """`ttmem web FILE` shows the report, with the numbers of the file that `ttmem report` writes."""
    web = Web(str(samples.recording("decoder")))
    try:
        tab.open(f"{web.url}?token={web.token}")
        tab.page.locator("#overview").wait_for()
        live = " ".join(tab.page.locator("#overview .peaks").inner_text().split())
        tab.page.locator("#timeline .uplot").first.wait_for()
        for _ in range(6):
            tab.page.keyboard.press("+")  # details are asked for
        tab.wait_for("location.hash.includes('view=')")
        origin = web.url
        assert all(url.startswith((origin, "data:", "blob:")) for url in tab.requests)
        tab.leave()
    finally:
        web.stop()
    tab.open(samples.report("decoder"))
    written = " ".join(tab.page.locator("#overview .peaks").inner_text().split())
    assert re.sub(r"\s", "", live) == re.sub(r"\s", "", written)


def test_a_server_that_restarts(tab: Tab, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page says that there is no server, and shows the next one without being loaded again."""
    folder = tmp_path_factory.mktemp("restarts")
    server = Server(folder)
    web = Web("--socket", server.path)
    try:
        opened(tab, web)
        server.stop()
        tab.wait_for("!document.querySelector('.live-state').classList.contains('good')")
        server = Server(folder)
        tab.wait_for("document.querySelector('.live-state').classList.contains('good')")
        assert len([url for url in tab.requests if url.startswith(web.url) and "token=" in url]) == 1
        tab.leave()
    finally:
        web.stop()
        server.stop()
