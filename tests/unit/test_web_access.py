# SPDX-License-Identifier: Apache-2.0
"""Who may read the pages: the token, the Host header, and the site that a request comes from."""

from __future__ import annotations

import hmac

import pytest

from ttmem.pages.web_access import Access, new_token
from ttmem.server.http_server import HttpError, Request

TOKEN = new_token()
LOCAL = Access(TOKEN, loopback=True, identity="here")
OPEN = Access(TOKEN, loopback=False, names=["box", "box.example.com"])
PROXY = Access(TOKEN, loopback=True, public_url="https://hub.example.com/user/me/")
COOKIE = {"cookie": f"{LOCAL.cookie}={TOKEN}"}


def request(headers: dict[str, str], token: str | None = None, host: str = "127.0.0.1:8899") -> Request:
    query = {} if token is None else {"token": token}
    return Request("GET", "/api/snapshot", query, None, {"host": host, **headers})


def allowed(access: Access, asked: Request, page: bool = False) -> bool:
    try:
        access.check(asked, page=page)
    except HttpError as error:
        return error.status != 403
    return True


def test_tokens_cannot_be_guessed() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert all(len(new_token()) >= 43 for _ in range(100))  # 256 bits


@pytest.mark.parametrize(
    "wrong", [None, "", "x", TOKEN[:-1], TOKEN + "x", TOKEN.swapcase(), "\udc80", "é", "\0"], ids=range(9)
)
def test_without_the_token_nothing_is_shown(wrong: str | None) -> None:
    assert not allowed(LOCAL, request({}, wrong))
    assert not allowed(LOCAL, request({}, wrong), page=True)
    assert not allowed(LOCAL, request({"cookie": f"{LOCAL.cookie}={wrong}"}))


def test_the_token_is_accepted_in_the_address_and_in_the_cookie() -> None:
    assert allowed(LOCAL, request({}, TOKEN))
    assert allowed(LOCAL, request(COOKIE))
    assert allowed(LOCAL, request({"cookie": f"a=b; {LOCAL.cookie}=old; {LOCAL.cookie}={TOKEN}; c"}))
    assert not allowed(LOCAL, request({"cookie": f"other={TOKEN}"}))


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not allowed(LOCAL, request({}, TOKEN))
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


def test_the_cookie_is_not_for_scripts_and_not_for_other_sites() -> None:
    name, value = LOCAL.set_cookie()
    assert (name, value) == ("set-cookie", f"{LOCAL.cookie}={TOKEN}; HttpOnly; SameSite=Strict")
    assert PROXY.set_cookie()[1].endswith("; Secure")
    assert Access(TOKEN, loopback=True, identity="there").cookie != LOCAL.cookie, "ports of a host share cookies"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8899", "localhost:8899", "LOCALHOST", "localhost.", "[::1]:8899", "127.8.0.1", "127.0.0.1:1"]
)
def test_names_of_this_machine(host: str) -> None:
    assert allowed(LOCAL, request(COOKIE, host=host))


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8899", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.1",
     "localhost@evil.example", "evil.example/localhost", "localhost, evil.example", "localhost:port", "[::1", "0x7f.1",
     "2130706433", "169.254.169.254", "hub.example.com"],
)  # fmt: skip
def test_a_foreign_host_is_refused(host: str) -> None:
    """A page of another site that gives its name the address of this machine sends its own name."""
    assert not allowed(LOCAL, request(COOKIE, host=host))
    assert not allowed(LOCAL, request({}, TOKEN, host=host), page=True)


def test_other_addresses_only_if_asked() -> None:
    cookie = {"cookie": f"{OPEN.cookie}={TOKEN}"}
    for host in ("10.0.0.5:8899", "box:8899", "BOX.example.com", "[fe80::1]:80", "localhost"):
        assert allowed(OPEN, request(cookie, host=host)), host
    assert not allowed(OPEN, request(cookie, host="evil.example"))
    assert not allowed(OPEN, request({}, host="10.0.0.5:8899")), "never without a token"


def test_a_proxy_has_its_own_name() -> None:
    cookie = {"cookie": f"{PROXY.cookie}={TOKEN}"}
    assert allowed(PROXY, request(cookie, host="hub.example.com"))
    assert allowed(PROXY, request({**cookie, "origin": "https://hub.example.com"}, host="127.0.0.1:8899"))
    assert not allowed(PROXY, request({**cookie, "origin": "https://evil.example"}, host="127.0.0.1:8899"))


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://localhost:3000", "http://127.0.0.1:8898", "null", "file://", "", "http://[", "x"],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    """Also that of another port of this machine: other users may run servers there."""
    assert not allowed(LOCAL, request({**COOKIE, "origin": origin}))
    assert not allowed(LOCAL, request({**COOKIE, "origin": origin}), page=True)


def test_the_page_itself_may_read() -> None:
    assert allowed(LOCAL, request({**COOKIE, "origin": "http://127.0.0.1:8899", "sec-fetch-site": "same-origin"}))
    assert allowed(LOCAL, request({**COOKIE, "sec-fetch-site": "none"}))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "other"])
def test_other_sites_may_only_link_to_the_page(site: str) -> None:
    asked = {**COOKIE, "sec-fetch-site": site}
    link = {**asked, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert not allowed(LOCAL, request(asked))
    assert not allowed(LOCAL, request(link)), "documents are not linked to"
    assert not allowed(LOCAL, request(asked), page=True), "no script, no image, no fetch"
    assert allowed(LOCAL, request(link), page=True)
    assert not allowed(LOCAL, request({**link, "sec-fetch-dest": "iframe"}), page=True), "no frame"
