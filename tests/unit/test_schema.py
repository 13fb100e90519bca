# SPDX-License-Identifier: Apache-2.0
"""Documents have exactly the keys and types of model/schema.py, and nobody pays for it at run time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, TypedDict

import pytest

from tests import snapshots
from tests.schema_conformance import paths, problems
from tests.worlds import World
from ttmem.documents import unknown_rows as blank
from ttmem.model import machine_rows, schema


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


# -- at run time -----------------------------------------------------------------------------------------------------

LIGHT = {
    "client": "import ttmem, ttmem.collect.client, ttmem.collect.sender",
    "smi": "from ttmem.cli import main; main(['smi', '--api', '/nowhere/api.sock', '--json'])",
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
