# SPDX-License-Identifier: Apache-2.0
"""The HTML around the script of a page that is served: with links to script and style, and the data it starts with."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="app.css">
</head>
<body>
<div id="ttmem-app"><noscript>This page needs JavaScript.</noscript></div>
<script type="application/json" id="ttmem-page">{data}</script>
<script src="app.js"></script>
</body>
</html>
"""
_REFUSED = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>ttmem: not allowed</title><link rel="icon" href="data:,"></head>
<body>
<h1>This page is not shown</h1>
<p>{reason}.</p>
<p>If you have just followed a link with a token: <a href="./">continue</a>.</p>
</body>
</html>
"""


def served_page(title: str, data: Any) -> bytes:
    """A page whose script and style are separate files. ``data`` is what it starts with."""
    return _PAGE.format(title=escape(title), data=script_json(data)).encode()


def script_json(data: Any) -> str:
    """JSON that cannot end the script element that contains it, whatever names and paths the data has.

    >>> script_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def refused_page(reason: str) -> bytes:
    """The page for a reader without the token."""
    return _REFUSED.format(reason=escape(reason[:1].upper() + reason[1:])).encode()
