# SPDX-License-Identifier: Apache-2.0
"""`ttmem report` and `ttmem run --report` from real recordings: numbers, files, and wrong uses."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.page_data import check_report
from tests.recorded_stories import story_file
from tests.runs import Bench, Ran, ttmem
from tests.support import PATIENCE, Server
from ttmem.model.kinds import Kind
from ttmem.pages import html_page
from ttmem.pages.report_document import report_of
from ttmem.pages.residency import resident
from ttmem.recording.recording_file import Recording

PRIVATE = re.compile(r"ttnn_leaks|leak_every_step|site-packages|/tests/programs")


def report_in(page: Path) -> Any:
    """The document of a page."""
    text = page.read_text()
    found = re.search(r'<script type="application/json" id="ttmem-page">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["page"] == "report"
    sections = re.findall(r'<script type="text/plain" data-section="([^"]+)">([^<]+)</script>', text)
    assert {name: len(base64.b64decode(body)) for name, body in sections} == {
        name: one["bytes"] for name, one in data["report"]["sections"].items()
    }
    return data["report"]


@pytest.fixture(autouse=True)
def _bundle() -> None:
    html_page.load_bundle()  # a build without npm has none, and then nothing here works


def test_a_run_of_real_ttnn(folder: Path) -> None:
    """Recorded with stacks and phases: the page has the leak, its line, sizing advice, and the account's numbers."""
    with Bench(folder) as bench:
        options = ["--stacks", "--record", "run.ttmem", "--report", "run.html"]
        ran = bench.run("ttnn_leaks", "--steps", "40", "--phases", options=options, PYTHONPATH=_source())
        assert ran.code == 0, ran.err
        found = report_in(folder / "run.html")
        with Recording(str(folder / "run.ttmem")) as recording:
            read = check_report(recording, report_of(recording, made=0.0, title="x"), moments=8)
        assert read.document["groups"] == found["groups"]
        assert found["verdict"]["status"] == "leaks"
        assert "leak_every_step" in json.dumps([row["stack"] for row in found["leaks"]["growing"]])
        assert found["sizing"] == ran.data["sizing"] != []
        assert {phase["name"] for phase in found["phases"]} == {"step"}
        assert found["title"].endswith("ttnn_leaks.py --steps 40 --phases")
        peaks = {row["kind"]: row["per_chip"] for row in ran.data["peaks"] if "kind" in row}
        assert max(row["peak"] for row in found["groups"][0]["pools"] if row["pool"] == "dram") == peaks["dram"]
        done = ttmem("report", "run.ttmem", "-o", "private.html", "--confidential", cwd=folder)
        assert done.code == 0, done.err
        assert report_in(folder / "private.html")["confidential"]
        assert not PRIVATE.search((folder / "private.html").read_text())


def _source() -> str:
    return str(Path(html_page.__file__).parents[2])


@pytest.mark.parametrize(
    ("board", "program", "chips"),
    [
        ("n150", ("ttnn_cached",), 1),
        ("t3k", ("ttnn_random_meshes", "--steps", "40", "--shape", "2x4", "--operations", "whole"), 8),
    ],
)
def test_programs_and_meshes(folder: Path, board: str, program: tuple[str, ...], chips: int) -> None:
    """Each chip is in one group; resident programs are those of the account."""
    with Bench(folder, board) as bench:
        name, *arguments = program
        ran = bench.run(name, *arguments, options=["--record", "run.ttmem"])
        assert ran.code == 0, ran.err
    with Recording(str(folder / "run.ttmem")) as recording:
        read = check_report(recording, report_of(recording, made=0.0, title="x"), moments=8)
        found, table = recording.lifetimes(), recording.lifetimes().allocations
        assert sum(len(group["chips"]) for group in read.document["groups"]) == chips
        shown = read.document["groups"][0]["shown_chip"]
        mine = resident(found, shown)
        assert mine is not None
        compared = 0
        for time, after, kernels in zip(mine.time.tolist(), mine.time[1:].tolist(), mine.kernels.tolist()):
            if after - time > 1000 and compared < 12:
                account = recording.at(table.start + time * 1e-9 + 5e-7).ledger
                assert account.chips[shown].resident_bytes(Kind.KERNEL) == kernels
                compared += 1
        assert compared


def test_the_demo_over_a_socket(folder: Path) -> None:
    server = Server(folder, "--record", str(folder / "demo.ttmem"))
    demo = [sys.executable, "-m", "ttmem", "demo", "decode", "--once", "--socket", server.path]
    subprocess.run(demo, check=True, capture_output=True, timeout=PATIENCE)
    server.stop()
    with Recording(str(folder / "demo.ttmem")) as recording:
        check_report(recording, report_of(recording, made=0.0, title="x"), moments=8)


@pytest.mark.parametrize("capture", ["n300_report.json"])
def test_an_import(folder: Path, capture: str) -> None:
    """A graph capture has no banks and no launches; its report says so and has its numbers."""
    path = Path(__file__).parents[1] / "data" / "imports" / capture
    assert ttmem("import", str(path), "-o", "import.ttmem", cwd=folder).code == 0
    with Recording(str(folder / "import.ttmem")) as recording:
        read = check_report(recording, report_of(recording, made=0.0, title="x"), moments=8)
    assert read.document["groups"]
    assert any("divided by the number of banks" in note for note in read.document["notes"])


def test_a_run_without_a_device(folder: Path) -> None:
    ran = ttmem("run", "--quiet", "--report", "empty.html", "--", "true", cwd=folder)
    assert ran.code == 0, ran.err
    found = report_in(folder / "empty.html")
    assert found["verdict"]["status"] == "cannot_tell"
    assert found["groups"] == []
    assert [path.name for path in folder.iterdir()] == ["empty.html"]


def refused(done: Ran, code: int, words: str) -> None:
    assert done.code == code, done.err
    assert words in done.err
    assert "Traceback" not in done.err


def test_files(folder: Path) -> None:
    """A page is replaced by a page; what ttmem did not write is kept."""
    story = story_file(folder)
    for _ in range(2):
        done = ttmem("report", story, cwd=folder)
        assert done.code == 0, done.err
        assert done.err == "ttmem: wrote report.html\n"
    assert report_in(folder / "report.html")["title"] == "story.ttmem"
    (folder / "theirs.html").write_text("<!doctype html><p>not of ttmem</p>")
    refused(ttmem("report", story, "-o", "theirs.html", cwd=folder), 1, "ttmem did not write it")
    assert (folder / "theirs.html").read_text() == "<!doctype html><p>not of ttmem</p>"
    done = ttmem("report", story, "-o", "-", "--title", "<b>mine</b>", cwd=folder)
    assert done.code == 0
    (folder / "out.html").write_bytes(done.out)
    assert report_in(folder / "out.html")["title"] == "<b>mine</b>"
    assert b"<title>&lt;b&gt;mine&lt;/b&gt;</title>" in done.out


def test_wrong_uses(folder: Path) -> None:
    story = story_file(folder)
    refused(ttmem("report", "none.ttmem", cwd=folder), 1, "none.ttmem: No such file or directory")
    refused(ttmem("report", __file__, cwd=folder), 1, __file__)
    refused(ttmem("report", story, "-o", "no/folder.html", cwd=folder), 1, "no/folder.html: No such file or directory")
    same = ("run", "--report", "x.html", "--record", "./x.html", "--", "true")
    refused(ttmem(*same, cwd=folder), 2, "--record and --report name the same file")
    assert not (folder / "none.html").exists()
