# SPDX-License-Identifier: Apache-2.0
"""Fixtures: servers and clients that end with the test, tests that run alone, and the cases of a brief run.

The environment is the same for all tests. Variables of a terminal, a shell, a CI or another ttmem reach neither the
tests nor the processes they start. Signals that were ignored at the start are not ignored.

With TTMEM_TESTS=brief, property tests have few examples, and tests with many cases run some of them: for further
versions of Python, after one version has run everything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import browser
from tests.support import PATIENCE, LegacyClient, Server
from ttmem.doctor import agent_checks as agent
from ttmem.doctor import context, endpoints, locate

_KEPT = ("TTMEM_TESTS", "TTMEM_RENEW_SCREENS", browser.REQUIRED)
_DROPPED = ("TT_", "TTNN_", "TTMEM_", "LC_", "XDG_", "PYTHON", "TEXTUAL_")  # how their names begin
_SET = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "TZ": "UTC", "TTMEM_SOCKET": "/nonexistent/ttmem.sock"}

for _name in list(os.environ):
    if _name not in _KEPT and _name.startswith(_DROPPED):
        del os.environ[_name]
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "LANGUAGE", "LD_PRELOAD"):
    os.environ.pop(_name, None)
os.environ.update(_SET)  # do not find a server of this machine by default
time.tzset()

# nohup ignores SIGHUP, and a shell ignores SIGINT for background jobs. A handler that does nothing has the same effect
# here, and is not inherited over an exec.
for _number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)

_ASKED = os.environ.get("TTMEM_TESTS", "")
BRIEF = _ASKED == "brief"
_EXAMPLES = 4  # of each property in a brief run
_CASES = 3  # of each test
_SETTINGS = "_hypothesis_internal_use_settings"  # a decorated test cannot be decorated again
_left_out = pytest.StashKey[str]()

# Property tests do not depend on the speed of the machine, and are the same each time.
settings.register_profile("ttmem", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ttmem")


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not BRIEF:
        if _ASKED:
            raise pytest.UsageError(f"TTMEM_TESTS={_ASKED}: it may be brief, or unset for every case")
        return
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    laws = {test: some[0].obj for test, some in cases.items() if some[0].get_closest_marker("hypothesis")}  # type: ignore[attr-defined]
    for law in laws.values():
        chosen = getattr(law, _SETTINGS)
        setattr(law, _SETTINGS, settings(chosen, max_examples=min(_EXAMPLES, chosen.max_examples)))
    # Evenly over the list, so that first and last kinds of cases are both included.
    kept = {item for some in cases.values() for item in some[:: -(-len(some) // _CASES)]}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    config.stash[_left_out] = (
        f"brief: {len(kept)} of {len(items)} cases, at most {_CASES} of each of {len(cases)} tests; "
        f"at most {_EXAMPLES} examples of each of {len(laws)} laws"
    )
    items[:] = [item for item in items if item in kept]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Every worker must give a case the same name, so names must not contain the pid of the worker."""
    own = f"pid {os.getpid()}"
    return val.replace(own, "pid of the test") if isinstance(val, str) and own in val else None


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    return config.stash.get(_left_out, "")


@pytest.fixture(autouse=True)
def beside_others(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests of several workers run at the same time; a test that is marked `alone` runs alone.

    A test takes the first lock only to get its turn; otherwise a test that must run alone might wait forever.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent  # the same for all workers
    with contextlib.ExitStack() as files:
        door, room = (files.enter_context(open(folder / name, "w")) for name in ("door.lock", "room.lock"))
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, whatever $TMPDIR is, because the path of a socket has at most 107 bytes."""
    usual = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="ttmem-", dir=usual if len(usual) < 30 else "/tmp") as name:
        yield Path(name)


@pytest.fixture
def patient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timeouts of the checks of `ttmem doctor` that are long enough for a busy machine."""
    for module in (agent, locate, endpoints):
        monkeypatch.setattr(module, "_SECONDS", PATIENCE)
    monkeypatch.setattr(context, "_SNAPSHOT_SECONDS", PATIENCE)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Server]]:
    """A function that starts servers."""
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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of a module. The test is skipped if there is none."""
    with browser.running_browser() as started:
        yield started


@pytest.fixture
def tabs(chromium: Any) -> Iterator[Callable[..., browser.Tab]]:
    """Opens tabs. At the end of the test, each must be without errors and must have asked for nothing."""
    opened: list[browser.Tab] = []

    def open_tab(**keywords: Any) -> browser.Tab:
        opened.append(browser.Tab(chromium, **keywords))
        return opened[-1]

    yield open_tab
    try:
        for one in opened:
            one.check()
    finally:
        for one in opened:
            one.close()


@pytest.fixture
def tab(tabs: Callable[..., browser.Tab]) -> browser.Tab:
    return tabs()
