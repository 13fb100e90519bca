# SPDX-License-Identifier: Apache-2.0
"""The file of settings: read, written completely, and its errors are harmless."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ttmem.show.top.settings import Settings


def test_what_is_put_is_there_the_next_time(folder: Path) -> None:
    path = folder / "new" / "top.json"
    first = Settings(str(path))
    assert (first.get("theme", "dark"), first.trouble) == ("dark", None)
    first.put({"theme": "light", "view": 3})
    first.put({"view": 4})
    second = Settings(str(path))
    assert (second.get("theme", "dark"), second.get("view", 0), second.trouble) == ("light", 4, None)
    assert os.listdir(path.parent) == ["top.json"]


@pytest.mark.parametrize("value", [None, 1, True, "x", [1], 0.5])
def test_a_value_of_another_kind_is_not_taken(folder: Path, value: object) -> None:
    path = folder / "top.json"
    path.write_text(json.dumps({"name": value}))
    for default in ("dark", 3, False, 1.5):
        found = Settings(str(path)).get("name", default)
        assert found == (value if type(value) is type(default) else default)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", "é\udcff"])
def test_a_broken_file_is_told_of(folder: Path, text: str) -> None:
    path = folder / "top.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    settings = Settings(str(path))
    assert settings.trouble is not None
    assert "is broken" in settings.trouble
    assert settings.get("view", 0) == 0
    settings.put({"view": 2})
    assert Settings(str(path)).get("view", 0) == 2, "what is chosen from now on is kept"


def test_a_file_that_cannot_be_written_is_told_of_once(folder: Path) -> None:
    """A folder in its place: even root cannot write there."""
    (folder / "file").write_text("")
    settings = Settings(str(folder / "file" / "top.json"))
    assert settings.trouble is not None, "nor can it be read"
    settings.trouble = None
    settings.put({"view": 2})
    assert settings.trouble is not None
    assert "what you choose is not remembered" in settings.trouble
    settings.trouble = None
    settings.put({"view": 3})
    assert (settings.trouble, settings.get("view", 0)) == (None, 3)


def test_nothing_is_written_if_nothing_changed(folder: Path) -> None:
    path = folder / "top.json"
    settings = Settings(str(path))
    settings.put({"view": 1})
    path.unlink()
    settings.put({"view": 1})
    assert not path.exists()
