# SPDX-License-Identifier: Apache-2.0
"""Turns message templates from the source of tt-metal into regular expressions."""

from __future__ import annotations

import re

_NUMBER = r"(\d{1,20})"
_RANGE = r"(\[\s*(?:\(x=\d{1,4},y=\d{1,4}\)|\d{1,4}-\d{1,4})\s*-\s*(?:\(x=\d{1,4},y=\d{1,4}\)|\d{1,4}-\d{1,4})\s*\])"
_WORDS = {
    "#": _NUMBER,
    "@": _RANGE,
    "<<": "(?:",
    ">>": ")?",
    "{skip}": r"\d{1,20}",
    "{buffers}": "(circular|dataflow)",
    "{name}": "([A-Z0-9_]{1,32})",
    "{cores}": r"(\S[\s\S]{0,400}?)",
    "{any}": r"[\s\S]{0,400}?",
    "{device}": "(?:MeshDevice|device)",
    "{tried}": r"(?:Tried\s+to\s+allocate|Allocation)",
    "{entry}": r"(?:CB(?:\s+page)?|DFB(?:\s+entry)?)",
}


def pattern(text: str) -> re.Pattern[str]:
    """The pattern of a message; # is a number, @ a range of cores, and text in << >> is optional.

    >>> pattern("needs # B<< of L1>>").match("needs 12\\n B")[1]
    '12'
    """
    pieces = re.split(r"(<<|>>|\{\w+\}|[#@]| +)", text)
    return re.compile("".join(r"\s+" if piece.isspace() else _WORDS.get(piece) or re.escape(piece) for piece in pieces))
