# SPDX-License-Identifier: Apache-2.0
"""Requests dumps very often and at once, or between allocations and frees in one write."""

from __future__ import annotations

import os
import sys

from tests.attacks.client import connect, hold
from ttmem.wire.legacy_records import Type, request


def _record(op: Type, ident: int = 0) -> bytes:
    return request(op, 0, size=4096 if ident else 0, pid=os.getpid(), ident=ident)


def main(path: str, allocations: int, dumps: int) -> None:
    """``allocations`` allocations, ``dumps`` requests, ``allocations`` frees, all of it in one write if it is short."""
    idents = range(0x1000, 0x1000 * (allocations + 1), 0x1000)
    data = b"".join(_record(Type.ALLOC, ident) for ident in idents)
    data += _record(Type.DUMP_REMAINING) * dumps
    data += b"".join(_record(Type.FREE, ident) for ident in idents)
    with connect(path) as sock:
        sock.sendall(data)
        hold()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
