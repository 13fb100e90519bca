# SPDX-License-Identifier: Apache-2.0
"""Documents have exactly the keys and types of model/schema.py, without a cost at run time."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict, get_args, get_type_hints

import pytest

from tests import machines, snapshots
from tests.schema_conformance import paths, problems
from tests.unit.test_layers import MODULES
from tests.worlds import World
from ttmem.analyze.failure_types import (
    ArenaFull,
    BelowLimit,
    Clash,
    CutsInto,
    Failure,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.verdicts import verdict_on
from ttmem.documents import explanation
from ttmem.documents import unknown_rows as blank
from ttmem.documents.cores import Cores
from ttmem.model import machine_rows, schema
from ttmem.model.core_sets import CoreRange
from ttmem.model.events import Allocated
from ttmem.model.kinds import Kind
from ttmem.sources import umd
from ttmem.sources.machine import Machine


class Inner(TypedDict):
    size: int | None


class Known(TypedDict):
    name: str
    share: float
    rows: list[Inner]
    kinds: dict[str, int]


class Optional(Known, total=False):
    device: int


GOOD: dict[str, Any] = {"name": "a", "share": 1, "rows": [{"size": None}, {"size": 3}], "kinds": {"l1": 1}}


@pytest.mark.parametrize("value", [GOOD, {**GOOD, "device": 7}])
def test_a_value_with_all_keys_conforms(value: Any) -> None:
    assert problems(value, Optional) == []


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({**GOOD, "more": 1}, "'more'"),
        ({key: GOOD[key] for key in ("name", "share", "rows")}, "'kinds'"),
        ({**GOOD, "name": None}, "name: null"),
        ({**GOOD, "device": None}, "device: null"),
        ({**GOOD, "share": True}, "share: bool"),
        ({**GOOD, "share": "1"}, "share: str"),
        ({**GOOD, "rows": None}, "rows: null"),
        ({**GOOD, "rows": [{"size": 1.5}]}, "rows[].size: float"),
        ({**GOOD, "rows": [{}]}, "rows[]: Inner has no 'size'"),
        ({**GOOD, "kinds": {"l1": None}}, "kinds.l1: null"),
        ([], "list"),
    ],
)
def test_what_does_not_conform_is_named(value: Any, where: str) -> None:
    found = problems(value, Optional)
    assert len(found) == 1
    assert where in found[0]


def test_another_schema_does_not_conform() -> None:
    assert problems({**blank.snapshot("now", "box"), "schema": "ttmem.snapshot/2"}, schema.Snapshot)


def test_paths_name_every_key() -> None:
    assert set(paths(Optional)) == {"name", "share", "rows[]", "rows[].size", "kinds.<kind>", "device"}
    assert set(paths(Optional, frozenset({Inner}))) == {"name", "share", "rows[]", "kinds.<kind>", "device"}


# -- real documents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (blank.snapshot("now", "box"), schema.Snapshot),
        (blank.chip("77"), schema.ChipRow),
        (blank.chip("77", arch="wormhole_b0", board="n150"), schema.ChipRow),
        (blank.process(None, "untracked"), schema.ProcessRow),
        (blank.process(7, "stale"), schema.ProcessRow),
        (blank.share("77"), schema.ChipShare),
    ],
)
def test_blank_rows_conform(row: Any, wanted: Any) -> None:
    assert problems(row, wanted) == []


ROUTES: dict[str, Any] = {
    "/snapshot": schema.Snapshot,
    "/processes": schema.Processes,
    "/processes/4242": schema.Processes,
    "/allocations": schema.Allocations,
    "/allocations?kind=cb": schema.Allocations,
    "/peaks": schema.Peaks,
    "/peaks?pid=4711": schema.Peaks,
    "/phases": schema.Phases,
    "/history": schema.History,
    "/headroom": schema.Headroom,
    "/cores?chip=880001": schema.Cores,
    "/cores?chip=880001&core=1,1": schema.Cores,
    "/dump": schema.Dump,
    "/dump?what=kernels": schema.Dump,
    "/leaks": schema.Leaks,
    **{f"/breakdown?by={by}": schema.Breakdown for by in ("op", "line", "stack", "shape", "program", "kind")},
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(4)


@pytest.mark.parametrize("path", ROUTES)
def test_answers_of_the_server_conform(world: World, path: str) -> None:
    assert problems(world.get(path), ROUTES[path]) == []


@pytest.mark.parametrize("chips", [0, 1, 4, 32])
def test_snapshots_conform(chips: int) -> None:
    assert problems(World(chips).snapshot, schema.Snapshot) == []


def test_what_the_tests_say_of_a_machine_conforms() -> None:
    files = [snapshots.counters(77, snapshots.slot(7, 5), snapshots.slot(8, state="dead")), snapshots.unreadable(78)]
    look = snapshots.machine(snapshots.driver_chip(0), processes=[snapshots.holder(7, 0)], shm=files)
    assert problems(look, machine_rows.MachineLook) == []


FAILURES: list[Failure] = [
    OutOfMemory(Kind.DRAM, 100, 12, 10),
    OutOfMemory(Kind.L1, 100, 64, 10, 1000, 900, 100, 5, 4, 3, 2, True),
    Clash(Kind.CB, 3, CoreRange(0, 0, 7, 7), 1000, 2000),
    PastEndOfL1(Kind.DFB, CoreRange(0, 0, 7, 7), 2000, 1000),
    RingFull(70000, 69000, "tensix", (("kernels", 60000),), "reader"),
    TraceFull(100, 0, 50),
    TraceOverlap(100, 50),
    BelowLimit(100),
    ArenaFull(100, 32, "{[0-0 - 7-7]}", 10, 20),
    CutsInto(100, 50),
    TooLittleL1("softmax", None, 50),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_explanations_conform(failure: Failure) -> None:
    verdict = verdict_on(failure)
    row = json.loads(json.dumps(explanation.verdict(verdict)))
    assert problems(row, schema.VerdictRow) == []
    assert row["failure"].keys() == {"type", *failure._fields}


def test_the_schema_has_every_number_of_every_failure() -> None:
    assert {type(failure) for failure in FAILURES} == set(get_args(Failure))
    fields = {field for failure in FAILURES for field in failure._fields}
    assert get_type_hints(schema.FailureRow).keys() == {"type", *fields}


def test_a_look_at_a_machine_conforms(folder: Path) -> None:
    machine = Machine(str(machines.n150(folder).root))
    try:
        look = machine.look()
    finally:
        machine.close()
    assert problems(look, machine_rows.MachineLook) == []
    row: Any = umd.telemetry({"temperature_c": 51.0, "dram_status": "trained"})
    assert problems(row, schema.Telemetry) == []


def test_cores_of_an_unknown_board_conform() -> None:
    account = snapshots.Account()
    account.apply(account.source(7), Allocated(0, Kind.DRAM, 0x1000, 4096))
    (chip,) = account.snapshot()["chips"]
    found = asyncio.run(Cores(account.ledger).document(chip["chip"], None, lambda user_id: True))
    assert problems(found, schema.Cores) == []
    assert found["grid"] is None


# -- at run time -----------------------------------------------------------------------------------------------------

LIGHT = {
    "client": "import ttmem, ttmem.collect.client, ttmem.collect.sender",
    "smi": "from ttmem.cli import main; main(['smi', '--socket', '/nowhere/api.sock', '--json'])",
    "server": "import ttmem.server.daemon, ttmem.cli.serve",
    "run": "import ttmem.cli.run",
    "top": "import ttmem.cli.top",
}


@pytest.mark.parametrize("what", LIGHT)
def test_nothing_loads_the_schema_at_run_time(what: str) -> None:
    loaded = "import sys; print(sorted({'ttmem.model.schema', 'ttmem.model.machine_rows'} & sys.modules.keys()))"
    code = f"try:\n    {LIGHT[what]}\nexcept SystemExit:\n    pass\n{loaded}"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert out.splitlines()[-1] == "[]", out


TYPES_ONLY = {"ttmem.model.schema", "ttmem.model.machine_rows", "ttmem.model.page_schema"}


def test_every_import_of_the_schema_is_for_type_checking_only() -> None:
    found = 0
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text())
        guarded = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and name not in TYPES_ONLY:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                if not names.isdisjoint(TYPES_ONLY):
                    found += 1
                    assert node in guarded, f"{path}:{node.lineno}"
    assert found > 20
