# SPDX-License-Identifier: Apache-2.0
"""`ttmem explain` on logs and recordings, and its page in the documentation, whose commands are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explain_stage import staged
from tests.mock.wheel import ROOT
from tests.runs import Bench, ttmem
from tests.schema_conformance import problems
from tests.support import PATIENCE
from ttmem.model import schema
from ttmem.recording.event_recording import EventRecordingWriter


def test_a_log_and_a_recording(folder: Path) -> None:
    """ttnn's own log has the message, a recording also who was there."""
    path = folder / "run.ttmem"
    with open(path, "wb", buffering=0) as file, staged(folder) as stage:
        stage.journal = EventRecordingWriter(file)
        stage.do("open")
        stage.do("new", kind="L1", per_bank=900_000)
        stage.refused("new", kind="L1", per_bank=600_000)
        verdict = stage.refused("run", name="circular", sizes=[300_000, 300_000])
        stage.journal.finish()
    log = ttmem("explain", str(folder / "ttnn_explain.err"))
    assert log.code == 0
    assert b"circular buffers reach" in log.out
    assert b"held by: not known from a log" in log.out
    assert b"2 failures, 1 not shown" in log.out
    data = json.loads(ttmem("explain", "--json", "--all", str(path)).out)
    assert problems(data, schema.Explanation) == []
    assert data["failures"] == 2
    assert [one["failure"]["type"] for one in data["explained"]] == ["OutOfMemory", "Clash"]
    last = data["explained"][-1]
    assert verdict.wall is not None
    assert last["wall"]["address"] == verdict.wall.address
    assert last["operation"] == "ttnn.generic_op"
    assert last["advice"][0]["text"].startswith("free the buffer at")


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("quiet.log", b"all is well\n\xff\x00" * 1000, 1, b"no failure in"),
        ("empty.log", b"", 1, b"ttmem recognizes out of memory"),
        ("absent.log", None, 1, b"No such file"),
        (".", None, 1, b"is a folder; name a log or a recording"),
        ("newer.ttmem", b"TTMEMREC\x63\0\0\0\0\0\0\0", 1, b"recording of version 99"),
        ("cut.ttmem", b"TTMEMREC\x01\0\0\0\0\0\0\0half", 1, b"4 bytes at its end are not a complete block"),
    ],
)
def test_nothing_to_explain(name: str, content: bytes | None, code: int, words: bytes, folder: Path) -> None:
    if content is not None:
        (folder / name).write_bytes(content)
    done = ttmem("explain", str(folder / name))
    assert done.code == code
    assert words in done.out + done.err.encode()
    assert "Traceback" not in done.err
    assert ttmem("explain", "--json", str(folder / name)).code == code


def test_standard_input(folder: Path) -> None:
    with open(ROOT / "tests/data/explain/pipeline.log", "rb") as log:
        done = ttmem("explain", "--all", "-", stdin=log)
    assert (done.code, done.out.count(b"\n  found          line "), done.err) == (0, 2, "")
    assert done.out.startswith(b"out of memory: 540 KiB of L1 on each of 48 cores; ")
    assert "free per core, but the largest free block has 510 KiB held by" in " ".join(done.out.decode().split())
    piped = f"cat {folder}/x | {sys.executable} -m ttmem explain -"
    (folder / "x").write_bytes(b"TTMEMREC\x01\0\0\0\0\0\0\0")
    refused = subprocess.run(piped, shell=True, capture_output=True, text=True)
    assert (refused.returncode, "cannot be read from a pipe" in refused.stderr) == (1, True)


# -- the page ---------------------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.M | re.S)
SHELL = '#!/bin/sh\nexec {} "$@"\n'


class Page:
    """docs/explain.md: its programs are written to files, and its commands run in a shell in their order."""

    def __init__(self, bench: Bench) -> None:
        self._folder = bench.folder / "study"
        self._folder.mkdir()
        tools = bench.folder / "bin"
        tools.mkdir()
        for name, command in (("python", bench.python), ("ttmem", f"{sys.executable} -m ttmem")):
            (tools / name).write_text(SHELL.format(command))
            (tools / name).chmod(0o755)
        self._environment = {**bench.environment, "PATH": f"{tools}:{os.environ['PATH']}"}

    def check(self, text: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Each command with the lines on the page and its real output."""
        for language, body in BLOCK.findall(text):
            if language:
                name = body.partition("\n")[0].removeprefix("# ")
                (self._folder / name).write_text(body)
            elif body.startswith("$ "):
                for command in body.removeprefix("$ ").split("\n$ "):
                    line, _, shown = command.partition("\n")
                    yield line, shown.splitlines(), self._run(line).splitlines()

    def _run(self, line: str) -> str:
        done = subprocess.run(
            line, shell=True, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
        )  # fmt: skip
        return re.sub(r"\d+\.\d s before the command", "0.1 s before the command", done.stdout)


def same(shown: list[str], printed: list[str]) -> bool:
    """A line of dots stands for any number of others."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(same(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0].rstrip() and same(shown[1:], printed[1:])


def test_the_page_is_what_happens(folder: Path) -> None:
    commands = []
    with Bench(folder) as bench:
        for line, shown, printed in Page(bench).check((ROOT / "docs/explain.md").read_text()):
            assert same(shown, printed), "\n".join([f"$ {line}", *printed])
            commands.append(line.split()[0])
    assert commands.count("ttmem") >= 4
