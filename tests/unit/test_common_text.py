# SPDX-License-Identifier: Apache-2.0
"""Text forms that more than one screen uses."""

from __future__ import annotations

import pytest

from ttmem.documents.common_text import short_line


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("/home/me/models/llama/model.py:42 forward", "llama/model.py:42 forward"),
        ("model.py:42 forward", "model.py:42 forward"),
        ("/model.py:42 forward", "/model.py:42 forward"),
        ("<string>:1 <module>", "<string>:1 <module>"),
        ("/home/me/my models/two words.py:42 forward", "my models/two words.py:42 forward"),
        ("/a b/c d/model.py:42 forward", "c d/model.py:42 forward"),
        ("/home/me/a.py:3 b:4 c.py:5 f", "me/a.py:3 b:4 c.py:5 f"),
        ("/home/me/model.py:42 odd/name", "me/model.py:42 odd/name"),
        ("?:3 f", "?:3 f"),
        ("no frame at all", "no frame at all"),
        (None, None),
    ],
)
def test_screens_have_the_end_of_the_path(line: str | None, written: str | None) -> None:
    assert short_line(line) == written
