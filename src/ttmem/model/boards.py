# SPDX-License-Identifier: Apache-2.0
"""Memory sizes of each board, as ttnn 0.81.1 reports them; a module without imports.

They are used until a process reports live figures. Numbers derived from them are marked as such.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # arch, grid x and y, L1 of a core, where its allocatable part begins and its fixed map ends, DRAM banks, their size
    Sizes = tuple[str, int, int, int, int, int, int, int]


def _wormhole(x: int, y: int) -> Sizes:
    return "wormhole_b0", x, y, 1499136, 105824, 35168, 12, 1073741824


def _blackhole(x: int, y: int, banks: int) -> Sizes:
    return "blackhole", x, y, 1572864, 111744, 41088, banks, 4278190080


SIZES: dict[str, Sizes] = {
    "n150": _wormhole(8, 8),
    "n300": _wormhole(8, 8),
    "galaxy-wormhole": _wormhole(8, 9),
    "p100": _blackhole(11, 10, 7),
    "p150": _blackhole(11, 10, 8),
    "p300": _blackhole(11, 10, 8),
    "galaxy-blackhole": _blackhole(12, 10, 8),
    "quasar": ("quasar", 8, 4, 4194304, 332864, 230464, 2, 1073741824),
}
_COMMON = {"wormhole_b0": "n150", "blackhole": "p150", "quasar": "quasar"}


def table_name(board: str | None, arch: str | None) -> str | None:
    """The entry for a board as the driver spells it (``p150a``), else for the family's common board.

    >>> table_name("p150a", None), table_name(None, "wormhole_b0"), table_name("x9", None)
    ('p150', 'n150', None)
    """
    for name in (board, (board or "").rstrip("abc")):
        if name in SIZES:
            return name
    return _COMMON.get(arch or "")
