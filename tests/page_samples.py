# SPDX-License-Identifier: Apache-2.0
"""Recordings and pages for the tests of pages: each is made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.hostile import HOSTILE
from tests.recorded_stories import STORY, story_file
from tests.runs import Bench
from tests.support import PATIENCE, Server
from ttmem.cli import main
from ttmem.model.events import Allocated, Event, Extra, PhaseBegan, PhaseEnded
from ttmem.model.kinds import Kind
from ttmem.recording.blocks import Block, BlockType, SegmentReader

MARKUP = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>&lt;b&gt;\"'`${1}</script><!--"
EVIL = MARKUP + HOSTILE
EVIL_STORY: list[tuple[float, Event]] = [
    *STORY[:2],
    (1.0, Allocated(0, Kind.DRAM, 0x1000, 4096, 0, 0, Extra(tag=EVIL, shape=EVIL, stack=f"/x/{EVIL}.py:1 {EVIL}"))),
    (2.0, PhaseBegan(1, EVIL)),
    (3.0, Allocated(0, Kind.L1, 0x2000, 8192, 0, 0, Extra(tag=EVIL + "2"))),
    (4.0, PhaseEnded(1)),
]


class Samples:
    """Makes recordings and pages by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._recordings: dict[str, Callable[[Path], object]] = {
            "decoder": lambda path: self._decoder(path, "n150", "--leak", "--layers", "2"),
            "changed": lambda path: self._decoder(path, "n150", "--layers", "3", "--steps", "14"),
            "failure": lambda path: self._decoder(path, "n150", "--steps", "2", "--fill"),
            "galaxy": lambda path: self._decoder(path, "galaxy", "--steps", "2", "--mesh", "4x8"),
            "demo": self._demo,
            "story": lambda path: self._story(path, STORY),
            "evil": lambda path: self._story(path, EVIL_STORY),
            "empty": lambda path: self._story(path, []),
            "truncated": lambda path: self._truncated(path, lambda blocks: blocks[-1]),
            "without_records": lambda path: self._truncated(path, _first_records),
        }

    def recording(self, name: str) -> Path:
        return self._once(self.folder / f"{name}.ttmem", self._recordings[name])

    def report(self, name: str) -> Path:
        """The page of `ttmem report`."""
        path = self.recording(name)
        return self._once(self.folder / f"{name}.html", lambda page: quiet("report", str(path), "-o", str(page)))

    def diff(self, old: str, new: str) -> Path:
        """The page of `ttmem diff --html`."""
        files = str(self.recording(old)), str(self.recording(new))
        return self._once(self.folder / f"{old}-{new}.html", lambda page: quiet("diff", *files, "--html", str(page)))

    def _once(self, path: Path, make: Callable[[Path], object]) -> Path:
        with open(self.folder / f"{path.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = path.with_name(f"unfinished-{path.name}")
                make(unfinished)
                unfinished.rename(path)
        return path

    def _decoder(self, path: Path, board: str, *arguments: str) -> None:
        place = self.folder / f"{path.stem}-bench"
        place.mkdir()
        with Bench(place, board) as bench:
            ran = bench.run("ttnn_decoder", *arguments, options=["--stacks", "--quiet", "--record", str(path)])
        assert ran.code == 0, ran.err

    def _story(self, path: Path, story: list[tuple[float, Event]]) -> None:
        place = self.folder / f"{path.stem}-story"
        place.mkdir()
        os.rename(story_file(place, story), path)

    def _truncated(self, path: Path, last: Callable[[list[Block]], Block]) -> None:
        """The decoder's recording up to the middle of a block."""
        whole = self.recording("decoder").read_bytes()
        block = last(SegmentReader(io.BytesIO(whole)).blocks)
        path.write_bytes(whole[: block.at + block.stored // 2])

    def _demo(self, path: Path) -> None:
        """Simulated devices, recorded by a server."""
        place = self.folder / "demo-server"
        place.mkdir()
        server = Server(place, "--quiet", "--record", str(path))
        environment = {**os.environ, "TTMEM_SOCKET": server.path, "TT_ALLOC_TRACKING_ENABLED": "1"}
        command = [sys.executable, "-m", "ttmem.demo.worker", "decode", "--devices", "n300", "--rounds", "6"]
        steps = "\n" * 200
        subprocess.run(
            command, env=environment, input=steps, text=True, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE
        )
        server.stop()


def _first_records(blocks: list[Block]) -> Block:
    return next(block for block in blocks if block.type == BlockType.RECORDS)


def samples_of(factory: pytest.TempPathFactory) -> Samples:
    """The samples of this test run, for all its workers."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "page-samples"
    folder.mkdir(exist_ok=True)
    return Samples(folder)


def quiet(*arguments: str) -> str:
    """A command that must succeed, in this process; its output."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    assert code == 0, err.getvalue()
    return out.getvalue()
