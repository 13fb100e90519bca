# SPDX-License-Identifier: Apache-2.0
"""A report that is served: the sections of the report, and parts of the recording in more detail on request."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recorded_stories import STORY, story_file
from ttmem.pages.html_page import Bundle
from ttmem.pages.report_document import report_of
from ttmem.pages.report_series import columns, edges_of
from ttmem.pages.sections import Sections
from ttmem.pages.web_report import RecordedContent
from ttmem.recording.recording_file import Recording
from ttmem.server.http_server import HttpError, Response


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with Recording(str(story_file(tmp_path, STORY))) as found:
        yield found


@pytest.fixture
def content(recording: Recording) -> Iterator[RecordedContent]:
    found = RecordedContent(Bundle("script", "style"), recording, "</script>a run")
    yield found
    found.close()


def get(content: RecordedContent, path: str) -> Response:
    return asyncio.run(content.answer(path, {}))


def body(content: RecordedContent, path: str) -> bytes:
    found = get(content, path).body
    assert isinstance(found, bytes)
    return found


def document(content: RecordedContent) -> Any:
    text = asyncio.run(content.page()).decode()
    (inside,) = re.findall(r'<script type="application/json" id="ttmem-page">(.*?)</script>', text, re.DOTALL)
    return json.loads(inside)


def test_the_page_has_the_report_without_its_sections(content: RecordedContent) -> None:
    page = document(content)
    assert (page["page"], page["served"], page["report"]["title"]) == ("report", True, "</script>a run")
    assert page["report"]["schema"] == "ttmem.report/1"


def test_the_sections_are_those_of_the_report(content: RecordedContent, recording: Recording) -> None:
    made = report_of(recording, made=0.0, title="")
    assert set(document(content)["report"]["sections"]) == set(made.sections) != set()
    for name, payload in made.sections.items():
        assert body(content, f"section/{name}") == payload
    assert get(content, "section/allocations").content_type == "application/octet-stream"


def test_script_and_style(content: RecordedContent) -> None:
    assert (body(content, "app.js"), body(content, "app.css")) == (b"script", b"style")


def test_a_part_of_the_timeline_in_more_detail(content: RecordedContent, recording: Recording) -> None:
    report = report_of(recording, made=0.0, title="")
    whole = report.document["length_ns"]
    expected = Sections()
    expected.add_columns("x", columns(report.lines[0], edges_of(whole // 4, whole // 2, 100)))
    found = body(content, f"section/range/0/{whole // 4}/{whole // 2}/100")
    assert found == expected.payloads["x"]
    described = report.document["sections"][report.document["groups"][0]["timeline"]]["columns"]
    assert described is not None
    assert [one["name"] for one in expected.index["x"]["columns"] or []] == [one["name"] for one in described], (
        "the page takes names and types from the timeline"
    )
    assert len(zlib.decompress(found)) == 8 * 100 * len(described)


def test_a_range_is_exact(content: RecordedContent, recording: Recording) -> None:
    """Together, two halves have the highest value of the whole."""
    lines = report_of(recording, made=0.0, title="").lines[0]
    whole = document(content)["report"]["length_ns"]
    halves = [edges_of(0, whole // 2, 10), edges_of(whole // 2, whole, 10)]
    high = [int(np.max(lines[0].buckets(edges)[1])) for edges in halves]
    assert max(high) == int(np.max(lines[0].buckets(edges_of(0, whole, 4096))[1])) > 0


def test_the_cores_at_any_moment(content: RecordedContent) -> None:
    owners = []
    for second in (2, 3):  # an L1 buffer was made at 2.5 s
        found = json.loads(zlib.decompress(body(content, f"section/moment/0/{second}000000000")))
        assert found["cores"]["grid"] == {"x": 8, "y": 8}
        owners.append(json.dumps(found).count("ttnn.add"))
    assert owners[0] == 0 < owners[1]


@pytest.mark.parametrize(
    "path",
    ["", "x", "section/", "section/x", "section/../app.js", "section/range/0/5/1/7", "section/range/0/0/9/0",
     "section/range/0/0/9/5000", "section/range/99/0/9/5", "section/range/0/0/9", "section/range/-1/0/9/5",
     "section/range/0/0/99999999999999999999/5", "section/range/a/b/c/d", "section/range/0/0/٣/5", "section/moment/0",
     "section/moment/99/0", "section/moment/0/9999999999999999", "api/snapshot", "section/moment/0/1/2"],
)  # fmt: skip
def test_other_paths_do_not_exist(content: RecordedContent, path: str) -> None:
    with pytest.raises(HttpError) as refused:
        get(content, path)
    assert refused.value.status == 404
