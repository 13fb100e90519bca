# SPDX-License-Identifier: Apache-2.0
"""Sends memory as an agent does, with the given counters: counting_agent.py [NAME=COUNT ...].

It has one buffer on one chip, and its audit agrees. It prints its pid, waits for its standard input to end, and exits
without closing its device.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.scripted_agent import Agent

from ttmem.model.kinds import Confidence
from ttmem.wire.handshake import hello


def main() -> None:
    agent = Agent()
    agent.chip(0, 4711, 0)
    agent.mesh(0, [0])
    agent.opened()
    agent.allocate(0, size=100)
    agent.audit(0, 32, 32, 9)
    agent.put(**{name: int(count) for name, _, count in (word.partition("=") for word in sys.argv[1:])})
    connections = []
    for variable in ("TTMEM_RUN_SOCKET", "TTMEM_SOCKET"):
        if os.path.exists(path := os.environ.get(variable, "")):
            connections.append(socket.socket(socket.AF_UNIX))
            connections[-1].connect(path)
            socket.send_fds(connections[-1], [hello("agent", Confidence.EXACT)], [agent.fd])
    print(os.getpid(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
