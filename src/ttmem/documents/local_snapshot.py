# SPDX-License-Identifier: Apache-2.0
"""A snapshot taken by this process, from the machine alone or merged with a server's account.

Few imports: every start of `ttmem smi` loads this module.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ttmem.model.machine_rows import MachineLook
    from ttmem.model.schema import Snapshot


class LocalSnapshot:
    """Takes snapshots one after the other; ``root`` is the folder of a simulated machine."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._machine: Any = None
        self._joins: dict[str, Any] = {}

    def snapshot(self, account: Snapshot, also: Callable[[MachineLook], MachineLook] | None = None) -> Snapshot:
        """The current machine, merged with an account; ``also`` adds data of another source."""
        from ttmem.documents.merge import merge
        from ttmem.sources.machine import Machine

        self._machine = self._machine or Machine(self._root)
        seen = self._machine.look()
        return merge(account, also(seen) if also else seen, before=self._joins)

    def close(self) -> None:
        if self._machine is not None:
            self._machine.close()


def no_account(state: str, why: str) -> Snapshot:
    """The snapshot of an empty account; ``state`` and ``why`` give the reason why there is no server."""
    from ttmem.documents import unknown_rows as blank

    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    snapshot = blank.snapshot(stamp, os.uname().nodename)
    snapshot["sources"] = [{"name": "server", "state": state, "detail": why}]
    return snapshot
