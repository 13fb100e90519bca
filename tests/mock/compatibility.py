# SPDX-License-Identifier: Apache-2.0
"""Runs workloads with other versions of ttnn under the agent, and writes docs/compatibility.md from the results.

`python -m tests.mock.compatibility` downloads and runs every version and rewrites the page. With versions as arguments,
it runs only those and prints their rows. A test runs some and compares them with the page.
"""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.agents import Collector
from tests.integration.test_agent_programs import Layout, binaries, captured_layout, elfs, our_layout, programs_of
from tests.mock.program import Program
from tests.mock.wheel import ROOT, VERSION, Wheel, wheel
from tests.oracle import Oracle
from ttmem.doctor.hook_coverage import look
from ttmem.doctor.required_symbols import required_symbols
from ttmem.model.kinds import Kind

PYTHON = "3.10"
PAGE = ROOT / "docs" / "compatibility.md"
IN_CI = ("0.79.0", "0.77.0", "0.75.0", "0.72.0", "0.70.1")
VERSIONS = (
    *(VERSION, "0.80.0", "0.79.0", "0.78.0", "0.77.0", "0.76.0", "0.75.0", "0.74.0", "0.73.1", "0.72.0"),
    *("0.71.2", "0.70.1", "0.69.0", "0.68.0", "0.67.4", "0.66.0", "0.65.1"),
)
NO_FIRMWARE = ("0.66.0", "0.65.1")  # so that they run on hardware only
_KINDS = (Kind.L1, Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
GROUPS = {need.what: kind for need, kind in zip(required_symbols().needs, _KINDS, strict=True)}
STEPS = 60
_ODD = ("unknown_frees", "replaced", "table_full", "blobs_full", "failures")
_STAMP = re.compile(r"^\S+ [\d:.]+ |:\d+\)$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[\d*m")  # ttnn paints its log if $CI is set

HEAD = """\
# Which versions of ttnn

<!-- Written by `python -m tests.mock.compatibility` from runs on mock devices; do not edit. -->

`ttmem run` works with an unmodified ttnn. What the agent can track depends on the functions in its
libtt_metal.so. The versions below were run on one mock n150 with Python {python}. A random program gave
the same output and the same exit code with and without the agent. Its buffers were compared with
ttnn's own report after each of {steps} steps. Programs were compared with ttnn's captures of common
operations, and kernels with their ELF files.

- **exact**: always equal.
- **seen**: tracked, but not compared, because the captures of that version do not contain it.
- **none**: it would be tracked, but these operations do not use it with that version.
- **-**: not tracked; the reason is below. What is not tracked is unknown, never 0.

| ttnn | {groups} |
|---|{rules}|
"""

NOTES = """
Reasons, as reported by the agent:

| ttnn | reason |
|---|---|
"""

TAIL = """
There are wheels for Python 3.10 and 3.12, except for 0.65.1, which has one for 3.10 only. CI runs
{in_ci}.

Older versions lack some functions, so the agent works differently with them:

- Before 0.80, the function that reports scratchpads has fewer arguments.
- Before 0.79, some functions of a Buffer are not in the library, so the agent reads size, type,
  layout and device from the object itself. It checks the positions of these fields first: it
  fills in one field of a blank Buffer and calls a function that must return the value. A device
  must also begin with the expected contents. If a check fails, nothing is tracked.
- Before 0.78, the cores that have a bank are queried one by one.

These runs do not cover:

- hardware;
- other boards or several chips, except with {version}, which has its own tests;
- programs before 0.75: these versions run on mock devices only in slow dispatch, where ttnn does
  not build programs;
- threads that build programs at the same time, because some older versions crash then on mock
  devices;
- a program's use of the kernel ring.

## Check a version without running it

`ttmem doctor --wheel [PATH]` shows the same for any installed ttnn, from its files alone: first
the kinds, then each hook. PATH is the folder of ttnn, a libtt_metal.so, or an interpreter. The
default is the interpreter of `--python`, or the one that runs ttmem. `--json` prints it as data
(schema "ttmem.wheel/1"), and `-v` adds the symbols. Exit code: 0 everything is tracked, 1 not
everything is tracked, 2 nothing is tracked or there is no such library. The positions of fields
that are read from an object can only be checked in a running program.
"""


class Row(NamedTuple):
    """The result for a version: the state of each group of kinds, and the agent's own report."""

    version: str
    states: dict[str, str]
    trouble: str

    @property
    def tracked(self) -> list[str]:
        return [what for what, state in self.states.items() if state != "-"]

    def line(self) -> str:
        return f"| {self.version} | {' | '.join(self.states.values())} |"

    def note(self) -> str:
        return f"| {self.version} | {self.trouble} |"


def examine(version: str, folder: Path) -> Row:
    """Raise AssertionError if the workload was disturbed, or if something that counts as tracked is not exact."""
    if version in NO_FIRMWARE:
        reason = look(str(library(wheel(PYTHON, version)))).kinds[0].reason
        said = f"nothing is tracked: {reason}. It does not run on mock devices; only its files were inspected."
        return Row(version, dict.fromkeys(GROUPS, "-"), said)
    chosen = wheel(PYTHON, version)
    covered, trouble = _buffers(chosen, folder)
    seen, told = _programs(chosen, folder, covered)
    states = {}
    for what, kind in GROUPS.items():
        if what not in covered:
            states[what] = "-"
        elif kind in (Kind.L1, *told):
            states[what] = "exact"
        else:
            states[what] = "seen" if kind in seen else "none"
    return Row(version, states, trouble)


def library(of: Wheel) -> Path:
    return of.package / "build" / "lib" / "libtt_metal.so"


def _buffers(of: Wheel, folder: Path) -> tuple[set[str], str]:
    """The same random program twice; under the agent it is compared step by step."""
    # Older versions cannot build programs in two threads at once.
    arguments = ("--steps", str(STEPS), "--seed", "11", "--threads", "0")
    seed = secrets.randbits(63)
    with Program(of, "ttnn_random", "n150", folder, *arguments, chip_id_seed=seed) as program:
        alone = [*program.records()]
        said = program.errors.read_text()
    with Collector(folder) as collector:
        environment = collector.environment
        with Program(
            of, "ttnn_random", "n150", folder, *arguments, chip_id_seed=seed, environment=environment
        ) as program:
            oracle = Oracle(collector, program)
            watched = []
            for record in program.records():
                assert record["error"] is None
                watched.append(record)
                collector.drain()
                if oracle.agent.ring.field("coverage"):
                    oracle.compare([record] if record["views"] else [])
            oracle.look_closely()
            oracle.nothing_live()
            ring = oracle.agent.ring
            assert [ring.field(name) for name in _ODD] == [0] * len(_ODD)
            coverage, trouble = ring.field("coverage"), ring.text("trouble")
            assert _unstamped(program.errors.read_text()) == _unstamped(said)
    assert watched == alone
    assert {kind for record in alone for kind, _ in record["buffers"]} >= {Kind.DRAM, Kind.L1, Kind.L1_SMALL}
    return {what for what, kind in GROUPS.items() if coverage >> kind & 1}, trouble


def _unstamped(text: str) -> str:
    return _STAMP.sub("", _COLOUR.sub("", text))


def _programs(of: Wheel, folder: Path, covered: set[str]) -> tuple[set[Kind], set[Kind]]:
    """The kinds that the agent saw, and those that ttnn reported, too, which were equal in each operation."""
    folder = folder / "programs"
    folder.mkdir()
    layouts: list[tuple[str, list[Layout], list[Layout]]] = []
    kernels = 0
    with Collector(folder) as collector:
        environment = collector.environment
        with Program(of, "ttnn_capture", "n150", folder, environment=environment) as program:
            for record in program.records():
                collector.drain()
                agent = collector.agents[program.pid]
                assert record["error"] is None
                if record["op"] in ("open", "close") or "kernels" not in covered:
                    assert not programs_of(agent)
                elif record["phase"] == "ran":
                    assert binaries(agent.kernels()) == elfs(record["kernels"]), record["op"]
                    kernels += len(record["kernels"])
                else:
                    ours = [our_layout(program) for program in programs_of(agent).values()]
                    layouts.append((record["op"], ours, [captured_layout(buffers) for buffers in record["programs"]]))
    seen, told = _kinds(ours for _, ours, _ in layouts), _kinds(theirs for _, _, theirs in layouts)
    for op, ours, theirs in layouts:
        assert _only(told, ours) == _only(told, theirs), op
    return seen, {*told, Kind.KERNEL} if kernels else told


def _kinds(layouts: Iterable[list[Layout]]) -> set[Kind]:
    return {kind for of_operation in layouts for layout in of_operation for (_, kind), _ in layout}


def _only(kinds: set[Kind], layouts: list[Layout]) -> Counter[Layout]:
    """The allocations of programs, of some kinds; programs without any are left out, as in a capture."""
    return Counter(left for layout in layouts if (left := tuple(entry for entry in layout if entry[0][1] in kinds)))


def page(rows: list[Row]) -> str:
    head = HEAD.format(
        python=PYTHON,
        steps=STEPS,
        groups=" | ".join(GROUPS),
        rules="|".join("---" for _ in GROUPS),
    )
    notes = [row.note() for row in rows if row.trouble]
    tail = TAIL.format(in_ci=", ".join(IN_CI), version=VERSION)
    return head + "\n".join([*(row.line() for row in rows), *NOTES.rstrip("\n").split("\n"), *notes, tail])


def main(asked: list[str]) -> None:
    rows = []
    for version in asked or VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(examine(version, Path(folder)))
        print(rows[-1].line(), rows[-1].trouble, flush=True)
    if not asked:
        PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
