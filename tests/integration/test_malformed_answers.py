# SPDX-License-Identifier: Apache-2.0
"""Servers with malformed answers: every command reports that in one sentence, never as an internal error."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HOSTILE, assert_printable
from tests.screens import VIEWS, world
from tests.unit.test_data_feed import Api
from tests.worlds import NOW
from ttmem.cli import main
from ttmem.show.text import Style
from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.data_feed import DataFeed
from ttmem.show.top.parts.rows import Characters, Size, text_of
from ttmem.show.top.settings import Settings
from ttmem.show.top.start import views_of

Json = Any  # a document made by hand, or a part of one
UID = "880001"
# Each command that shows an answer, what it asks for, and its exit code for an error.
COMMANDS: dict[str, tuple[list[str], list[str], int]] = {
    "smi": (["smi"], ["/snapshot"], 1),
    "smi -d": (["smi", "-d", UID], ["/snapshot"], 1),
    "smi --csv": (["smi", "--csv"], ["/snapshot"], 1),
    "l1": (["l1", "-d", UID, "--core", "0,0"], ["/snapshot", f"/cores?chip={UID}&core=0%2C0"], 1),
    "leaks": (["leaks"], ["/snapshot", "/leaks?"], 1),
    "dump": (["dump"], ["/snapshot", "/dump?limit=10"], 1),
    "dump --json": (["dump", "--json"], ["/dump?limit=10"], 1),
    "dump --by": (["dump", "--by", "op"], ["/breakdown?by=op&limit=10000"], 1),
    "dump --by stack": (["dump", "--by", "stack"], ["/breakdown?by=stack&limit=10000"], 1),
}
CASES = [(name, path) for name, (_, paths, _) in COMMANDS.items() for path in paths]
every_answer = pytest.mark.parametrize(("name", "path"), CASES)


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    made = Api(folder / "x.api.sock")
    yield made
    made.close()


def real(path: str) -> Any:
    if path == "/snapshot":
        return world(1).snapshot
    return world(1).get(path.replace("%2C", ","))


def ask(name: str, api: Api, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([*COMMANDS[name][0], "--socket", api.path])
    out, err = capsys.readouterr()
    return code, out, err


def refused(name: str, api: Api, capsys: pytest.CaptureFixture[str]) -> str:
    code, out, err = ask(name, api, capsys)
    assert code == COMMANDS[name][2], err
    assert not out
    assert len(err.splitlines()) == 1
    assert "internal error" not in err
    assert_printable(err)
    return err


@every_answer
def test_the_real_answer_is_shown(name: str, path: str, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = {one: real(one) for one in COMMANDS[name][1]}
    code, out, err = ask(name, api, capsys)
    assert code in (0, 3), err
    assert out
    assert not err


@every_answer
@pytest.mark.parametrize(
    "body",
    ["[]", "null", '"text"', "5", "{}", "[[1]]", '{"schema": 7}', "{", "", "x", pytest.param("[" * 9000, id="deep")],
)
def test_json_of_another_shape(name: str, path: str, body: str, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = {**{one: real(one) for one in COMMANDS[name][1]}, path: body.encode()}
    refused(name, api, capsys)


def _raw(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


@every_answer
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a ttmem server"),
        (b"hello", "is not a ttmem server"),
        (b"\0\1\2\r\n\r\n{}", "is not a ttmem server"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "is not a ttmem server"),
        (b"HTTP/1.1 200 OK\r\ncontent-len", "is not a ttmem server"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}", "2 of 100 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n{}", "is not a ttmem server"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "the server reports: 204"),
        (b"HTTP/1.1 500 no\r\n\r\n{}", "the server reports: 500"),
        (b"HTTP/1.1 500 no\r\n\r\n[[", "the server reports: 500"),
        (b'HTTP/1.1 404 no\r\n\r\n{"error": ["x"]}', "the server reports: ['x']"),
        (b"HTTP/1.1 404 no\r\n\r\n" + json.dumps({"error": HOSTILE}).encode(), "evil"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe{}", "is not a ttmem server"),
    ],
)
def test_what_is_no_answer(
    name: str, path: str, data: bytes, words: str, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers = {**{one: real(one) for one in COMMANDS[name][1]}, path: _raw(data)}
    assert words in refused(name, api, capsys)


# -- every field of another type, or missing ---------------------------------------------------------------------

NAN = float("nan")
OTHERS: tuple[Any, ...] = (None, "x", -1, [], {}, 1e308, NAN, 1 << 70, True, [None], {"a": 1}, 1 << 40, HOSTILE)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of values in a document: all fields, and the first entry of lists."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def changed(document: Any, path: tuple[Any, ...], value: Any, *, remove: bool = False) -> Any:
    document = copy.deepcopy(document)
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    if remove:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return document


def mutants(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each place missing, and then with another type."""
    for number, path in enumerate(places(document)):
        yield path, changed(document, path, None, remove=True)
        other = OTHERS[number % len(OTHERS)]
        yield (path, other), changed(document, path, other)


@every_answer
def test_every_field(name: str, path: str, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    if "format=text" in path:
        return  # it has none
    api.answers = {one: real(one) for one in COMMANDS[name][1]}
    wrong = 0
    for what, document in mutants(real(path)):
        api.answers[path] = json.dumps(document).encode()
        code, out, err = ask(name, api, capsys)
        assert "internal error" not in err, (what, err)
        assert_printable(out.replace("\r\n", "\n"), what)
        assert_printable(err, what)
        assert code in (0, 1, 2, 3), what
        wrong += bool(err)
    assert wrong or name == "dump --json"


def test_every_field_of_a_snapshot_on_the_dashboard(api: Api) -> None:
    """A screen that cannot be drawn is reported, and the next one is drawn."""
    told = 0
    for what, document in mutants(world(1).snapshot):
        api.answers["/snapshot"] = json.dumps(document).encode()
        model = Model()
        dashboard = Dashboard(model, views_of("/nowhere"), Settings("/nowhere/top.json"), Characters())
        feed = DataFeed(lambda news: None, api=api.path, root="/nowhere")
        news = feed.round()
        dashboard.take(news, [])
        for current in range(len(dashboard.views)):
            dashboard.current = current
            rows = dashboard.rows(Size(120, 40), 0.0)
            dashboard.wants()
            text = "\n".join(text_of(row) for row in rows)
            assert_printable(text, what)
            told += "cannot be shown" in text
        model.message = None
        model.take(Style().clean(world(1).snapshot), NOW, 0.0)
        assert "box" in text_of(dashboard.rows(Size(120, 40), 0.0)[0])
    assert told
    assert len(VIEWS) > len(dashboard.views)
