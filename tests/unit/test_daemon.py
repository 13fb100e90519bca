# SPDX-License-Identifier: Apache-2.0
"""The server's loop: its turns leave room for everything else, also when much is left to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ttmem.server import daemon
from ttmem.server.daemon import Options, Server


def test_one_turn_is_scheduled_however_often_descriptors_are_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rings of dead processes are read, each new client once added a chain of turns, and the API waited."""

    async def turns_in_one_round() -> int:
        server = Server(Options(str(tmp_path / "ttmem.sock"), machine=None))
        turns = 0

        def turn() -> bool:
            nonlocal turns
            turns += 1
            return True

        monkeypatch.setattr(server.sockets, "turn", turn)
        for _ in range(10):
            server._turn()  # as the loop does for a readable descriptor
        await asyncio.sleep(0)
        turns = 0
        await asyncio.sleep(0)
        server.stop()
        server._close()
        return turns

    assert asyncio.run(turns_in_one_round()) == 1


@pytest.mark.parametrize("long", [False, True])
def test_the_loop_goes_on_after_a_long_look_at_the_rings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """To copy a large live table takes so long that others have a turn before records are read."""

    async def order() -> list[str]:
        server = Server(Options(str(tmp_path / "ttmem.sock"), machine=None))
        clock, found = 0.0, []

        def tick() -> None:
            nonlocal clock
            clock += 1.0 if long else 0.0
            found.append("tick")

        monkeypatch.setattr(daemon, "monotonic", lambda: clock)
        monkeypatch.setattr(server.rings, "tick", tick)
        monkeypatch.setattr(server.rings, "follow", lambda deadline: found.append("follow"))
        asyncio.get_running_loop().call_soon(lambda: found.append("others"))
        await server._follow_rings()
        server._close()
        return found

    assert asyncio.run(order()) == (["tick", "others", "follow"] if long else ["tick", "follow", "others"])
