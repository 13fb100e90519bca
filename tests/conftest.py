# SPDX-License-Identifier: Apache-2.0
"""Fixtures: servers and clients that are gone when the test is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import LegacyClient, Server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: a socket's may have no more than 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ttmem-") as name:
        yield Path(name)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers, as many as wanted."""
    servers: list[Server] = []

    def start(*arguments: str, **keywords: Any) -> Server:
        server = Server(folder, *arguments, **keywords)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve("--quiet")


@pytest.fixture
def legacy() -> Iterator[Callable[..., LegacyClient]]:
    """Starts C++ clients."""
    clients: list[LegacyClient] = []

    def start(*arguments: Any, **keywords: Any) -> LegacyClient:
        client = LegacyClient(*arguments, **keywords)
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.kill()
