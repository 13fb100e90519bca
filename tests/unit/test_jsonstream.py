# SPDX-License-Identifier: Apache-2.0
"""JSON read in pieces gives the same values as the standard library, wherever the text is cut."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.imports import jsonstream
from ttmem.imports.jsonstream import JsonError, JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


class Dripping(StringIO):
    """Returns a few characters at a time, regardless of the requested number."""

    def __init__(self, text: str, drop: int) -> None:
        super().__init__(text)
        self._drop = drop

    def read(self, size: int | None = -1, /) -> str:
        return super().read(self._drop)


def whole(stream: JsonStream) -> Any:
    begin = stream.opens()
    if begin == "[":
        value: Any = list(stream.entries())
    elif begin == "{":
        value = {name: stream.value() for name in stream.names()}
    else:
        value = stream.value()
    stream.end()
    return value


@given(VALUES, st.integers(1, 9), st.sampled_from([None, 1]))
def test_the_same_values(value: Any, drop: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert whole(JsonStream(Dripping(text, drop))) == value
    stream = JsonStream(Dripping(text, drop))
    stream.skip()
    stream.end()


@given(st.lists(VALUES, min_size=1) | st.dictionaries(st.text(), VALUES, min_size=1), st.integers(1, 9), st.data())
def test_a_file_that_is_cut_off_is_never_taken_for_whole(value: Any, drop: int, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(JsonError):
        whole(JsonStream(Dripping(cut, drop)))


def test_what_is_wrong_is_said_with_its_place() -> None:
    with pytest.raises(JsonError, match="not JSON: Expecting ',' delimiter at character 14"):
        whole(JsonStream(StringIO('["a", {"b": 1 2}, ' + " " * 40 + "3]")))
    with pytest.raises(JsonError, match="a key that is not a string at character 2"):
        whole(JsonStream(StringIO("{1: 2}")))


def test_an_entry_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "MAX_ENTRY_CHARACTERS", 1 << 20)
    monkeypatch.setattr(jsonstream, "CHUNK_CHARACTERS", 1 << 10)
    assert len(whole(JsonStream(StringIO('["' + "x" * 1000 + '"]')))) == 1
    with pytest.raises(JsonError, match="longer than 1 Mi characters"):
        whole(JsonStream(StringIO('["' + "x" * (1 << 22) + '"]')))


def test_memory_is_that_of_an_entry() -> None:
    stream = JsonStream(Dripping(json.dumps(list(range(10_000))), 100))
    for _ in stream.entries():
        assert len(stream._text) <= 200
