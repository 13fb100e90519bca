# SPDX-License-Identifier: Apache-2.0
"""The doctor as a whole: a failing check does not stop others, the verdict counts, every check is documented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests import machines
from tests.support import ROOT
from ttmem.doctor import checks
from ttmem.doctor.checks import CHECKS, document, examine, exit_code, verdict
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import LEVELS, Finding, Message, broken, ok, unknown, warning
from ttmem.show.doctor_text import render, verdict_line
from ttmem.show.text import Style

pytestmark = pytest.mark.usefixtures("patient_doctor")

PAGE = (ROOT / "docs/troubleshooting.md").read_text()


def test_every_check_has_its_section_and_every_section_its_check() -> None:
    assert re.findall(r"^## `([a-z-]+)`", PAGE, re.MULTILINE) == list(CHECKS)


def test_every_section_says_what_is_seen_why_and_what_to_do() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        if section.startswith("`"):
            lacking = [
                word for word in ("**Symptom**", "**Doctor says**", "**Why**", "**To do**") if word not in section
            ]
            assert not lacking, section.partition("\n")[0]


def test_what_a_finding_points_to_is_a_check() -> None:
    """`hooks`, in a sentence, refers to the check of that name."""
    folder = ROOT / "src/ttmem/doctor"
    named = {name for path in folder.glob("*.py") for name in re.findall(r"see `([a-z-]+)`", path.read_text())}
    assert named
    assert named <= set(CHECKS)


def test_a_machine_in_a_folder_is_examined_whole(folder: Path) -> None:
    machines.t3k(folder)
    found = examine(DoctorContext(str(folder), {}))
    assert list(dict.fromkeys(finding.check for finding in found)) == list(CHECKS)
    for finding in found:
        assert finding.level in LEVELS
        assert "check itself failed" not in finding.found
        assert finding.looked_at
        assert finding.found
        assert (finding.todo is None) or finding.level != "ok"
        assert finding.todo is not None or finding.level in ("ok", "unknown")


def talks(context: DoctorContext) -> Iterator[Message]:
    yield ok("a", "fine")


def stumbles(context: DoctorContext) -> Iterator[Message]:
    yield warning("b", "odd", "mend it")
    raise RuntimeError("the ground was uneven")


def test_a_check_that_fails_is_unknown_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CHECKS", {"first": stumbles, "second": talks})
    found = examine(DoctorContext("/nowhere", {}))
    assert [(finding.check, finding.level) for finding in found] == [
        ("first", "warning"), ("first", "unknown"), ("second", "ok"),
    ]  # fmt: skip
    assert "RuntimeError: the ground was uneven" in found[1].found


def finding(name: str, said: Message) -> Finding:
    return Finding(name, *said)


FINE = finding("agent", ok("lib.so", "loads"))
UNKNOWN = finding("ttnn", unknown("python", "no ttnn there", "name another"))
ODD = finding("server", warning("/run/x.sock", "nobody answers", "start one"))
BROKEN = finding("driver", broken("/sys", "a card and no driver", "load it"))


@pytest.mark.parametrize(
    ("found", "code", "line"),
    [
        ([FINE, FINE], 0, "ttmem doctor: 0 broken, 0 warnings, 2 ok"),
        ([FINE, UNKNOWN], 0, "ttmem doctor: 0 broken, 0 warnings, 1 ok, 1 unknown"),
        ([ODD, FINE], 0, "ttmem doctor: 0 broken, 1 warning, 1 ok"),
        ([FINE, ODD, BROKEN, ODD], 3, "ttmem doctor: 1 broken, 2 warnings, 1 ok"),
    ],
)
def test_verdict(found: list[Finding], code: int, line: str) -> None:
    assert exit_code(found) == code
    assert verdict_line(verdict(found)) == line
    counts = cast(dict[str, int], verdict(found))
    assert sum(counts.values()) == len(found)


def test_text() -> None:
    evil = finding("untracked", warning("/proc", "pid 7 (\x1b[2J\udcff)", "kill it"))
    assert (
        render(document([FINE, ODD, UNKNOWN, BROKEN, evil]), Style())
        == """\
BROKEN   driver
    looked at: /sys
    found:     a card and no driver
    to do:     load it

WARNING  server
    looked at: /run/x.sock
    found:     nobody answers
    to do:     start one

WARNING  untracked
    looked at: /proc
    found:     pid 7 (\\x1b[2J\\xff)
    to do:     kill it

ok       agent              loads
unknown  ttnn               no ttnn there

ttmem doctor: 1 broken, 2 warnings, 1 ok, 1 unknown"""
    )


def test_text_in_full() -> None:
    assert (
        render(document([FINE, UNKNOWN]), Style(), verbose=True)
        == """\
OK       agent
    looked at: lib.so
    found:     loads

UNKNOWN  ttnn
    looked at: python
    found:     no ttnn there
    to do:     name another

ttmem doctor: 0 broken, 0 warnings, 1 ok, 1 unknown"""
    )


def test_data() -> None:
    data = json.loads(json.dumps(document([BROKEN, FINE], now=0.0)))
    assert (data["schema"], data["time"]) == ("ttmem.doctor/1", "1970-01-01T00:00:00.000Z")
    assert data["verdict"] == {"broken": 1, "warning": 0, "unknown": 0, "ok": 1, "exit_code": 3}
    assert data["findings"] == [
        {"check": "driver", "level": "broken", "looked_at": "/sys", "found": "a card and no driver", "todo": "load it"},
        {"check": "agent", "level": "ok", "looked_at": "lib.so", "found": "loads", "todo": None},
    ]
