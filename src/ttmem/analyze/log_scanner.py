# SPDX-License-Identifier: Apache-2.0
"""Finds failed allocations in a log of any length, read piece by piece."""

from __future__ import annotations

import re
from typing import NamedTuple

from ttmem.analyze.failure_messages import LONGEST_CHARACTERS, find
from ttmem.analyze.failure_types import Failure, OutOfMemory

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_OPEN = re.compile(r"\x1b[^\n]{0,300}\Z")  # what may go on in the next piece
KEPT_FAILURES = 1000  # different failures that are kept


class Mention(NamedTuple):
    """A failure in a log: its text, the line it was last seen in, and how often it was."""

    failure: Failure
    text: str
    line: int
    times: int = 1


class LogScan:
    """Feed it the bytes of a log; ``mentions`` are the different failures in the order they were last seen.

    ttnn writes a failure into its log and throws it, and a test runner shows it again: the same text is the same
    failure.

    >>> scan = LogScan()
    >>> scan.feed(b"TT_FATAL: Shrink size 4096 cuts into alloc")
    >>> scan.feed(b"ated block at address 1024\\n")
    >>> scan.end()
    >>> [(mention.text, mention.line) for mention in scan.mentions]
    [('Shrink size 4096 cuts into allocated block at address 1024', 1)]
    """

    def __init__(self) -> None:
        self._rest = ""
        self._line = 1  # of the beginning of the rest
        self._found: dict[Failure, Mention] = {}
        self.dropped = 0  # different failures that were forgotten because there were so many

    @property
    def mentions(self) -> list[Mention]:
        return list(self._found.values())

    def feed(self, piece: bytes) -> None:
        # Only ASCII is of interest, and this never fails nor splits a character.
        text = self._rest + piece.decode("latin-1")
        open_ = _OPEN.search(text, max(0, len(text) - 310))
        tail = text[open_.start() :] if open_ else ""
        text = _plain(text[: len(text) - len(tail)])
        # A message that begins near the end may go on in the next piece.
        self._take(text, max(0, len(text) - LONGEST_CHARACTERS), tail)

    def end(self) -> None:
        """There is no more."""
        text = _plain(self._rest)
        self._take(text, len(text), "")

    def _take(self, text: str, until: int, tail: str) -> None:
        """Everything that begins before a place; the rest is kept."""
        seen = 0
        line = self._line
        for found in find(text):
            if found.start >= until:
                break
            line += text.count("\n", seen, found.start)
            seen = found.start
            self._note(found.failure, found.text, line)
            until = max(until, found.end)
        self._line = line + text.count("\n", seen, until)
        self._rest = text[until:] + tail

    def _note(self, failure: Failure, text: str, line: int) -> None:
        # ttnn logs a message without its backtrace, and throws it with one.
        key = failure._replace(global_circular=False) if isinstance(failure, OutOfMemory) else failure
        before = self._found.pop(key, None)
        known = before.failure if before is not None and failure == key else failure
        self._found[key] = Mention(known, text, line, 1 if before is None else before.times + 1)
        if len(self._found) > KEPT_FAILURES:
            del self._found[next(iter(self._found))]
            self.dropped += 1


def _plain(text: str) -> str:
    """Without what sets colours; a progress bar's carriage return ends no line."""
    return _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", " ")
