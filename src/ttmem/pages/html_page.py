# SPDX-License-Identifier: Apache-2.0
"""Writes a page: one HTML file with script, style sheet and data, which needs nothing else and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from typing import Any, Literal, NamedTuple

from ttmem.model.printable import printable
from ttmem.recording.output_files import PAGE_MARK

_BUNDLE = "bundle"


class BundleMissing(Exception):
    """Script and style sheet are not there; the text says what to do."""


class Bundle(NamedTuple):
    script: str
    style: str


def load_bundle(name: Literal["report", "live"] = "report") -> Bundle:
    """The script and the style sheet of a page, installed with ttmem: of pages that are files, or of the live page."""
    # Through "ttmem": an editable install has the sources in src/ and the bundle in site-packages, as the agent.
    folder = resources.files("ttmem") / "pages" / _BUNDLE
    try:
        return Bundle((folder / f"{name}.js").read_text("utf-8"), (folder / f"{name}.css").read_text("utf-8"))
    except (OSError, ValueError):
        raise BundleMissing(
            "the script of the pages is missing: ttmem was built without npm. Install a wheel of ttmem, or install "
            "Node.js with npm and build ttmem again"
        ) from None


def page(title: str, data: Mapping[str, Any], sections: Mapping[str, bytes], bundle: Bundle) -> Iterator[str]:
    """The text of a page in pieces. ``data`` says which page it is, as web/README.md describes it."""
    script, style = _inside("script", bundle.script), _inside("style", bundle.style)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield f'{PAGE_MARK}\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    yield f"<title>{escape(printable(title))}</title>\n<style>{style}</style></head><body>\n"
    yield '<div id="ttmem-app"><noscript>This page shows its data with JavaScript.</noscript></div>\n'
    yield f'<script type="application/json" id="ttmem-page">{json_text(data)}</script>\n'
    for name, payload in sections.items():
        yield f'<script type="text/plain" data-section="{escape(name)}">'
        yield base64.b64encode(payload).decode()
        yield "</script>\n"
    yield f"<script>{script}</script>\n</body></html>\n"


def json_text(data: Any) -> str:
    """JSON that may stand in an element of HTML: nothing in it ends the element or begins a comment.

    >>> json_text({"op": "</script><!--"})
    '{"op":"\\\\u003c/script>\\\\u003c!--"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _inside(element: str, text: str) -> str:
    """The text of an element; an end tag in it would end the element."""
    return re.sub(rf"</(?={element})", r"<\\/", text, flags=re.IGNORECASE)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
