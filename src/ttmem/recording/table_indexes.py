# SPDX-License-Identifier: Apache-2.0
"""Numbers for what many allocations have in common: chip sets, allocators, call sites."""

from __future__ import annotations

from collections.abc import Hashable

from ttmem.recording.allocation_table import Allocator, Site


class Indexes:
    """Each distinct value has one number, its place in the list."""

    def __init__(self) -> None:
        self._chips: dict[tuple[str, ...], int] = {}
        self._sites: dict[Site, int] = {}
        self._allocators: dict[Hashable, int] = {}
        self.allocators: list[Allocator] = []

    def chips(self, chips: tuple[str, ...]) -> int:
        return self._chips.setdefault(chips, len(self._chips))

    def site(self, site: Site) -> int:
        return self._sites.setdefault(site, len(self._sites))

    def allocator(self, allocator: Allocator, identity: Hashable) -> int:
        """``identity`` distinguishes allocators of equal meshes."""
        if identity not in self._allocators:
            self._allocators[identity] = len(self.allocators)
            self.allocators.append(allocator)
        return self._allocators[identity]

    @property
    def chip_sets(self) -> list[tuple[str, ...]]:
        return list(self._chips)

    @property
    def sites(self) -> list[Site]:
        return list(self._sites)
