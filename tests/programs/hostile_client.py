# SPDX-License-Identifier: Apache-2.0
"""A workload whose every text is hostile: name, arguments, source, chip, tags, phases, marks. Waits for a line."""

from __future__ import annotations

import ctypes
import socket
import sys

from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Mark, PhaseBegan, ProgramCompiled
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode

PR_SET_NAME = 15
EVIL = "\x1b]0;evil\x07\x1b[2J\r\n\u202e\x9b31m\x7f[bold]"


def connect(path: str, *events: Event) -> socket.socket:
    """Sends these, and returns when the server has applied them, or hung up."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(path)
    sock.sendall(handshake.hello(f"s{EVIL}", Confidence.REPORTED) + b"".join(map(encode, events)) + handshake.sync(1))
    sock.recv(4096)
    return sock


def main() -> None:
    path = sys.argv[1]
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"\x1b[2J\r\nevil\x9b", 0, 0, 0)
    geometry = BOARDS["n150"]._replace(live=True)
    stack = f"model{EVIL}.py:1 f\nmain{EVIL}.py:2 g"
    text = Extra(tag=f"tag{EVIL}", stack=stack, shape=f"[1]{EVIL}")
    plain = connect(
        path,
        DeviceOpened(0, ChipInfo("77", board="n150", geometry=geometry)),
        *(Allocated(0, Kind.DRAM, 4096 * n, 4096, extra=text._replace(reserved=4096)) for n in range(1, 4)),
        Allocated(0, Kind.L1, 1_300_000, 4096 * 64, extra=text._replace(reserved=4096 * 64)),
        ProgramCompiled(0, 9, 100, 1234, f"op{EVIL}", stack),
        Allocated(0, Kind.CB, 200_000, 4096 * 64, 9, extra=text._replace(cores=(1 << 8) - 1)),
        Allocated(0, Kind.KERNEL, 5, 4096 * 64, 9, extra=text._replace(cores=(1 << 8) - 1)),
        PhaseBegan(1, f"phase{EVIL}"),
        Mark(f"mark{EVIL}"),
    )
    # A server may refuse such a chip; then there is nothing to show of it.
    chip = ChipInfo(f"chip_id{EVIL}", board=f"board{EVIL}", pci="0000:66:00.0", geometry=geometry)
    odd = connect(path, DeviceOpened(1, chip), Allocated(1, Kind.DRAM, 4096, 4096, extra=text._replace(reserved=4096)))
    print("ready", flush=True)
    sys.stdin.readline()
    plain.close()
    odd.close()


main()
