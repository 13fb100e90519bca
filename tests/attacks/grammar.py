# SPDX-License-Identifier: Apache-2.0
"""Random input of the grammar, from a seed: records, legacy records, agents' memory."""

from __future__ import annotations

import contextlib
import sys

from tests import fuzz_grammar as grammar
from tests.attacks.client import connect, hold, send, wait_for_sync
from tests.fuzz_grammar import Numbers
from tests.ring_memory import RingMemory
from ttmem.wire import handshake


def main(path: str, seed: int) -> None:
    draw = Numbers(seed)
    kept: list[object] = []
    for _ in range(draw.rng.randrange(3, 12)):
        what = draw.rng.random()
        if what < 0.6:
            kept.append(send(path, grammar.native_records(draw, 200)))
        elif what < 0.7:
            sock = connect(path)
            with contextlib.suppress(BrokenPipeError):
                sock.sendall(grammar.legacy_records(draw))
            kept.append(sock)
        else:
            memory: RingMemory = grammar.ring_memory(draw)
            grammar.write_ring(draw, memory, draw.rng.randrange(60))
            sock = connect(path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                memory.hand_over(sock)
                sock.sendall(handshake.sync(99))
                wait_for_sync(sock)
            grammar.write_ring(draw, memory, draw.rng.choice((1, 10, 1000)))
            kept += [memory, sock]
    if draw.chance(0.5):
        hold()
    else:
        print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
