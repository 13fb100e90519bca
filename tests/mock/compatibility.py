# SPDX-License-Identifier: Apache-2.0
"""Runs workloads with other versions of ttnn under the agent, and writes docs/compatibility.md from what it saw.

`python -m tests.mock.compatibility` runs every version and writes the page anew, for which it downloads all of them.
With versions as arguments it only runs those and prints their rows. A test runs some and compares with what is written.
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
from tests.integration.test_agent_oracle import Oracle
from tests.integration.test_agent_programs import Layout, binaries, captured_layout, elfs, our_layout, programs_of
from tests.mock.program import Program
from tests.mock.wheel import ROOT, VERSION, Wheel, wheel
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

<!-- Made by `python -m tests.mock.compatibility` from runs on mock devices; not to be edited. -->

`ttmem run` works with an unmodified ttnn. What the agent sees depends on the functions that its libtt_metal.so has.
The versions below were run on one mock n150 with Python {python}. A random program said the same and ended the same
without the agent and with it, and its buffers were compared with what ttnn itself says after each of {steps} steps.
Programs were compared with ttnn's captures of common operations, kernels with their ELF files.

- **exact**: equal each time.
- **seen**: it is tracked, and could not be compared: that version's captures do not tell it.
- **none**: it would be seen; these operations make none with that version.
- **-**: not tracked; the reason is below. What is not tracked is unknown, never 0.

| ttnn | {groups} |
|---|{rules}|
"""

TAIL = """
There are wheels for Python 3.10 and 3.12, of 0.65.1 for 3.10 only. In CI run {in_ci}.

What older versions lack, and what the agent does instead: before 0.80 scratchpads are told with fewer arguments.
Before 0.79 some functions of a Buffer are not in the library, so its size, type, layout and device are read in place.
Where they lie is not believed: functions that are there are shown a blank Buffer with one field filled in, and must
see what was written; a device must begin as devices do. If not, nothing is tracked. Before 0.78 the cores with a bank
are asked for one by one.

What these runs do not show: hardware; other boards, or several chips, with any version but {version}, which has tests
of its own; programs before 0.75: that runs on mock devices in slow dispatch only, where ttnn does not build them;
threads that build programs at once, which some older versions do not survive on mock devices; and a program's use of
the kernel ring.

## Before you run anything

`ttmem doctor --wheel [PATH]` says the same of any installed ttnn, from its files alone: kinds first, then hook by
hook. PATH is the folder of ttnn, a libtt_metal.so, or an interpreter; without it, the interpreter of `--python`, or
the one that runs ttmem. `--json` gives it as data (schema "ttmem.wheel/1"), `-v` adds the symbols. Exit code: 0
everything is tracked, 1 not everything, 2 nothing, or there is no such library. Whether the fields that are read in
place lie where they should only shows in a running program.
"""


class Row(NamedTuple):
    """What a version showed: the state of each group of kinds, and the agent's own words."""

    version: str
    states: dict[str, str]
    trouble: str

    @property
    def tracked(self) -> list[str]:
        return [what for what, state in self.states.items() if state != "-"]

    def line(self) -> str:
        return f"| {self.version} | {' | '.join(self.states.values())} |"

    def note(self) -> str:
        return f"- {self.version}: {self.trouble}"


def examine(version: str, folder: Path) -> Row:
    """An AssertionError if the workload was disturbed, or something that is said to be tracked is not exact."""
    if version in NO_FIRMWARE:
        reason = look(str(library(wheel(PYTHON, version)))).kinds[0].reason
        said = f"nothing is tracked: {reason}. It does not run on mock devices, and was only looked at."
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
    """The kinds that the agent saw, and those that ttnn told, too: these were the same in each operation."""
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
    """What programs hold of some kinds; a program that holds nothing of them is none to a capture."""
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
    return head + "\n".join([*(row.line() for row in rows), "", "Why not:", "", *notes, tail])


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
