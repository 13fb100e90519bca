# SPDX-License-Identifier: Apache-2.0
"""What a confidential report leaves out, in all forms in which it may occur in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded_stories import story_file
from ttmem.pages.confidential import Redactor
from ttmem.recording.allocation_table import Site
from ttmem.recording.recording_file import Recording

STACK = "/home/them/llama/model.py:42 forward_pass\n/home/them/llama/main.py:7 <module>"


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    with Recording(story_file(tmp_path)) as recording:
        recording.facts |= {"host": "box-7", "folder": "/home/them", "command": ["python3.12", "train/run_it", "-x"]}
        return Redactor(recording, [Site("ttnn.add", "[1, 32]", STACK), Site(None, None, None)])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/them/llama/model.py:42 forward_pass", "line 1"),
        ("llama/model.py:42 forward_pass", "line 1"),
        ("at llama/model.py:42 forward_pass (ttnn.add)", "at line 1 (ttnn.add)"),
        ("out of memory at model.py:42 (ttnn.add)", "out of memory at left out (ttnn.add)"),
        ("TT_FATAL @ /project/tt_metal/impl/bank_manager.cpp:514: false", "TT_FATAL @ left out: false"),
        ("reader.cpp of ttnn.add", "left out of ttnn.add"),
        ("on box-7 in /home/them/data", "on left out in left out"),
        ("ran train/run_it", "ran left out"),
        ("ttnn.add", "ttnn.add"),
        ("[1, 1, 32, 64] bfloat16 tile", "[1, 1, 32, 64] bfloat16 tile"),
        ("... 2 frames in ttnn", "... 2 frames in ttnn"),
        ("512 MiB/s, 3/4 of it", "512 MiB/s, 3/4 of it"),
        ("group/0/timeline", "group/0/timeline"),
    ],
)
def test_texts(redactor: Redactor, text: str, shown: str) -> None:
    assert redactor.text(text) == shown


def test_documents(redactor: Redactor) -> None:
    found = redactor.document(
        {
            "command": "python3.12 train/run_it -x",
            "host": None,
            "rows": [
                {"line": "other/file.py:1 later", "stack": ["a/b.py:2 f", "/home/them/llama/model.py:42 forward_pass"]}
            ],
            "bytes": 5,
            "sections": {"group/0/windows": {"bytes": 1}},
        }
    )
    assert found == {
        "command": "left out",
        "host": None,
        "rows": [{"line": "line 3", "stack": ["line 4", "line 1"]}],
        "bytes": 5,
        "sections": {"group/0/windows": {"bytes": 1}},
    }
