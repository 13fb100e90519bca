# SPDX-License-Identifier: Apache-2.0
"""What is tracked follows from the functions that a library has, and is shown as it was found."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.schema_conformance import problems
from ttmem.doctor.hook_coverage import IN_ITS_STEAD, MISSING, THERE, UNSEEN, Coverage, look
from ttmem.doctor.required_symbols import BUFFER_FIELDS, required_symbols
from ttmem.model import schema
from ttmem.show.text import Style
from ttmem.show.wheel_text import render, verdict_line

WANTED = required_symbols()
HOOKS, CALLS, OLDER = WANTED.hooks, WANTED.calls, WANTED.older
EVERYTHING = [need.what for need in WANTED.needs]
NAMES = {**HOOKS, **CALLS, **OLDER}
IN_PLACE = WANTED.substitutes[BUFFER_FIELDS].missing
INSTEAD = {name for substitute in WANTED.substitutes.values() for name in substitute.missing}


def library(folder: Path, lacks: Iterable[str] = (), uncalled: Iterable[str] = ()) -> Coverage:
    """A library that has all functions except some, and calls every hook itself except some."""
    have = [symbol for name, symbol in NAMES.items() if name not in set(lacks)]
    calls = [symbol for name, symbol in HOOKS.items() if name not in {*lacks, *uncalled}]
    source = folder / "library.c"
    source.write_text(
        "\n".join([*(f"void {symbol}(void) {{}}" for symbol in have), "void all_of_them(void) {"])
        + "".join(f"{symbol}();" for symbol in calls)
        + "}\n"
    )
    path = folder / "libtt_metal.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O0", str(source), "-o", str(path)], check=True)
    return look(str(path))


def reasons(coverage: Coverage) -> dict[str, str]:
    return {kinds.what: kinds.reason for kinds in coverage.kinds if kinds.reason is not None}


def test_a_library_that_has_everything(folder: Path) -> None:
    found = library(folder)
    assert found.tracked == EVERYTHING
    assert {function.state for function in found.functions} == {THERE}
    assert [function.name for function in found.functions] == [*HOOKS, *CALLS]
    assert found.unknown == {}


def test_one_that_newer_ones_are_like(folder: Path) -> None:
    """Functions that only older wheels have are not reported as missing."""
    assert library(folder, OLDER).tracked == EVERYTHING


def test_an_older_one(folder: Path) -> None:
    found = library(folder, INSTEAD)
    assert found.tracked == EVERYTHING
    assert set(found.named(IN_ITS_STEAD)) == INSTEAD
    assert found.unknown == {}


def test_one_that_is_older_still_has_buffers_only(folder: Path) -> None:
    found = library(folder, [*INSTEAD, "kernel_scratchpads_older", "allocate_scratchpads"])
    assert found.tracked == ["buffers"]
    assert all("older than 0.75" in reason for reason in reasons(found).values())


def test_a_new_one_without_scratchpads_keeps_the_rest(folder: Path) -> None:
    found = library(folder, [*OLDER, "allocate_scratchpads"])
    assert reasons(found) == {"scratchpads": "this libtt_metal has no allocate_scratchpads"}


def test_fields_are_read_in_place_all_or_none(folder: Path) -> None:
    for lacks in (["buffer_size"], [*IN_PLACE, "buffer_within"], [*IN_PLACE, "allocate_dfbs"]):
        found = library(folder, lacks)
        assert found.tracked == []
        assert "has no buffer_size" in reasons(found)["buffers"]
        assert reasons(found)["kernels"] == "buffers are not tracked, and everything depends on them"


def test_a_hook_that_is_not_called(folder: Path) -> None:
    found = library(folder, uncalled=["clear", "enqueue"])
    assert reasons(found)["buffers"] == "this libtt_metal does not call clear in a way that can be seen"
    assert found.named(UNSEEN) == ["clear", "enqueue"]


def test_as_text_and_as_data(folder: Path) -> None:
    found = library(folder, ["dfb_placed", "statistics"], uncalled=["enqueue"])
    document = found.document()
    text = render(document, Style())
    lines = text.splitlines()
    assert lines[:7] == [
        found.library,
        "  buffers            tracked",
        "  circular buffers   tracked",
        "  dataflow buffers   NOT TRACKED: this libtt_metal has no dfb_placed",
        "  scratchpads        tracked",
        "  kernels            tracked",
        "  not known: whether the account is complete: the agent cannot audit itself (no statistics)",
    ]
    assert "    statistics             MISSING" in lines
    assert lines[-1] == verdict_line(document)
    assert verdict_line(document) == (
        "ttmem doctor --wheel: 4 of 5 tracked: buffers, circular buffers, scratchpads, kernels"
    )
    assert CALLS["statistics"] not in text
    assert CALLS["statistics"] in render(document, Style(), verbose=True)
    assert problems(document, schema.Wheel) == []
    assert [kinds["what"] for kinds in document["kinds"] if not kinds["tracked"]] == ["dataflow buffers"]
    states = {function["name"]: function["state"] for function in document["functions"]}
    assert (states["dfb_placed"], states["enqueue"], states["clear"]) == (MISSING, UNSEEN, THERE)
