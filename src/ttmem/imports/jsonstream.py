# SPDX-License-Identifier: Apache-2.0
"""Reads a JSON file of any size as a stream: the entries of its lists and objects, to any depth.

A detailed report has a line for each page of each buffer and may have many gigabytes. Only one entry is in memory at a
time, so only the size of an entry is limited.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

CHUNK_CHARACTERS = 1 << 20
MAX_ENTRY_CHARACTERS = 256 << 20
_SPACE = " \t\n\r"
_CLOSES = {"[": "]", "{": "}"}
_UNFINISHED = ("", ".", *(f"{letter}{sign}" for letter in "eE" for sign in ("", "+", "-")))  # a number may continue


class JsonError(ValueError):
    """The file is incomplete, or not JSON; the message has the position."""


class JsonStream:
    """Reads a file once, from the beginning.

    >>> from io import StringIO
    >>> stream = JsonStream(StringIO('{"a": [1, {"b": 2}], "c": "d"}'))
    >>> [(key, list(stream.entries()) if stream.opens() == "[" else stream.value()) for key in stream.names()]
    [('a', [1, {'b': 2}]), ('c', 'd')]
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._before = 0  # characters that are no longer in the text

    def opens(self) -> str:
        """The character that the next value begins with; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def names(self) -> Iterator[str]:
        """The keys of an object; read or skip the value of each before the next."""
        for _ in self._inside("{"):
            key = self.value()
            if not isinstance(key, str):
                raise self._wrong("a key that is not a string")
            self._take(":")
            yield key

    def entries(self) -> Iterator[Any]:
        """The values of a list."""
        for _ in self._inside("["):
            yield self.value()

    def skip(self) -> None:
        """Skip a value; a list or object is skipped entry by entry."""
        begin = self.opens()
        if begin == "[":
            for _ in self._inside("["):
                self.value()
        elif begin == "{":
            for _ in self.names():
                self.skip()
        else:
            self.value()

    def value(self) -> Any:
        """The next value, completely."""
        self.opens()
        wanted = CHUNK_CHARACTERS
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # If an entry is cut off by the end of the text, the error is at the end of the text.
                if error.pos < len(self._text) - 16 and not error.msg.startswith("Unterminated"):
                    raise self._wrong(error.msg, error.pos) from None
            except RecursionError:
                raise self._wrong("lists or objects nested too deeply") from None
            else:
                if self._text[end : end + 3] not in _UNFINISHED:
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_ENTRY_CHARACTERS:
                raise JsonError(
                    f"an entry is longer than {MAX_ENTRY_CHARACTERS >> 20} Mi characters, which is the limit"
                )
            if not self._more(wanted):
                try:
                    value, self._at = self._decode(self._text, self._at)
                except json.JSONDecodeError:
                    raise self._cut() from None
                return value
            wanted *= 2

    def end(self) -> None:
        """Check that nothing follows."""
        if self.opens():
            raise self._wrong("more after the end")

    def _inside(self, begin: str) -> Iterator[None]:
        """Yields once for each entry; the caller must read the entry before the next."""
        self._take(begin)
        close = _CLOSES[begin]
        if self.opens() != close:
            yield
            while self.opens() == ",":
                self._at += 1
                yield
        self._take(close)

    def _take(self, wanted: str) -> None:
        found = self.opens()
        if not found:
            raise self._cut()
        if found != wanted:
            raise self._wrong(f"{found!r} where {wanted!r} is expected")
        self._at += 1

    def _more(self, wanted: int = CHUNK_CHARACTERS) -> bool:
        try:
            new = self._file.read(wanted)
        except UnicodeDecodeError as error:
            raise JsonError(f"not text in UTF-8: {error.reason}") from None
        self._before += self._at
        self._text = self._text[self._at :] + new
        self._at = 0
        return bool(new)

    def _cut(self) -> JsonError:
        return JsonError(f"the file is cut off: it ends inside a value, at character {self._before + len(self._text)}")

    def _wrong(self, what: str, place: int | None = None) -> JsonError:
        return JsonError(f"not JSON: {what} at character {self._before + (self._at if place is None else place)}")
