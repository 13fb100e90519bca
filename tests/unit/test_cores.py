# SPDX-License-Identifier: Apache-2.0
"""Maps of chips are computed in slices, shared by concurrent requests, and cached while they are valid."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from tests.l1_accounts import GRID, N150, Account
from tests.support import PATIENCE, answered, api_over, not_none
from ttmem.documents import cores
from ttmem.documents.cores import Cores
from ttmem.documents.snapshot import take_snapshot
from ttmem.l1.core_map import CoreMapBuilder
from ttmem.model.events import Allocated, DeviceOpened, Extra, Freed, ProgramRun
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.model.schema import PhysicalL1
from ttmem.server import http_server

Json = dict[str, Any]


def many(count: int, kind: Kind = Kind.L1) -> Account:
    account = Account(N150)
    for number in range(count):
        extra = Extra(64 * 32, allocator=number // 20_000)
        account.apply(Allocated(0, kind, 110_000 + number % 20_000 * 64, 64 * 32, extra=extra))
    return account


async def asked(maps: Cores, core: tuple[int, int] | None = None) -> Json:
    found: Json = json.loads(json.dumps(await maps.document("77", core, lambda user_id: True)))
    return found


@pytest.mark.parametrize("kind", [Kind.L1, Kind.DRAM])
def test_others_have_their_turn(kind: Kind) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def ask() -> None:
        task = asyncio.create_task(others())
        await asked(Cores(many(30_000, kind).ledger))
        task.cancel()

    asyncio.run(ask())
    assert turns >= 30


def test_a_document_is_made_in_a_thread_and_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(N150)
    for number in range(400):  # all overlap, so the segments have 80,000 owners
        account.buffer(110_000 + number * 8, 4096)
    threads: set[int] = set()
    rows: list[int] = []

    def watched(self: Any, segment: Any, core: Any) -> Any:
        threads.add(threading.get_ident())
        return made_of(self, segment, core)

    def text(data: Any) -> str:
        rows.append(len(found := json_text(data)))
        return found

    made_of, json_text = cores._DocumentBuilder._segment, http_server.json_text
    monkeypatch.setattr(cores._DocumentBuilder, "_segment", watched)
    monkeypatch.setattr(http_server, "json_text", text)
    query = {"chip": "77", "core": "0,0"}
    answer = asyncio.run(answered(api_over(account.ledger, None), "/cores", query))
    assert threads
    assert threading.get_ident() not in threads
    monkeypatch.undo()
    assert answer == asyncio.run(asked(Cores(account.ledger), core=(0, 0)))
    assert max(rows) < sum(rows) / 100, "no other thread can run while the encoder works"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CoreMapBuilder]:
    """Every survey that was started."""
    begun: list[CoreMapBuilder] = []

    class Watched(CoreMapBuilder):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            begun.append(self)

    monkeypatch.setattr(cores, "CoreMapBuilder", Watched)
    return begun


def test_a_map_is_made_once_until_something_happens(
    made: list[CoreMapBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_REST", 0)
    account = Account(N150)
    account.buffer(1400000, 2048)
    maps = Cores(account.ledger)

    async def ask() -> None:
        both = await asyncio.gather(asked(maps), asked(maps, core=(0, 0)))
        assert len(made) == 1
        assert [one["used"] for one in both] == [64 * (105824 + 2048)] * 2
        await asked(maps)
        assert len(made) == 1
        account.apply(Freed(0, Kind.L1, 1400000))
        found = await asked(maps)
        assert (len(made), found["used"], found["age_s"]) == (2, 64 * 105824, 0.0)

    asyncio.run(ask())


def test_a_map_that_was_dear_is_used_again_and_says_its_age(
    made: list[CoreMapBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_REST", 1e9)
    account = Account(N150)
    account.buffer(1400000, 2048)
    maps = Cores(account.ledger)

    async def ask() -> None:
        first = await asked(maps)
        account.apply(Freed(0, Kind.L1, 1400000))
        await asyncio.sleep(0.01)
        second = await asked(maps)
        assert len(made) == 1
        assert second["used"] == first["used"]
        assert (first["age_s"], second["age_s"] >= 0.01) == (0.0, True)

    asyncio.run(ask())


def physical(account: Account, maps: Cores) -> PhysicalL1:
    snapshot = take_snapshot(account.ledger, time="", host="", physical=maps.physical)
    return snapshot["chips"][0]["memory"]["l1"]["physical"]


def test_the_snapshot_has_what_is_known_and_never_looks_itself(
    made: list[CoreMapBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_FIRST_WAIT", PATIENCE)
    monkeypatch.setattr(cores, "_EVERY", 3600.0)
    account = Account(N150)
    account.buffer(1400000, 2048)
    account.part(1, 105824, 1000, GRID)
    account.apply(ProgramRun(0, 1, GRID))
    maps = Cores(account.ledger)
    nothing = dict.fromkeys(("used", "max_core", "headroom_min", "age_s"))
    assert (physical(account, maps), made) == (nothing, [])
    asyncio.run(maps.refresh())
    known = {
        "used": 64 * (106824 + 2048),
        "max_core": 106824 + 2048,
        "headroom_min": 1400000 - 106824,
        "age_s": 0.0,
    }
    assert physical(account, maps) == known
    account.apply(Freed(0, Kind.L1, 1400000))
    asyncio.run(maps.refresh())  # within the hour: nothing is computed
    old = physical(account, maps)
    assert len(made) == 1
    assert not_none(old["age_s"]) > 0
    assert {**old, "age_s": 0.0} == known


def test_a_snapshot_does_not_wait_for_a_long_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_FIRST_WAIT", 0.0)  # on a fast machine, 60,000 buffers take less than the usual wait
    account = many(60_000)
    maps = Cores(account.ledger)

    async def ask() -> None:
        await maps.refresh()
        assert physical(account, maps)["used"] is None
        while physical(account, maps)["used"] is None:
            await asyncio.sleep(0.01)

    asyncio.run(ask())
    assert physical(account, maps)["max_core"] == 105824 + 32 * 20_000


def test_nothing_is_looked_at_of_chips_that_nobody_speaks_of(made: list[CoreMapBuilder]) -> None:
    asyncio.run(Cores(Account(N150).ledger).refresh())
    assert made == []


def test_more_segments_than_anybody_reads_are_cut_off() -> None:
    found = asyncio.run(asked(Cores(many(5_000).ledger), core=(0, 0)))["core"]
    assert len(found["segments"]) == 500
    assert found["listed_to"] == found["segments"][-1]["end"]


def test_chips_of_a_mesh_share_one_map_as_long_as_they_are_alike(
    made: list[CoreMapBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_FIRST_WAIT", PATIENCE)
    monkeypatch.setattr(cores, "_EVERY", 0.0)
    monkeypatch.setattr(cores, "_REST", 0)
    account = Account(N150)
    for number in range(1, 8):
        account.apply(DeviceOpened(number, ChipInfo(str(77 + number), geometry=N150)))
    mesh = tuple(range(8))
    account.apply(Allocated(mesh, Kind.L1, 1400000, 2048 * 64, extra=Extra(2048 * 64)))
    maps = Cores(account.ledger)

    def used() -> list[int | None]:
        made.clear()
        asyncio.run(maps.refresh())
        chips = take_snapshot(account.ledger, time="", host="", physical=maps.physical)["chips"]
        return [chip["memory"]["l1"]["physical"]["used"] for chip in chips]

    whole = 64 * (105824 + 2048)
    assert (used(), len(made)) == ([whole] * 8, 1)
    account.apply(Allocated(3, Kind.L1, 1300000, 1024 * 64, extra=Extra(1024 * 64)))
    assert used() == [whole] * 3 + [whole + 64 * 1024] + [whole] * 4
    assert len(made) == 2
    account.apply(Allocated(6, Kind.CB, 105824, 1000 * 64, 5, extra=Extra(cores=GRID)), ProgramRun(6, 5, GRID))
    found = used()
    assert found[6] == whole + 64 * 1000
    assert found[0] == whole
    assert len(made) == 3
