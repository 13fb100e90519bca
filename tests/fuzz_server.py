# SPDX-License-Identifier: Apache-2.0
"""The grammar against a real `ttmem serve --record`: a witness, attackers in separate processes, every route."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.support import Server
from tests.witness import Witness, attack, said

ATTACKERS = 3


def server_case(seed: int, folder: Path) -> None:
    """One server, three attackers at once, and all checks."""
    recording = folder / "events"
    server = Server(folder, "--record", str(recording), "--log-format", "json" if seed % 2 else "text")
    try:
        with Witness(server) as witness:
            with ExitStack() as children:
                started = [children.enter_context(attack("grammar", server, seed * 100 + n)) for n in range(ATTACKERS)]
                for child in started:
                    assert said(child) == "ready"
                witness.sees_no_harm(seed)
            witness.sees_no_harm(seed + 1)
            assert "recording stopped" not in server.err.read_text(errors="replace")
            witness.ends()
            witness.is_in(recording)
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
