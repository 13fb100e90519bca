# SPDX-License-Identifier: Apache-2.0
"""`ttmem web` as a user starts it: a real process, a real server, and requests as attackers and browsers send them."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import PATIENCE, Server, not_none, wait_until
from ttmem import AllocationClient

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"
SAFE = ("content-security-policy", "x-content-type-options", "x-frame-options", "cross-origin-resource-policy")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Web:
    """`ttmem web` in a process of its own, on a free port."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ttmem", "web", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        self.printed = self.process.stdout.readline() if ready else ""
        found = re.fullmatch(r"Open (https?://\S+?:?(\d*)/\S*)\?token=(\S+)\n", self.printed)
        assert found, (self.printed, self.process.poll(), self.process.stderr and self.process.stderr.read())
        self.url, self.token = found[1], found[3]
        self.port = self._port()

    def _port(self) -> int:
        """From /proc: with --public-url, the printed address has the port of the proxy."""
        inodes = set()
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            target = os.readlink(f"/proc/{self.process.pid}/fd/{fd}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                return int(fields[1].split(":")[1], 16)
        raise AssertionError("it does not listen")

    def get(self, path: str, *, method: str = "GET", token: bool = True, **headers: Any) -> Answer:
        """Ask as a program does. Names of headers have underscores for hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            path += ("&" if "?" in path else "?") + f"token={self.token}"
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            for stream in (self.process.stdout, self.process.stderr):
                not_none(stream).close()
        return code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("web"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def web(server: Server) -> Iterator[Web]:
    found = Web("--socket", server.path)
    yield found
    assert found.stop() == 0


def test_the_token_leaves_the_address_bar(web: Web) -> None:
    first = web.get("/")
    assert (first.status, first.headers["location"], first.body) == (303, "./", b"")
    cookie, *attributes = first.headers["set-cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=Strict"]
    page = web.get("/", token=False, Cookie=cookie)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert web.token.encode() not in page.body, "a page that is saved does not contain the token"
    assert b'"page":"live"' in page.body
    for name, kind in (("app.js", "text/javascript"), ("app.css", "text/css")):
        answer = web.get(f"/{name}", token=False, Cookie=cookie)
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, kind)
        assert len(answer.body) > 1000


def test_every_answer_has_the_headers_that_protect_it(web: Web) -> None:
    for path in ("/", "/app.js", "/api/snapshot", "/api/nothing", "/nothing"):
        for answer in (web.get(path), web.get(path, token=False), web.get(path, Host="evil.example")):
            assert answer.headers["content-security-policy"].startswith(POLICY), path
            assert set(SAFE) <= set(answer.headers)
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/snapshot", "/api/doctor", "/api/events", "/nothing"])
def test_nothing_without_the_token(web: Web, path: str) -> None:
    wrong = "x" * len(web.token)
    for answer in (web.get(path, token=False), web.get(f"{path}?token={wrong}", token=False)):
        assert answer.status == 403
        assert b"token is missing or wrong" in answer.body.lower()
        assert b"snapshot/1" not in answer.body
    assert web.get(path, token=False, Cookie=f"ttmem={web.token}").status == 403


def test_a_foreign_host_or_origin_reads_nothing(web: Web) -> None:
    foreign: list[dict[str, Any]] = [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{web.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{web.port + 1}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ]
    for headers in foreign:
        for path in ("/", "/app.js", "/api/snapshot"):
            assert web.get(path, **headers).status == 403, (path, headers)
    assert web.get("/api/snapshot", Host=f"localhost:{web.port + 1}").status == 200, "ssh may forward another port"
    assert web.get("/api/snapshot", Origin=f"http://127.0.0.1:{web.port}", Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_changes_nothing(web: Web, server: Server, method: str) -> None:
    for path in ("/", "/api/snapshot", "/api/peaks/reset"):
        assert web.get(path, method=method).status == 405
    assert web.get("/api/peaks/reset").status == 404
    assert server.get("/peaks")["reset"] is None


@pytest.mark.parametrize(
    "path",
    ["/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/app.js/../../etc/passwd",
     "/app.js%00.css", "//etc/passwd", "/\\..\\etc", "/api/../app.css", "/api/%2e%2e/%2e%2e/dump", "/api//snapshot",
     "/api/snapshot/", "/api/processes/1%2f..%2f..%2fdump", "/bundle/app.js", "/section/../../x"],
)  # fmt: skip
def test_no_path_leads_elsewhere(web: Web, path: str) -> None:
    answer = web.get(path)
    assert answer.status in (400, 404), answer
    assert b"root:" not in answer.body
    assert b"function" not in answer.body


def test_requests_that_are_too_large_or_no_http(web: Web) -> None:
    assert web.get("/api/snapshot", X="x" * 20_000).status == 431
    assert web.get("/api/allocations?text=" + "x" * 8000).status == 400
    for text in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET http:// HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as sock:
            sock.sendall(text)
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")), answer[:100]


def test_too_many_connections_are_refused_and_others_served(web: Web) -> None:
    held: list[socket.socket] = []
    try:
        held += [socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) for _ in range(64)]
        wait_until(lambda: web.get("/api/health").status == 503, "the limit")
    finally:
        for sock in held:
            sock.close()
    wait_until(lambda: web.get("/api/health").status == 200, "room for others")


def test_names_full_of_markup_stay_text(web: Web, server: Server) -> None:
    hostile = "</script><img src=x onerror=alert(1)>\x1b]0;x\x07\u202e"
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_allocation(device_id=0, buffer_id=0x1000, size=4096, buffer_type="dram", tag=hostile)
    client.mark(hostile)
    assert client.flush(PATIENCE)
    answer = web.get("/api/allocations?limit=10")
    assert [one["tag"] for one in answer.json()["allocations"]] == [hostile]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"\x1b" not in answer.body
    client.close()


def test_events_are_passed_on_while_a_page_asks(web: Web, server: Server) -> None:
    client = AllocationClient(enabled=True, socket_path=server.path)
    number = 0

    def marks() -> list[str]:
        nonlocal number
        client.mark("seen")
        client.flush(PATIENCE)
        news = web.get(f"/api/events?after={number}").json()
        number = news["number"]
        return [one["text"] for one in news["events"] if one["event"] == "Mark"]

    wait_until(lambda: "seen" in marks(), "an event on the page")
    assert web.get(f"/api/events?after={number}").json()["events"] == []
    client.close()


def test_documents_are_those_of_the_server(web: Web, server: Server) -> None:
    assert web.get("/api/health").json()["pid"] == server.process.pid
    assert web.get("/api/history?step=7").status == 502
    assert "step is 1" in web.get("/api/history?step=7").json()["error"]
    assert web.get("/api/snapshot", method="HEAD").body == b""


def test_it_waits_for_a_server_and_finds_it_again(tmp_path: Path) -> None:
    web = Web("--socket", str(tmp_path / "ttmem.sock"), "--root", str(tmp_path))
    try:
        first = web.get("/api/snapshot").json()
        assert first["server"] is None
        assert "start one with" in next(one["detail"] for one in first["sources"] if one["name"] == "server")
        for _ in range(2):
            server = Server(tmp_path)
            wait_until(lambda: web.get("/api/snapshot").json()["server"], "the server on the page")
            server.stop()
            wait_until(lambda: web.get("/api/snapshot").json()["server"] is None, "its end on the page")
    finally:
        assert web.stop(signal.SIGINT) == 0


def test_a_port_in_use_is_an_error(web: Web) -> None:
    command = [sys.executable, "-m", "ttmem", "web", "--port", str(web.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    advice = "choose another with --port, or any free one with --port 0"
    assert done.stderr == f"ttmem web: port {web.port} of 127.0.0.1 is in use; {advice}\n"


def test_it_says_how_to_reach_it(web: Web) -> None:
    page = web.get("/", token=False, Cookie=web.get("/").headers["set-cookie"].split(";")[0])
    assert f"ssh -L {web.port}:127.0.0.1:{web.port} ".encode() in page.body


def test_behind_a_proxy(server: Server) -> None:
    web = Web("--socket", server.path, "--public-url", "https://hub.example.com/user/me/ttmem/")
    try:
        assert web.url == "https://hub.example.com/user/me/ttmem/"
        for path in ("/user/me/ttmem/", "/"):  # with the prefix, or without it if the proxy removes it
            first = web.get(path, Host="hub.example.com")
            assert (first.status, first.headers["location"]) == (303, "./")
            assert first.headers["set-cookie"].endswith("; Secure")
        assert web.get("/user/me/ttmem/api/snapshot", Host="hub.example.com").status == 200
        assert web.get("/user/me/other/api/snapshot", Host="hub.example.com").status == 404
        assert web.get("/user/me/ttmem/api/snapshot", Host="evil.example").status == 403
    finally:
        assert web.stop() == 0


def test_the_demo_in_a_browser() -> None:
    """--seconds ends it, and the summary follows."""
    command = [sys.executable, "-m", "ttmem", "demo", "--web", "--port", "0", "--seconds", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = not_none(process.stdout).readline()
        found = re.fullmatch(r"Open http://127\.0\.0\.1:(\d+)/\?token=(\S+)\n", line)
        assert found, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)
        connection.request("GET", f"/api/health?token={found[2]}")
        assert json.loads(connection.getresponse().read())["schema"] == "ttmem.health/1"
        connection.close()
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Still allocated: nothing." in out


def test_ctrl_c_ends_the_demo_with_its_summary() -> None:
    """A terminal sends SIGINT to the whole process group: the demo, its server and its workers."""
    command = [sys.executable, "-m", "ttmem", "demo", "--web", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert not_none(process.stdout).readline().startswith("Open http://127.0.0.1:")
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "Still allocated: nothing." in out
    assert "killed by" not in out
