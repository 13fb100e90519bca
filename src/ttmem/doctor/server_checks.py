# SPDX-License-Identifier: Apache-2.0
"""Checks of the server: whether one answers, who owns it, and what else uses the socket paths."""

from __future__ import annotations

from collections.abc import Iterator

import ttmem
from ttmem.doctor import endpoints
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.endpoints import Endpoint, listener
from ttmem.doctor.findings import Message, broken, count, ok, some, warning
from ttmem.wire.endpoint import LEGACY_PATH


def server(context: DoctorContext) -> Iterator[Message]:
    """Whether a server answers, and has this version."""
    endpoint = context.server
    looked = some([one.path for one in context.endpoints])
    if endpoint is not None and endpoint.health is not None:
        health = endpoint.health
        found = f"ttmem {health['version']}, pid {health['pid']}, of uid {endpoint.user_id}, on {endpoint.path}"
        if health["version"] != ttmem.__version__:
            yield warning(
                looked, f"{found}; this command is ttmem {ttmem.__version__}",
                "restart the server with the installed version: `ttmem serve`",
            )  # fmt: skip
        else:
            yield ok(looked, f"{found}, {count(health['clients'], 'client')}, {count(health['events'], 'event')}")
        return
    stuck = next((one for one in context.endpoints if one.state == endpoints.SILENT), None)
    shut = next((one for one in context.endpoints if one.state == endpoints.CLOSED), None)
    if stuck is not None:
        pid = stuck.pid or "PID"
        yield broken(
            stuck.path, stuck.why or "it does not answer", f"if it is stopped: `kill -CONT {pid}`; else restart it"
        )
    elif shut is not None:
        yield broken(
            shut.path, f"a server may be there: {shut.why}",
            "ask its operator for access (`ttmem serve --group NAME`), or start your own server: `ttmem serve`",
        )  # fmt: skip
    elif context.elsewhere:
        other = context.elsewhere[0].path
        yield warning(
            looked, f"no server answers there; one answers on {other}, which is not among these paths",
            "unset TTMEM_SOCKET, or omit --socket",
        )  # fmt: skip
    else:
        yield warning(
            looked, "no server answers; `ttmem smi` shows only telemetry and tt-metal's counters, without history",
            "start one with `ttmem serve`; `ttmem run -- COMMAND` tracks one command without a server",
        )  # fmt: skip


def sockets(context: DoctorContext) -> Iterator[Message]:
    """Whether anything other than a server is at the paths that programs use."""
    alone = context.server is None
    problems = [problem for one in context.endpoints if (problem := _problem(one, alone=alone)) is not None]
    yield from problems
    answering = [endpoint for endpoint in (*context.endpoints, *context.elsewhere) if endpoint.health is not None]
    if len(answering) > 1:
        paths = [endpoint.path for endpoint in answering]
        yield warning(
            some(paths), f"{len(answering)} servers answer; ttmem uses the first, and programs may report to another",
            f"stop the others, or choose one for all programs and commands: TTMEM_SOCKET={paths[0]}",
        )  # fmt: skip
    elif not problems:
        yield ok(some([endpoint.path for endpoint in context.endpoints]), "no other program listens there")


def _problem(endpoint: Endpoint, *, alone: bool) -> Message | None:
    """The problem with an endpoint, or None. ``alone``: no server answers anywhere, so it is worse."""
    judge = broken if alone else warning
    if endpoint.state == endpoints.FOREIGN:
        return judge(
            endpoint.path, f"{endpoint.why}; your programs do not connect to it",
            "if you do not know why it is there, tell your administrator; set TTMEM_SOCKET to a path of your own, or "
            "have root run the server in /run/ttmem",
        )  # fmt: skip
    if endpoint.state == endpoints.IN_THE_WAY:
        return judge(endpoint.path, f"{endpoint.why}: a server cannot listen there", f"remove it: `rm {endpoint.path}`")
    if endpoint.state == endpoints.OTHER:
        why = endpoint.why or "it is not a ttmem server"
        return judge(
            endpoint.path, f"pid {endpoint.pid or '?'} listens there: {why}",
            "stop that program, or start the server on another path and set TTMEM_SOCKET to it",
        )  # fmt: skip
    if endpoint.state == endpoints.STALE:
        return warning(
            endpoint.path, f"{endpoint.why}: a server on this path was killed",
            "start it again with `ttmem serve`, which reuses the path",
        )  # fmt: skip
    return None


def legacy_socket(context: DoctorContext) -> Iterator[Message]:
    """Who listens on the only path that programs built with the proof of concept use."""
    path = context.path(LEGACY_PATH)
    found = listener(path, named=True)
    ours = context.server.pid if context.server is not None else None
    lost = "programs built with the proof of concept report there, not to ttmem"
    if found.state == endpoints.NOTHING:
        yield ok(path, "not in use; only programs built with the proof of concept need it")
    elif found.state == endpoints.OTHER and found.pid is not None and found.pid == ours:
        yield ok(path, "the ttmem server also listens here")
    elif found.state == endpoints.STALE and ours is None:
        yield ok(path, "left over by a server that was killed; the next one reuses it")
    elif found.state == endpoints.STALE:
        yield warning(path, f"{found.why}: {lost}", "restart the server without --no-legacy-path")
    else:
        who = (
            f"pid {found.pid or '?'} of uid {found.user_id} listens there"
            if found.state == endpoints.OTHER
            else found.why
        )
        yield warning(
            path,
            f"{who}: {lost}",
            "stop the program that uses it (perhaps the old allocation server), then restart `ttmem serve`",
        )
