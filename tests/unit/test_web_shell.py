# SPDX-License-Identifier: Apache-2.0
"""The HTML around a page: names and paths in it are text, whatever they contain."""

from __future__ import annotations

import json
import re

from ttmem.pages.web_shell import refused_page, served_page

HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\x1b[31m\0\u2028&amp;\"'"


def test_hostile_data_stays_data() -> None:
    text = served_page(HOSTILE, {"page": "live", "live": {"host": HOSTILE}}).decode()
    (inside,) = re.findall(r'<script type="application/json" id="ttmem-page">(.*?)</script>', text, re.DOTALL)
    assert json.loads(inside)["live"]["host"] == HOSTILE
    assert text.count("<script") == 2, "the data and the link to the script"
    assert "<img" not in text
    assert "<!--" not in text


def test_a_page_has_relative_links_only() -> None:
    """So that it works behind a proxy that adds a prefix."""
    text = served_page("ttmem", {}).decode()
    assert sorted(re.findall(r'(?:href|src)="([^"]*)"', text)) == ["app.css", "app.js", "data:,"]


def test_a_refusal_is_text() -> None:
    text = refused_page(f"the request is for the host {HOSTILE}").decode()
    assert "<script" not in text
    assert "<img" not in text
    assert "The request is for the host" in text
