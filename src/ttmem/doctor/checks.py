# SPDX-License-Identifier: Apache-2.0
"""Runs all checks and builds the document with their findings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import ttmem
from ttmem.doctor import agent_checks as agent
from ttmem.doctor import container_checks as container
from ttmem.doctor import machine_checks as machine
from ttmem.doctor import server_checks as server
from ttmem.doctor import shm_checks as memory
from ttmem.doctor import snapshot_checks as snapshot
from ttmem.doctor import wheel_checks as wheel
from ttmem.doctor import workload_checks as workload
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Finding, Message
from ttmem.ingest.clock import rfc3339

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.doctor/1"

# Each name has a section in docs/troubleshooting.md.
CHECKS: dict[str, Callable[[DoctorContext], Iterator[Message]]] = {
    "driver": machine.driver,
    "chips": machine.chips,
    "device-files": machine.device_files,
    "hugepages": machine.hugepages,
    "shm": memory.shm,
    "shm-files": memory.shm_files,
    "shm-tracking": workload.shm_tracking,
    "container": container.container,
    "server": server.server,
    "sockets": server.sockets,
    "legacy-socket": server.legacy_socket,
    "agent": agent.agent,
    "ttnn": wheel.ttnn,
    "hooks": wheel.hooks,
    "untracked": workload.untracked,
    "tracking-variable": workload.tracking_variable,
    "silent-clients": snapshot.silent_clients,
    "agent-trouble": snapshot.agent_trouble,
    "losses": snapshot.losses,
    "per-core-only": snapshot.per_core_only,
    "amounts": snapshot.amounts,
}


def examine(context: DoctorContext) -> list[Finding]:
    """Run all checks. A check that raises becomes a finding of level unknown, and the others continue."""
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            for message in check(context):  # one by one, to keep the messages before a failure
                found += [Finding(name, *message)]
        except Exception as error:
            reason = f"the check itself failed: {type(error).__name__}: {error}"
            found.append(
                Finding(name, "unknown", f"the check {name}", reason, "please report this as a fault of ttmem")
            )
    return found


def verdict(found: Iterable[Finding]) -> schema.LevelCounts:
    """The number of findings of each level, worst first."""
    counts = Counter(finding.level for finding in found)
    return {
        "broken": counts["broken"],
        "warning": counts["warning"],
        "unknown": counts["unknown"],
        "ok": counts["ok"],
    }


def exit_code(found: Iterable[Finding]) -> int:
    """3 if something is broken, else 0. Warnings and checks that could not be done may be harmless."""
    return 3 if any(finding.level == "broken" for finding in found) else 0


def document(found: list[Finding], now: float | None = None) -> schema.Doctor:
    """The findings as a document, schema "ttmem.doctor/1"."""
    return {
        "schema": SCHEMA,
        "time": rfc3339(time.time() if now is None else now),
        "version": ttmem.__version__,
        "verdict": {**verdict(found), "exit_code": exit_code(found)},
        "findings": [
            {
                "check": finding.check,
                "level": finding.level,
                "looked_at": finding.looked_at,
                "found": finding.found,
                "todo": finding.todo,
            }
            for finding in found
        ],
    }
