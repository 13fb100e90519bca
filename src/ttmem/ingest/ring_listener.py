# SPDX-License-Identifier: Apache-2.0
"""What a caller may learn from an agent's ring beside the account. `ttmem run` needs it, the server does not."""

from __future__ import annotations

from typing import Protocol

from ttmem.account.size_extremes import Sizes
from ttmem.model.geometry import Geometry
from ttmem.wire.agent_ring import Mesh


class RingListener(Protocol):
    """Called while one ring is read, each time after the events of all earlier records were applied."""

    def opened(self, mesh: Mesh, geometry: Geometry, before: int) -> Sizes | None:
        """A mesh was opened. ``before`` is the bytes in its banks that were allocated before the agent could see it.

        Returns an object that is to follow the sizes of its allocator, or None.
        """

    def closing(self) -> None:
        """A device that was used since the last call is about to be closed, or its process ended without closing it."""

    def freed_by_close(self, kind: int, size: int) -> None:
        """A tensor was freed by nothing but the closing of its device."""

    def lost_records(self) -> None:
        """Records were lost."""

    def lost_close(self) -> None:
        """A device was closed among the lost records, so what was left in it is not known."""


class NoListener:
    """Ignores everything."""

    def opened(self, mesh: Mesh, geometry: Geometry, before: int) -> Sizes | None:
        return None

    def closing(self) -> None: ...

    def freed_by_close(self, kind: int, size: int) -> None: ...

    def lost_records(self) -> None: ...

    def lost_close(self) -> None: ...
