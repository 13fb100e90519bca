# SPDX-License-Identifier: Apache-2.0
"""Where the page is served: the printed address, and errors for addresses that cannot be used."""

from __future__ import annotations

import socket

import pytest

from ttmem.pages.web_server import Address, WebError, listen, ssh_command


@pytest.mark.parametrize(
    ("host", "public", "url", "loopback"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:80/", True),
        ("localhost", None, "http://localhost:80/", True),
        ("::1", None, "http://[::1]:80/", True),
        ("10.0.0.5", None, "http://10.0.0.5:80/", False),
        ("box", None, "http://box:80/", False),
        ("0.0.0.0", None, f"http://{socket.gethostname()}:80/", False),
        ("127.0.0.1", "https://hub.example.com/me", "https://hub.example.com/me/", True),
    ],
)
def test_addresses(host: str, public: str | None, url: str, loopback: bool) -> None:
    address = Address(host, 80, public)
    assert (address.url, address.loopback) == (url, loopback)


def test_ssh_forwards_the_same_port() -> None:
    command = ssh_command(8899)
    assert command.startswith("ssh -L 8899:127.0.0.1:8899 ")
    assert command.endswith(socket.gethostname())


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "é\udc80", "a" * 300])
def test_an_address_of_another_machine_is_an_error(host: str) -> None:
    with pytest.raises(WebError, match=r"--host: .* is not an address"):
        listen(host, 0)


def test_a_port_in_use_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WebError, match=f"port {port} of 127.0.0.1 is in use; choose another with --port"):
            listen("127.0.0.1", port)
