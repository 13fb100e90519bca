# SPDX-License-Identifier: Apache-2.0
"""The buffers of a holding that have no address, found by size: a free of such a buffer names no key (rule 1)."""

from __future__ import annotations


class UnplacedBuffers:
    """The keys of live buffers, in the order in which they were added.

    Adding, finding and removing cost the same, however many there are.
    """

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[tuple[int, int | None], dict[int, None]] = {}  # of each place and size, and of each place

    def add(self, place: int, size: int, key: int) -> None:
        """``place`` is the address space and allocator."""
        for name in ((place, size), (place, None)):
            self._keys.setdefault(name, {})[key] = None

    def remove(self, place: int, size: int, key: int) -> None:
        for name in ((place, size), (place, None)):
            keys = self._keys[name]
            del keys[key]
            if not keys:
                del self._keys[name]

    def keys(self) -> set[int]:
        return {key for (_, size), keys in self._keys.items() if size is None for key in keys}

    def youngest(self, place: int, size: int) -> int | None:
        """The key of the youngest buffer of this size, else of the youngest; None if there is none in this place."""
        keys = self._keys.get((place, size)) or self._keys.get((place, None))
        if not keys:
            return None
        # A look at the last key would pass all that were removed after it. To take it out leaves these behind.
        key, _ = keys.popitem()
        keys[key] = None
        return key
