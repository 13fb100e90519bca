# SPDX-License-Identifier: Apache-2.0
"""`ttmem diff` on pairs of real ttnn programs with one known change each."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.changed_programs import BASE, CHANGES, OPEN, SIZE
from tests.runs import TTMEM, Bench, Ran, ttmem
from ttmem.cli import main
from ttmem.show.diff_text import render
from ttmem.show.text import Style

TILE, BANKS = 2048, 12


class Recorded:
    """Runs variants of the program, and keeps their recordings. All have the same file name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, text: str, board: str = "n150") -> Path:
        place = self.folder / name.replace(" ", "_")
        (place / "src").mkdir(parents=True)
        opening, closing = OPEN[board]
        program = place / "src" / "mlp.py"
        program.write_text(text.replace("OPEN", opening).replace("CLOSE", closing))
        with Bench(place, board) as bench:
            options = ["--stacks", "--quiet", "--record", str(place / "run.ttmem")]
            ran = bench.run_command([bench.python, str(program)], options=options)
        assert ran.code == 0, ran.err
        return place / "run.ttmem"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("diff"))


@pytest.fixture(scope="module")
def base(recorded: Recorded) -> Path:
    return recorded("base", BASE)


def diff(old: Path, new: Path, *options: str) -> tuple[int, str, Any]:
    """Exit code, text without line breaks, and document."""
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["diff", str(old), str(new), "--json", *options])
    document = json.loads(out.getvalue())
    return code, " ".join(render(document, Style()).split()), document


def changes(document: Any) -> dict[str, int]:
    return {pool["pool"]: pool["change"] for pool in document["pools"] if pool["change"]}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change(name: str, base: Path, recorded: Recorded) -> None:
    change = CHANGES[name]
    assert change.old in BASE
    new = recorded(name, BASE.replace(change.old, change.new))
    code, text, document = diff(base, new, "--fail", "dram:0,l1:0")
    assert code == (4 if change.dram > 0 or change.l1 > 0 else 0)
    found = changes(document)
    assert (found.get("dram", 0), found.get("l1_buffers", 0)) == (change.dram, change.l1), text
    for words in change.words:
        assert words in text, text


def test_two_recordings_of_one_program_do_not_differ(base: Path, recorded: Recorded) -> None:
    """Nothing that is shown depends on times, addresses or process ids; neither in recordings nor in documents."""
    again = recorded("again", BASE)
    for by in ("line", "op", "shape", "kind", "program"):
        code, text, document = diff(base, again, "--by", by)
        assert (code, document["same"], document["headline"]) == (0, True, "no difference"), text
    code, text, document = diff(base.with_name("run.json"), again.with_name("run.json"))
    assert (code, document["same"]) == (0, True), text
    code, _, document = diff(base, again, "--at", "end")
    assert (code, document["same"]) == (0, True)


def test_on_a_mesh(recorded: Recorded) -> None:
    """A tensor on two chips counts once, with its bytes on both."""
    old, new = recorded("mesh", BASE, "n300"), recorded("mesh again", BASE, "n300")
    assert diff(old, new)[2]["same"]
    change = CHANGES["one more weight"]
    more = recorded("mesh more", BASE.replace(change.old, change.new), "n300")
    _, text, document = diff(old, more)
    assert changes(document)["dram"] == 2 * SIZE
    assert "appeared (0 → 1)" in text
    (figure,) = (one for one in document["figures"] if one["name"] == "dram")
    assert figure["change"] == -(-SIZE // TILE // BANKS) * BANKS * TILE, "reserved on one chip"


@pytest.fixture
def repository(folder: Path) -> Path:
    """Eight commits of the program, of which the fifth takes more memory."""
    place = folder / "toy"
    place.mkdir()

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Toy", "-c", "user.email=toy@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=place, check=True, capture_output=True)

    git("init")
    opening, closing = OPEN["n150"]
    change = CHANGES["one more weight"]
    for number in range(1, 9):
        text = BASE.replace("OPEN", opening).replace("CLOSE", closing) + f"\n# version {number}\n"
        (place / "mlp.py").write_text(text.replace(change.old, change.new) if number >= 5 else text)
        git("add", "mlp.py")
        git("commit", "-m", f"version {number}")
    return place


def test_the_recipe_for_git_bisect(repository: Path, base: Path) -> None:
    """As docs/diff.md has it."""
    with Bench(repository) as bench:
        command = [*TTMEM, "run", "--quiet", "--stacks", "--record", "new.ttmem", "--", bench.python, "mlp.py"]
        script = repository / "check.sh"
        script.write_text(
            "#!/bin/sh\n"
            f"{' '.join(command)} || exit 125\n"
            f"{sys.executable} -m ttmem diff {base} new.ttmem --fail dram:1% >/dev/null\n"
        )
        found = ""
        for arguments in (["start", "HEAD", "HEAD~7"], ["run", "sh", "check.sh"]):
            done = subprocess.run(
                ["git", "bisect", *arguments], cwd=repository, env=bench.environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            found = done.stdout
    assert "version 5" in found


def failed(*arguments: str) -> Ran:
    return ttmem("diff", *arguments)


def test_bad_input(base: Path, folder: Path) -> None:
    other = folder / "other.json"
    for text in ("{}", "[]", "no json", '{"schema": "ttmem.run/1"}'):
        other.write_text(text)
        ran = failed(str(base), str(other))
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert "ttmem run --json" in ran.err
    assert failed(str(base), str(folder / "none")).err == f"ttmem diff: {folder}/none: No such file or directory\n"
    for limits in ("dram", "dram:much", "sram:1", "l1:-1", "dram:nan%", ""):
        ran = failed(str(base), str(base), "--fail", limits)
        assert (ran.code, "--fail" in ran.err) == (2, True), ran.err
    assert failed(str(base), str(base), "--at", "+1s").code == 2
    assert failed(str(base), str(base), "--at", "phase:none").code == 1
    document = str(base.with_name("run.json"))
    assert failed(document, str(base), "--at", "end").code == 2
    assert failed(document, document, "--fail", "ring:0").code == 5
