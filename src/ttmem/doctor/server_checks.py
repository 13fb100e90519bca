# SPDX-License-Identifier: Apache-2.0
"""Checks of the server: does one answer, is it ours, and what else is on the paths where it is looked for?"""

from __future__ import annotations

from collections.abc import Iterator

import ttmem
from ttmem.doctor import endpoints as places
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.endpoints import Place, listener
from ttmem.doctor.findings import Message, broken, count, ok, some, warning
from ttmem.wire.endpoint import LEGACY_PATH


def server(context: DoctorContext) -> Iterator[Message]:
    """Does a server answer, and is it of this version?"""
    place = context.server
    looked = some([one.path for one in context.places])
    if place is not None and place.health is not None:
        health = place.health
        found = f"ttmem {health['version']}, pid {health['pid']}, of uid {place.user_id}, on {place.path}"
        if health["version"] != ttmem.__version__:
            yield warning(
                looked, f"{found}; this command is ttmem {ttmem.__version__}",
                "restart the server with the version that is installed: `ttmem serve`",
            )  # fmt: skip
        else:
            yield ok(looked, f"{found}, {count(health['clients'], 'client')}, {count(health['events'], 'event')}")
        return
    stuck = next((one for one in context.places if one.state == places.SILENT), None)
    shut = next((one for one in context.places if one.state == places.CLOSED), None)
    if stuck is not None:
        pid = stuck.pid or "PID"
        yield broken(stuck.path, stuck.why or "it does not answer", f"is it stopped? `kill -CONT {pid}`, or restart it")
    elif shut is not None:
        yield broken(
            shut.path, f"a server may be there: {shut.why}",
            "ask its operator for its group (`ttmem serve --group NAME`), or start one of your own: `ttmem serve`",
        )  # fmt: skip
    elif context.elsewhere:
        other = context.elsewhere[0].path
        yield warning(
            looked, f"no server answers there; one does on {other}, where you do not look",
            "unset TTMEM_SOCKET and TTMEM_API, or leave --api out",
        )  # fmt: skip
    else:
        yield warning(
            looked, "no server answers; smi shows telemetry and tt-metal's counters only, and no history is kept",
            "start one with `ttmem serve`; `ttmem run -- COMMAND` accounts for one command without",
        )  # fmt: skip


def sockets(context: DoctorContext) -> Iterator[Message]:
    """Is somebody, or something, on a path where programs look for the server?"""
    problems = [said for place in context.places if (said := _problem(place, alone=context.server is None)) is not None]
    yield from problems
    answering = [place for place in (*context.places, *context.elsewhere) if place.health is not None]
    if len(answering) > 1:
        paths = [place.path for place in answering]
        yield warning(
            some(paths), f"{len(answering)} servers answer; we ask the first, and programs may report to another",
            f"stop the others, or choose one for programs and screens alike: TTMEM_SOCKET={paths[0]}",
        )  # fmt: skip
    elif not problems:
        yield ok(some([place.path for place in context.places]), "nobody else is there")


def _problem(place: Place, *, alone: bool) -> Message | None:
    """``alone``: no server answers anywhere, so it is worse."""
    judge = broken if alone else warning
    if place.state == places.FOREIGN:
        return judge(
            place.path, f"{place.why}; no program of yours talks to it",
            "if you do not know why it is there, tell your administrator; set TTMEM_SOCKET to a path of your own, or "
            "have root run the server in /run/ttmem",
        )  # fmt: skip
    if place.state == places.IN_THE_WAY:
        return judge(place.path, f"{place.why}: a server cannot listen there", f"remove it: `rm {place.path}`")
    if place.state == places.OTHER:
        why = place.why or "it is not a ttmem server"
        return judge(
            place.path, f"pid {place.pid or '?'} listens there: {why}",
            "stop that program, or start the server elsewhere and set TTMEM_SOCKET to that",
        )  # fmt: skip
    if place.state == places.STALE:
        return warning(
            place.path, f"{place.why}: a server was killed there",
            "start it again with `ttmem serve`, which takes the path over",
        )  # fmt: skip
    return None


def legacy_socket(context: DoctorContext) -> Iterator[Message]:
    """Programs built with the proof of concept know one path only."""
    path = context.path(LEGACY_PATH)
    found = listener(path, named=True)
    ours = context.server.pid if context.server is not None else None
    lost = "programs built with the proof of concept report there, and not to ttmem"
    if found.state == places.NOTHING:
        yield ok(path, "nobody is there; only programs built with the proof of concept need it")
    elif found.state == places.OTHER and found.pid is not None and found.pid == ours:
        yield ok(path, "the ttmem server listens here, too")
    elif found.state == places.STALE and ours is None:
        yield ok(path, "left over by a server that was killed; the next one takes it over")
    elif found.state == places.STALE:
        yield warning(path, f"{found.why}: {lost}", "restart the server without --no-legacy-path")
    else:
        who = (
            f"pid {found.pid or '?'} of uid {found.user_id} listens there" if found.state == places.OTHER else found.why
        )
        yield warning(
            path, f"{who}: {lost}", "stop what holds it (the old allocation server?), then restart `ttmem serve`"
        )
