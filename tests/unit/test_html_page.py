# SPDX-License-Identifier: Apache-2.0
"""The file around a page: nothing in its data ends an element, and the policy names exactly its script and style."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from ttmem.model.printable import printable
from ttmem.pages import html_page
from ttmem.pages.html_page import Bundle, BundleMissing, load_bundle, page
from ttmem.recording.output_files import PAGE

EVIL = "</script><script>alert(1)</script><!-- \u2028 \x00 \"'&"


class Parsed(HTMLParser):
    """The elements of a page with their texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attrs, text = self.elements[-1]
            self.elements[-1] = tag, attrs, text + data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, text) for name, attrs, text in self.elements if name == tag]


def test_data_is_read_back_as_it_is() -> None:
    bundle = Bundle('const a = "</script>"; run(a);', "b{content:'</style>'}")
    text = "".join(page(EVIL, {"page": "report", "op": EVIL}, {"a/b": b"\x00\xff"}, bundle))
    assert PAGE.begins.match(text.encode())
    parsed = Parsed(text)
    data, section, script = parsed.of("script")
    assert data[0] == {"type": "application/json", "id": "ttmem-page"}
    assert json.loads(data[1]) == {"page": "report", "op": EVIL}
    assert section[0] == {"type": "text/plain", "data-section": "a/b"}
    assert base64.b64decode(section[1]) == b"\x00\xff"
    assert script[1].rstrip("\n") == 'const a = "<\\/script>"; run(a);'
    assert parsed.of("title")[0][1].strip() == printable(EVIL)


def test_the_policy_allows_this_script_and_style_and_nothing_else() -> None:
    bundle = Bundle("run()", "p{}")
    parsed = Parsed("".join(page("t", {}, {}, bundle)))
    policy = next(attrs["content"] for attrs, _ in parsed.of("meta") if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    texts = [parsed.of("script")[-1][1], parsed.of("style")[0][1]]
    assert hashes == [base64.b64encode(hashlib.sha256(text.rstrip("\n").encode()).digest()).decode() for text in texts]
    assert "unsafe" not in policy
    assert "http:" not in policy


def test_a_missing_bundle_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "_BUNDLE", "no-such-folder")
    with pytest.raises(BundleMissing, match=r"built without npm.*install Node\.js with npm"):
        load_bundle()
