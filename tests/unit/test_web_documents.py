# SPDX-License-Identifier: Apache-2.0
"""The documents of the live page: few questions to the server for many tabs, and only those that read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE, api_over
from ttmem.account.ledger import Ledger
from ttmem.pages import web_documents
from ttmem.pages.web_documents import FORWARDED, WebDocuments
from ttmem.server.http_server import HttpError
from ttmem.wire.api_client import ApiError, NoServer


class Asked:
    """Stands for the server: counts what is asked."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.error: ApiError | None = None

    def get(self, path: str, **_: Any) -> bytes:
        self.paths.append(path)
        if self.error is not None:
            raise self.error
        return json.dumps({"number": len(self.paths)}).encode()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    server = Asked()
    monkeypatch.setattr(web_documents, "get", server.get)
    return server


def run(work: Callable[[WebDocuments], Awaitable[Any]], root: str = "/nowhere") -> Any:
    async def all_of_it() -> Any:
        documents = WebDocuments("/nowhere/ttmem.api.sock", root=root)
        try:
            return await work(documents)
        finally:
            documents.close()

    return asyncio.run(all_of_it())


def test_tabs_share_the_answers(asked: Asked) -> None:
    async def ten_tabs(documents: WebDocuments) -> list[bytes]:
        return [*await asyncio.gather(*(documents.answer("snapshot", {}) for _ in range(10)))]

    assert set(run(ten_tabs)) == {b'{"number": 1}'}
    assert asked.paths == ["/snapshot"]


def test_an_answer_is_kept_for_less_than_an_interval(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(web_documents, "monotonic", lambda: clock[0])

    async def twice(documents: WebDocuments, later: float) -> None:
        await documents.answer("health", {})
        clock[0] += later
        await documents.answer("health", {})

    run(lambda documents: twice(documents, 0.3))
    assert asked.paths == ["/health"]
    run(lambda documents: twice(documents, 0.5))
    assert asked.paths == ["/health"] * 3


def test_parameters_are_passed_on_encoded(asked: Asked) -> None:
    hostile = "a b&pid=1\r\nX: y\0é"
    run(lambda documents: documents.answer("allocations", {"text": hostile, "limit": "5"}))
    assert asked.paths == ["/allocations?text=a+b%26pid%3D1%0D%0AX%3A+y%00%C3%A9&limit=5"]


@pytest.mark.parametrize(
    "name",
    ["", "peaks/reset", "dump", "metrics", "../snapshot", "snapshot/..", "processes/1/x", "processes/../dump",
     "processes/x", "processes/١", "processes/", "snapshot/", "snapshot/1", "snapshot?machine=0", "SNAPSHOT",
     "events/x", "/snapshot", "é", "x" * 5000],
)  # fmt: skip
def test_other_paths_are_not_passed_on(asked: Asked, name: str) -> None:
    with pytest.raises(HttpError) as refused:
        run(lambda documents: documents.answer(name, {}))
    assert refused.value.status == 404
    assert asked.paths == []


def test_only_routes_that_read_are_passed_on() -> None:
    """Each of them is a route of the server that takes GET only."""
    routes = api_over(Ledger(), {}).routes
    for name in FORWARDED:
        assert {route.method for route in routes if route.path == f"/{name}"} == {"GET"}, name
    assert FORWARDED.isdisjoint({"dump", "metrics", "events"})


def test_long_parameters_are_refused(asked: Asked) -> None:
    with pytest.raises(HttpError) as refused:
        run(lambda documents: documents.answer("allocations", {"text": "x" * 5000}))
    assert refused.value.status == 400
    assert asked.paths == []


def test_a_process_by_its_pid(asked: Asked) -> None:
    run(lambda documents: documents.answer("processes/4711", {}))
    assert asked.paths == ["/processes/4711"]


def test_without_a_server_the_machine_is_shown(asked: Asked, tmp_path: Path) -> None:
    asked.error = NoServer("no ttmem server answers on here; start one with `ttmem serve`")
    found = json.loads(run(lambda documents: documents.answer("snapshot", {}), str(tmp_path)))
    assert found["schema"] == "ttmem.snapshot/1"
    assert found["server"] is None
    (server,) = [one for one in found["sources"] if one["name"] == "server"]
    assert (server["state"], server["detail"]) == ("not running", str(asked.error))
    with pytest.raises(HttpError) as refused:
        run(lambda documents: documents.answer("breakdown", {}), str(tmp_path))
    assert refused.value.status == 503


def test_a_server_that_does_not_answer_is_an_error_and_asked_again(asked: Asked) -> None:
    async def again(documents: WebDocuments) -> Any:
        with pytest.raises(HttpError) as refused:
            await documents.answer("snapshot", {})
        assert (refused.value.status, str(refused.value)) == (502, "it does not answer")
        asked.error = None
        return json.loads(await documents.answer("snapshot", {}))

    asked.error = ApiError("it does not answer")
    assert run(again) == {"number": 2}


def test_answers_are_kept_within_a_limit(asked: Asked) -> None:
    async def many(documents: WebDocuments) -> int:
        for number in range(200):
            await documents.answer("allocations", {"offset": str(number)})
        return len(documents._kept)

    assert run(many) <= 64
    assert len(asked.paths) == 200


def test_there_is_a_limit_of_questions_at_a_time(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()
    monkeypatch.setattr(web_documents, "get", lambda path, **_: b"{}" if answering.wait(PATIENCE) else b"")

    async def many(documents: WebDocuments) -> list[bytes | BaseException]:
        asks = [documents.answer("allocations", {"offset": str(number)}) for number in range(70)]
        waiting = asyncio.gather(*asks, return_exceptions=True)
        await asyncio.sleep(0)
        answering.set()
        return await waiting

    found = run(many)
    assert [type(one) for one in found] == [bytes] * 64 + [HttpError] * 6


def test_findings_of_doctor(tmp_path: Path) -> None:
    found = json.loads(run(lambda documents: documents.answer("doctor", {}), str(tmp_path)))
    assert found["schema"] == "ttmem.doctor/1"
    assert {"check", "level", "found"} <= set(found["findings"][0])


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "9" * 20])
def test_numbers_of_events(asked: Asked, after: str) -> None:
    with pytest.raises(HttpError) as refused:
        run(lambda documents: documents.answer("events", {"after": after}))
    assert refused.value.status == 400
