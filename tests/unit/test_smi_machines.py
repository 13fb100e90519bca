# SPDX-License-Identifier: Apache-2.0
"""The screens of whole machines, compared with the files in tests/data/screens.

`make screens` regenerates those files; then read the diff.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.counters import content, mapping, slot
from tests.unit import test_smi_screen
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.schema import SourceState
from ttmem.show import smi_screen as smi
from ttmem.show.text import Style
from ttmem.sources.machine import Machine

SCREENS = Path(__file__).resolve().parent.parent / "data" / "screens"
RENEW = os.environ.get("TTMEM_RENEW_SCREENS") == "1"
TIME, HOST = "2026-01-02T03:04:05.678901Z", "box"
WHY = "no ttmem server answers on /run/ttmem/ttmem.sock; start one with `ttmem serve`"
GIB, MIB = 1 << 30, 1 << 20
Json = Any  # a document made by hand, or a part of one


def alone(root: Path, look_before: Callable[[], None] | None = None) -> Json:
    """The output of `ttmem smi` for a machine without a server."""
    with closing(Machine(str(root))) as machine:
        if look_before is not None:
            machine.look()
            look_before()
        picture = blank.snapshot(TIME, HOST)
        picture["sources"] = [{"name": "server", "state": "not running", "detail": WHY}]
        return settled(merge(picture, machine.look()))


def settled(picture: Json) -> Json:
    """Without values that depend on the time and on the users of this machine."""
    users = {0: "root", 1000: "ann", 1234: "eve"}
    for process in picture["processes"]:
        process["user"] = users.get(process["user_id"], process["user"])
    for chip in picture["chips"]:
        if chip["telemetry"] and chip["telemetry"]["age_s"]:
            chip["telemetry"]["age_s"] = 12.0
    return picture


def counted(machine: machines.Machine, pid: int, sums: Sequence[tuple[int, ...]], **process: Any) -> None:
    """A process that is known only from tt-metal's counters, on as many chips as there are sums."""
    maps = ""
    for number, one in enumerate(sums):
        maps += mapping(machine.shm_file(880001 + number, content(slot(pid, *one), number=number)))
    machine.process(pid, maps=maps, **process)


def n150(root: Path) -> Json:
    machines.n150(root)
    return alone(root)


def n300(root: Path) -> Json:
    """A chip on PCIe and the one behind it."""
    sums = [(3 * GIB, 12 * MIB, 0, 0, 2 * MIB)] * 2
    counted(machines.n300(root), 4711, sums, command="python resnet.py --batch 16", user_id=1000, holds=[0])
    return alone(root)


def t3k(root: Path) -> Json:
    """One chip is hot, and one nearly full."""
    machine = machines.t3k(root)
    machine.set(2, temp1_input=69000)
    sums = [((8 + number) * GIB, 20 * MIB, 0, 64 * MIB, 0) for number in range(4)]
    counted(machine, 4711, sums, command="python llama.py --tp 4", user_id=1000, holds=[0, 1, 2, 3])
    return alone(root)


def galaxy(root: Path) -> Json:
    sums = [(9 * GIB, 20 * MIB, 0, 0, 10 * MIB)] * 32
    counted(machines.galaxy(root), 4711, sums, command="python -m vllm.serve llama-70b --tp 32", holds=range(32))
    return alone(root)


def p150(root: Path) -> Json:
    machines.p150(root)
    return alone(root)


def dead_chip(root: Path) -> Json:
    machines.dead_chip(root)
    return alone(root)


def in_reset(root: Path) -> Json:
    """It answered a moment ago."""
    machine = machines.in_reset(root)
    machine.fail(1, None)
    with machines.failing_reads(machine):
        return alone(root, lambda: machine.fail(1, errno.ENODATA))


def old_driver(root: Path) -> Json:
    machines.old_driver(root)
    return alone(root)


def foreign_user(root: Path) -> Json:
    machines.foreign_user(root)
    return alone(root)


def containers(root: Path) -> Json:
    machines.containers(root)
    return alone(root)


def no_driver(root: Path) -> Json:
    machines.no_driver(root)
    return alone(root)


def tracked(root: Path) -> Json:
    """A server with an agent's account, a legacy client, a process that died, and anomalies."""
    users = {1000: "maria", 0: "root"}.get
    sources: list[SourceState] = [{"name": "server", "state": "ok", "detail": None}]
    account = test_smi_screen.machine()
    return take_snapshot(
        account.ledger, time=TIME, host=HOST, server=test_smi_screen.SERVER, sources=sources, user_of=users
    )


def crowded(root: Path) -> Json:
    """Programs that use L1 in turn; names that are wide or contain control characters."""
    account = test_smi_screen.crowded()
    found: Json = take_snapshot(account.ledger, time=TIME, host=HOST, server=test_smi_screen.SERVER)
    found["processes"][0].update(name="模型服务器", user="zoë", command="/opt/模型/服务器 --weights \x1b[2J")
    return found


def stale(root: Path) -> Json:
    """tt-metal's counters of a process that was killed."""
    machine = machines.n150(root)
    machine.shm_file(880001, content(slot(77, 5 * GIB, 2 * MIB)))
    return alone(root)


_MACHINES = (n150, n300, t3k, galaxy, p150, dead_chip, in_reset, old_driver, foreign_user, containers, no_driver, stale)
PICTURES = {make.__name__: make for make in (*_MACHINES, tracked, crowded)}
STYLES = {
    "60": Style(60),
    "100": Style(100),
    "160": Style(160),
    "100-colour": Style(100, colour=True),
    "100-ascii": Style(100, ascii=True),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("machine", PICTURES)
def test_the_screen(machine: str, style: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "__version__", "1.2.3")
    text = smi.render(PICTURES[machine](folder), STYLES[style]).replace(str(folder), "") + "\n"
    file = SCREENS / f"{machine}-{style}.txt"
    if RENEW:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file.name} differs; see the top of this file"


def test_no_screen_is_left_over() -> None:
    assert {file.stem for file in SCREENS.iterdir()} == {f"{m}-{s}" for m in PICTURES for s in STYLES}
