# SPDX-License-Identifier: Apache-2.0
"""No text of a workload, file or server reaches a terminal, a log or a text answer with a control character in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile import HOSTILE, assert_printable, everywhere, poisoned
from tests.screens import KEYS, VIEWS, world
from tests.unit.test_imports import DATA, OUT_OF_MEMORY
from tests.unit.test_result import Story, buffer, part
from tests.unit.test_verdicts import GRID, N150, Account
from tests.unit.test_verdicts import full as out_of_memory
from tests.worlds import BOOTED, NOW
from ttmem.analyze.failure_types import Clash
from ttmem.analyze.verdicts import verdict_on
from ttmem.doctor.checks import document
from ttmem.doctor.findings import Finding
from ttmem.doctor.hook_coverage import Coverage, Function, Kinds
from ttmem.documents import explanation, metal_reports
from ttmem.documents.dump import kernels_text, remaining_text
from ttmem.imports.detection import read as read_capture
from ttmem.imports.import_result import summary as import_summary
from ttmem.imports.to_events import EventTranslation
from ttmem.model.events import Failed, ProgramCompiled, Sees
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.printable import printable, printable_bytes, printable_data, printable_lines
from ttmem.server import metrics
from ttmem.server.daemon import Options, Server
from ttmem.show import breakdown_table as breakdown_table
from ttmem.show import doctor_text as doctor
from ttmem.show import dump_text, import_text, leaks_text, peaks_text
from ttmem.show import explain_text as explain
from ttmem.show import l1_text as l1view
from ttmem.show import reports_text as reports
from ttmem.show import smi_csv as csv
from ttmem.show import smi_screen as smi
from ttmem.show import wheel_text as wheel
from ttmem.show.chip_table import Names
from ttmem.show.run_text import render as summary
from ttmem.show.text import Style
from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.rows import Characters, Size, View, text_of
from ttmem.show.top.settings import Settings
from ttmem.show.top.views.allocation_view import Allocations
from ttmem.show.top.views.charts import Charts
from ttmem.show.top.views.core_view import Cores
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.processes import Processes
from ttmem.show.top.views.telemetry_view import Telemetry

Json = Any  # a document made by hand, or a part of one
STYLES = (Style(200, colour=True), Style(60, ascii=True))


@given(st.text())
def test_what_comes_out_is_printable_and_what_was_printable_is_unchanged(text: str) -> None:
    assert printable(text).isprintable()
    assert not any(unicodedata.category(c).startswith(("C", "Zl", "Zp")) for c in printable(text))
    assert printable(printable(text)) == printable(text)
    assert printable(text) == text or not text.isprintable()
    assert printable_lines(text).replace("\n", "").isprintable()


@given(st.characters(), st.characters())
def test_two_names_stay_two(one: str, other: str) -> None:
    assert (printable(one) == printable(other)) == (one == other)


@given(st.binary())
def test_bytes(raw: bytes) -> None:
    assert printable_bytes(raw).isprintable()


def test_every_text_of_a_document() -> None:
    value = {"a\r": [("\x1b", 1), {"b": "\u202e"}], "c": None}
    assert printable_data(value) == {"a\\r": [["\\x1b", 1], {"b": "\\u202e"}], "c": None}


# -- documents ---------------------------------------------------------------------------------------------------

# Fields with a fixed set of values, such as the name of a kind. With any other value there is nothing to show:
# the commands call such a document malformed (tests/integration/test_malformed_answers.py).
OURS = frozenset({"kind", "by", "state", "level", "role", "why", "where", "pool"})


def _chip_of(chips: int) -> str:
    return str(world(chips).snapshot["chips"][0]["chip"])


def _names(style: Style) -> Names:
    """Names of chips, as the commands make them from a snapshot that was cleaned."""
    chips = style.clean([{**chip, "board": HOSTILE} for chip in world(1).snapshot["chips"]])
    return Names(chips, style, {_chip_of(1): 0})


def _peaks() -> Any:
    from ttmem.documents.peak_groups import alike
    from ttmem.documents.peaks import peaks

    ledger = world(1).ledger
    found = peaks(ledger)
    groups = [alike(ledger, row["chips"][0], row["kind"]) if "kind" in row else [] for row in found]
    return json.loads(json.dumps({"peaks": found, "groups": groups}))


def _import() -> Any:
    from tests.unit.test_imports import fold

    translation = EventTranslation(read_capture(DATA / "n300_report.json"))
    found = import_summary(translation, fold(translation)[0], 3, "in", "out")
    return json.loads(json.dumps({**found, "unsized": 3}))


def _dump(what: str) -> Any:
    return world(1).get(f"/dump?what={what}")


def _breakdown(by: str) -> Any:
    return world(1).get(f"/breakdown?by={by}")


DOCUMENTS: dict[str, tuple[Callable[[], Any], Callable[[Any, Style], str]]] = {
    "smi": (lambda: world(4).snapshot, lambda found, style: smi.render(found, style)),
    "smi of one chip": (lambda: world(1).snapshot, lambda found, style: smi.render(found, style, in_full=True)),
    "smi without a server": (lambda: world(0).snapshot, lambda found, style: smi.render(found, style)),
    "csv": (lambda: world(4).snapshot, lambda found, style: csv.rows(found).replace("\r\n", "\n")),
    "dump": (lambda: _dump("all"), lambda found, style: dump_text.render(found, world(1).snapshot, style, 10)),
    "dump of the proof of concept": (lambda: _dump("all"), lambda found, style: remaining_text(found)),
    "kernels": (lambda: _dump("kernels"), lambda found, style: kernels_text(found, NOW)),
    "leaks": (lambda: world(1).get("/leaks"), lambda found, style: leaks_text.render(found, _names(style), style)),
    "l1": (
        lambda: world(1).get(f"/cores?chip={_chip_of(1)}&core=0,0"),
        lambda found, style: l1view.render(found, HOSTILE, style),
    ),
    "peaks": (
        _peaks,
        lambda found, style: peaks_text.render(found["peaks"], found["groups"], _names(style), style),
    ),
    "import": (_import, import_text.render),
    **{
        f"breakdown by {by}": (
            partial(_breakdown, by),
            breakdown_table.render,
        )
        for by in breakdown_table.WORDS
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_field_of_every_document(name: str) -> None:
    make, render = DOCUMENTS[name]
    document = make()
    seen = 0
    for style in STYLES:
        assert_printable(render(document, style), name)
        for field, hostile in poisoned(document):
            try:
                text = render(hostile, style)
            except (KeyError, ValueError):  # one place only; other places refer to the id of a chip
                assert field.rpartition(".")[2] in OURS | {"chip", "[]"}, field
                continue
            assert_printable(text, (name, field))
            seen += "evil" in text
    assert seen, "no field was shown at all"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_fields_at_once(name: str) -> None:
    make, render = DOCUMENTS[name]
    for style in STYLES:
        assert_printable(render(everywhere(make(), OURS), style), name)


def test_reports(tmp_path: Path) -> None:
    from tests.unit.test_reports_text import SAMPLES
    from ttmem.sources.memory_reports import read

    found = metal_reports.document(read(str(SAMPLES)), HOSTILE, NOW, None, HOSTILE)
    for field, hostile in poisoned(json.loads(json.dumps(found))):
        try:
            assert_printable(reports.render(hostile), field)
        except KeyError:
            assert field.rpartition(".")[2] in OURS, field


# -- documents that no server makes -------------------------------------------------------------------------------


def _findings() -> list[Finding]:
    return [Finding(f"check-{level}", level, "looked", "found", "do") for level in ("broken", "warning", "ok")]


@pytest.mark.parametrize("verbose", [True, False])
def test_doctor(verbose: bool) -> None:
    for field, hostile in poisoned(document(_findings())):
        if field.rpartition(".")[2] not in OURS:
            assert_printable(doctor.render(hostile, Style(), verbose=verbose), field)


@pytest.mark.parametrize("verbose", [True, False])
def test_doctor_wheel(verbose: bool) -> None:
    functions = [Function("allocate", "hook", "there", "_Z3x"), Function("free", "call", "missing", "_Z3y")]
    coverage = Coverage(
        "/lib/libtt_metal.so", [Kinds("buffers", None), Kinds("kernels", "no x")], {"x": ["y"]}, functions
    )
    for field, hostile in poisoned(coverage.document()):
        if field.rpartition(".")[2] not in OURS:
            assert_printable(wheel.render(hostile, Style(), verbose=verbose), field)


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("by", ["op", "line", "shape", "kind", "program"])
def test_summary_of_a_run(code: int, by: str) -> None:
    for report in _reports(code):
        assert_printable(summary(report, Style(), by), by)  # type: ignore[arg-type]


def _reports(code: int) -> Iterator[Any]:
    story = Story()
    with story.collector:
        source = story.collector.ledger.source(
            story._began, ProcessInfo(7, 1, name=HOSTILE, command=HOSTILE), HOSTILE, Confidence.EXACT
        )
        story.tell(source, 0, Sees((1 << Kind.FIRMWARE) - 1, f"first {HOSTILE}\nsecond"))
        opened = story.process(42, f"chip_id{HOSTILE}")
        one = buffer(Kind.DRAM, 0x1000, 64, HOSTILE)
        extra = one.extra
        assert extra is not None
        one = one._replace(extra=extra._replace(stack=f"{HOSTILE}\n{HOSTILE}", shape=HOSTILE))
        refused = Failed(0, OUT_OF_MEMORY, HOSTILE, HOSTILE)
        story.tell(opened, 1, one, part(Kind.CB, 3, 8, HOSTILE), part(Kind.KERNEL, 4, 8, HOSTILE), refused)
        yield story.report(code, {9: HOSTILE}).document
        story.ends(opened)
        yield {**story.report(code, {9: HOSTILE}).document, "command": [HOSTILE]}


def test_explain() -> None:
    account, low = Account(), N150.l1_base + 300_000
    account.l1(low, 100_000, tag=HOSTILE, shape=HOSTILE, stack=f"{HOSTILE}\n{HOSTILE}")
    account.apply(ProgramCompiled(0, 9, 0, 1234, HOSTILE))
    account.circular(9, N150.l1_base, 320_000, HOSTILE)
    layout = account.layout
    for failure in (Clash(Kind.CB, 1234, GRID, low, low + 20_000), out_of_memory()):
        verdict = verdict_on(failure, layout)._replace(tag=HOSTILE, line=HOSTILE)
        for style in STYLES:
            text = explain.render(explanation.document("x.log", 3, [(HOSTILE, 1, verdict)]), style)
            assert_printable(text)
            assert "evil" in text


# -- the dashboard -----------------------------------------------------------------------------------------------


def _screens(change: Callable[[Any], Any], ascii: bool) -> Iterator[str]:
    style = Style(ascii=ascii)
    for view in VIEWS:
        model = Model()
        views: list[View] = [
            Overview(),
            Charts(),
            Telemetry(),
            Processes(root="/nowhere", booted=BOOTED),
            Cores(),
            Allocations(),
        ]
        dashboard = Dashboard(model, views, Settings("/nowhere/top.json"), Characters("ascii" if ascii else "braille"))
        dashboard.current = min(VIEWS.index(view), len(views) - 1)
        model.take(style.clean(change(world(1).snapshot)), NOW, 0.0)
        for key in KEYS.get(view, ""):
            dashboard.view.press(key, model)
        for _ in range(3):
            dashboard.rows(Size(200, 60), 0.0)
            for path in dashboard.wants():
                real = (
                    path.replace(path.partition("chip=")[2].partition("&")[0], _chip_of(1)) if "chip=" in path else path
                )
                model.answers[path] = Answer(style.clean(change(world(1).get(real))), None, 0.0)
        yield "\n".join(text_of(row) for row in dashboard.rows(Size(200, 60), 0.0))


@pytest.mark.parametrize("ascii", [False, True])
def test_views_of_the_dashboard(ascii: bool) -> None:
    seen = 0
    for text in _screens(lambda document: everywhere(document, OURS | {"time", "schema"}), ascii):
        assert_printable(text)
        seen += "evil" in text
    assert seen


# -- the server's own output -------------------------------------------------------------------------------------


def test_metrics_page() -> None:
    place = world(1)
    about = {"accepted": 3, "clients": 2, "since": 5.0, "version": "1.2.3"}
    for chip in place.ledger.chips.values():
        before = chip.info
        chip.info = before._replace(id=f"chip_id{HOSTILE}", board=HOSTILE, pci=HOSTILE)
        try:
            for field, snapshot in poisoned(place.snapshot):
                page = metrics.page(metrics.Totals(place.ledger, pids=True), about, place.snapshot, snapshot)  # type: ignore[arg-type]
                assert_printable(page.decode("utf-8"), field)
                assert "evil" in page.decode("utf-8")
        finally:
            chip.info = before


@pytest.mark.parametrize("form", ["text", "json"])
def test_messages_and_statistics_of_the_server(form: str, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    from ttmem.model.events import Allocated, DeviceOpened
    from ttmem.model.identity import ChipInfo

    server = Server(Options(str(folder / "s"), legacy_path=None, log_format=form, machine=None))
    source = server.ledger.source(1.0, ProcessInfo(7, 1, name=HOSTILE), HOSTILE, Confidence.REPORTED)
    server.ledger.apply(1.0, source, DeviceOpened(0, ChipInfo(HOSTILE)))
    server.ledger.apply(1.0, source, Allocated(0, Kind.DRAM, 1, 2))
    server.warn(f"pid 7 ({HOSTILE}) did this")
    server.log.say(1.0, server.statistics())
    server.log.drain(10)
    out, err = capfd.readouterr()
    for text in (out, err):
        assert "evil" in text
        assert_printable(text)
        assert form == "text" or all(json.loads(line) for line in text.splitlines())
    server.log.close()


# -- messages of the command line --------------------------------------------------------------------------------

_PATH = HOSTILE.replace("\0", "").replace("/", "_").replace("\ud800", "").replace("\udc9b", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", _PATH], ["import", _PATH], ["explain", _PATH], ["l1", "--file", _PATH], ["dump", "--reports", _PATH],
        ["smi", "--socket", _PATH], ["smi", "-d", _PATH, "--root", "/nowhere"], ["smi", _PATH],
        ["dump", "--socket", _PATH], ["leaks", "--socket", _PATH], ["l1", "--socket", _PATH],
        ["run", "--json", f"{_PATH}/x", "--", "true"], ["run", "--record", f"{_PATH}/x", "--", "true"],
        ["run", "--", _PATH], ["serve", "--socket", f"/{_PATH}/x"], ["serve", "--metrics", _PATH],
        ["serve", "--group", _PATH, "--socket", "/nowhere/x"],
        ["doctor", "--wheel", _PATH], ["doctor", "--python", _PATH], ["env", "--socket", _PATH],
        ["env", "--format", "docker", "--socket", _PATH], ["env", "--format", "systemd", "--socket", _PATH],
        [_PATH], ["demo", _PATH], ["run", "--max-l1", _PATH, "--", "true"], ["replay", "--at", _PATH, "/dev/null"],
    ],
    ids=lambda arguments: " ".join(one for one in arguments if "evil" not in one),
)  # fmt: skip
def test_messages_of_commands(arguments: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", *arguments], cwd=folder, capture_output=True, env={**os.environ}, timeout=180
    )
    assert done.returncode != 0
    for text in (done.stdout, done.stderr):
        assert_printable(text.decode("utf-8", "surrogateescape"))
        assert b"internal error" not in text
        assert b"Traceback" not in text
