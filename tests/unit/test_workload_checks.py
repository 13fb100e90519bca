# SPDX-License-Identifier: Apache-2.0
"""The checks of running programs, of the agent and of ttnn, each where it passes and where it fails."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ttmem
from tests import machines
from tests.counters import content, mapping, slot
from ttmem.agent import NAME, VARIABLE, require
from ttmem.doctor import agent_checks as agent
from ttmem.doctor import wheel_checks as wheel
from ttmem.doctor import workload_checks as workload
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message

pytestmark = pytest.mark.usefixtures("patient_doctor")

ENABLED = "TT_ALLOC_TRACKING_ENABLED"
METAL = "/opt/ttnn/build/lib/libtt_metal.so"


def look(
    check: Callable[[DoctorContext], Iterator[Message]], root: Path, env: dict[str, str] | None = None, **more: Any
) -> list[Message]:
    return list(check(DoctorContext(str(root), env or {}, **more)))


def only(said: list[Message]) -> Message:
    (one,) = said
    return one


def mapped(*paths: str) -> str:
    return "".join(f"7f0000000000-7f0000001000 r-xp 00000000 fd:00 {131 + n} {path}\n" for n, path in enumerate(paths))


def user(
    machine: machines.Machine, *paths: str, metal: bytes | None = None, environ: dict[str, str] | None = None
) -> None:
    """A process that holds chip 0, and its mappings. ``metal`` is the content of its libtt_metal."""
    if metal is not None:
        paths = (METAL, *paths)
        library = machine.root / METAL.lstrip("/")
        library.parent.mkdir(parents=True)
        library.write_bytes(metal)
    folder = machine.process(4711, holds=[0], maps=mapped(*paths), environ=environ or {})
    (folder / "root").symlink_to(machine.root)


# Processes that do not report


def test_nobody_uses_a_device(folder: Path) -> None:
    machines.n150(folder)
    said = only(look(workload.untracked, folder))
    assert (said.level, said.found) == ("ok", "no process uses a device")


def test_a_program_without_the_agent(folder: Path) -> None:
    user(machines.n150(folder), METAL)
    said = only(look(workload.untracked, folder))
    assert said.level == "warning"
    assert "not tracked, without an agent and without a client: pid 4711 (python)" in said.found
    assert "ttmem run" in (said.todo or "")


def test_a_program_on_a_mock_device_holds_no_chip_and_is_found(folder: Path) -> None:
    machine = machines.no_driver(folder)
    path = machine.shm_file(880001, content(slot(4711, 4096)))
    machine.process(4711, maps=mapped(METAL) + mapping(path))
    assert (
        "not tracked, without an agent and without a client: pid 4711 (python)"
        in only(look(workload.untracked, folder)).found
    )


@pytest.mark.parametrize("sign", [f"/venv/ttmem/agent/{NAME}", "/memfd:ttmem (deleted)"])
def test_a_program_with_the_agent(folder: Path, sign: str) -> None:
    user(machines.n150(folder), METAL, sign)
    said = only(look(workload.untracked, folder))
    assert (said.level, said.found) == ("ok", "1 process has the agent, but there is no server")


def test_a_program_that_may_not_be_looked_into(folder: Path) -> None:
    """A folder in place of the file cannot be read, even by root."""
    user(machines.n150(folder), METAL)
    for name in ("environ", "maps"):
        (folder / f"proc/4711/{name}").unlink()
        (folder / f"proc/4711/{name}").mkdir()
    said = look(workload.untracked, folder)[0]
    assert said.level == "unknown"
    assert "pid 4711 (python)" in said.found


def test_a_program_that_hangs_is_not_waited_for(folder: Path) -> None:
    """Like a process that sleeps in the driver with its memory lock held."""
    laid_out = machines.n150(folder)
    process = laid_out.process(4711, holds=[0])
    (process / "maps").unlink()
    os.mkfifo(process / "maps")
    laid_out.process(4712, holds=[0])
    stuck, bare = look(workload.untracked, folder)
    assert (stuck.level, bare.level) == ("unknown", "warning")
    assert "pid 4711 (python) cannot be examined: its memory is locked" in stuck.found
    assert "pid 4712" in bare.found
    with (process / "maps").open("wb"):
        pass  # unblocks the waiting process


# TT_ALLOC_TRACKING_ENABLED


@pytest.mark.parametrize("value", [None, "1"])
def test_the_variable_here(folder: Path, value: str | None) -> None:
    machines.n150(folder)
    assert only(look(workload.tracking_variable, folder, {ENABLED: value} if value else {})).level == "ok"


@pytest.mark.parametrize("value", ["true", "yes", "1 ", "", "01"])
def test_the_variable_must_be_exactly_1(folder: Path, value: str) -> None:
    machine = machines.n150(folder)
    said = only(look(workload.tracking_variable, folder, {ENABLED: value}))
    assert said.level == "warning"
    assert repr(value) in said.found
    user(machine, METAL, environ={ENABLED: value})
    said = only(look(workload.tracking_variable, folder))
    assert said.level == "warning"
    assert f"pid 4711 (python): {ENABLED} is {value!r}" in said.found


def test_a_patched_program_that_was_started_without_it(folder: Path) -> None:
    user(machines.n150(folder), metal=b"code " + ENABLED.encode() + b"\0 more code")
    said = only(look(workload.tracking_variable, folder))
    assert said.level == "warning"
    assert "setting it later has no effect" in said.found


def test_many_processes_of_one_kind_are_one_finding(folder: Path) -> None:
    machine = machines.n150(folder)
    for pid in range(5000, 5032):
        machine.process(pid, holds=[0], environ={ENABLED: "true" if pid % 2 else "yes"}, maps=mapped(METAL))
    assert only(look(workload.untracked, folder)).found.endswith("and 28 more")
    assert [said.found.partition(":")[0][-11:] for said in look(workload.tracking_variable, folder)] == [
        "and 12 more"
    ] * 2


def test_a_stock_program_does_not_know_it(folder: Path) -> None:
    user(machines.n150(folder), metal=b"code", environ={ENABLED: "1"})
    said = only(look(workload.tracking_variable, folder))
    assert said.level == "warning"
    assert "stock" in said.found
    assert "ttmem run" in (said.todo or "")


@pytest.mark.parametrize(("metal", "value"), [(b"code", None), (ENABLED.encode(), "1")])
def test_where_it_is_as_the_program_wants_it(folder: Path, metal: bytes, value: str | None) -> None:
    user(machines.n150(folder), metal=metal, environ={ENABLED: value} if value else {})
    assert only(look(workload.tracking_variable, folder)).level == "ok"


def test_of_a_name_that_is_there_twice_the_first_counts(folder: Path) -> None:
    user(machines.n150(folder), METAL)
    environ = folder / "proc/4711/environ"
    environ.chmod(0o600)
    environ.write_bytes(f"{ENABLED}=no\0{ENABLED}=1\0".encode())
    assert "'no'" in only(look(workload.tracking_variable, folder)).found


# tt-metal's counters switched off


def test_counters_are_on(folder: Path) -> None:
    user(machines.n150(folder), METAL, environ={"TT_METAL_SHM_TRACKING_DISABLED": "0"})
    assert only(look(workload.shm_tracking, folder)).level == "ok"


def test_counters_are_off_there_or_here(folder: Path) -> None:
    machine = machines.n150(folder)
    here = only(look(workload.shm_tracking, folder, {"TT_METAL_SHM_TRACKING_DISABLED": "1"}))
    user(machine, METAL, environ={"TT_METAL_SHM_TRACKING_DISABLED": "1"})
    there = only(look(workload.shm_tracking, folder))
    assert (here.level, there.level) == ("warning", "warning")
    assert "here" in here.looked_at
    assert "pid 4711 (python)" in there.found


# The agent


def test_the_agent_loads(folder: Path) -> None:
    said = only(look(agent.agent, folder))
    assert (said.level, said.found) == ("ok", f"agent of ttmem {ttmem.__version__}, loads")


def test_an_agent_tried_with_what_is_no_interpreter(folder: Path) -> None:
    said = only(look(agent.agent, folder, python="/bin/true"))
    assert (said.level, "/bin/true is not a Python interpreter" in said.found) == ("unknown", True)
    assert said.todo == "name one: `ttmem doctor --python PATH`", "a command, because a page shows it, too"


def test_no_agent(folder: Path) -> None:
    said = only(look(agent.agent, folder, {VARIABLE: str(folder / "none.so")}))
    assert said.level == "broken"
    assert "none.so" in said.found


def test_an_agent_that_the_loader_would_split(folder: Path) -> None:
    place = folder / "my agents"
    place.mkdir()
    shutil.copy(require(), place / NAME)
    said = only(look(agent.agent, folder, {VARIABLE: str(place / NAME)}))
    assert (said.level, "spaces" in said.found) == ("broken", True)


def test_an_agent_that_is_no_library(folder: Path) -> None:
    (folder / NAME).write_text("nothing")
    said = only(look(agent.agent, folder, {VARIABLE: str(folder / NAME)}))
    assert (said.level, "ELF" in said.found) == ("broken", True)


def test_an_agent_for_another_processor(folder: Path) -> None:
    content = bytearray(require().read_bytes())
    content[18:20] = (243).to_bytes(2, "little")  # RISC-V
    (folder / NAME).write_bytes(content)
    said = only(look(agent.agent, folder, {VARIABLE: str(folder / NAME)}))
    assert (said.level, "machine 243" in said.found) == ("broken", True)


def compiled(folder: Path, code: str, *options: str) -> str:
    (folder / "agent.c").write_text(code)
    command = ["gcc", "-shared", "-fPIC", str(folder / "agent.c"), "-o", str(folder / NAME), *options]
    subprocess.run(command, check=True)
    return str(folder / NAME)


def test_an_agent_of_another_version(folder: Path) -> None:
    path = compiled(folder, 'const char* ttmem_agent_version(void) { return "0.0.9"; }')
    lacking, loaded = look(agent.agent, folder, {VARIABLE: path})
    assert (lacking.level, loaded.level) == ("warning", "warning")
    assert "does not replace" in lacking.found
    assert "ttmem 0.0.9" in loaded.found


def test_an_agent_that_lacks_a_library(folder: Path) -> None:
    """As in an image without libgcc_s: the loader says what is missing, and the program does not start."""
    compiled(folder, "int gone(void) { return 1; }")
    (folder / NAME).rename(folder / "libgone.so")
    code = 'int gone(void); const char* ttmem_agent_version(void) { return gone() ? "0.1.0" : ""; }'
    path = compiled(folder, code, f"-L{folder}", "-lgone")
    (folder / "libgone.so").unlink()
    said = look(agent.agent, folder, {VARIABLE: path})[-1]
    assert said.level == "broken"
    assert "libgone.so" in said.found


# ttnn


def interpreter(folder: Path, answer: str) -> str:
    """A program that answers like an interpreter, for any arguments."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_an_interpreter_without_ttnn(folder: Path) -> None:
    said = only(look(wheel.ttnn, folder))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert (said.level, f"Python {version}" in said.looked_at) == ("unknown", True)
    assert ("wheels" in said.found) == (version not in ("3.10", "3.12"))
    assert only(look(wheel.hooks, folder)).level == "unknown"


@pytest.mark.parametrize(
    "answer", ["exit 3", "echo nonsense", "echo '{\"a\": 1}'", "echo '[]'", "echo broken >&2; exit 1"]
)
def test_an_interpreter_that_makes_no_sense(folder: Path, answer: str) -> None:
    said = only(look(wheel.ttnn, folder, python=interpreter(folder, answer)))
    assert said.level == "unknown"
    assert "--python" in (said.todo or "")


def package(folder: Path, library: Path | None) -> dict[str, str]:
    """A ttnn of version 0.81.1 in the layout of a wheel, where PYTHONPATH finds it."""
    site = folder / "site"
    (site / "ttnn/build/lib").mkdir(parents=True)
    (site / "ttnn/__init__.py").write_text("raise SystemExit('ttnn was imported')\n")
    (site / "ttnn-0.81.1.dist-info").mkdir()
    (site / "ttnn-0.81.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: ttnn\nVersion: 0.81.1\n")
    if library is not None:
        shutil.copy(library, site / "ttnn/build/lib/libtt_metal.so")
    return {**os.environ, "PYTHONPATH": str(site)}


def test_ttnn_is_found_and_not_imported(folder: Path) -> None:
    said = only(look(wheel.ttnn, folder, package(folder, require())))
    assert said.level == "ok"
    assert said.found.startswith("ttnn 0.81.1, ")


def test_a_ttnn_without_its_library(folder: Path) -> None:
    said = only(look(wheel.ttnn, folder, package(folder, None)))
    assert (said.level, "no libtt_metal.so" in said.found) == ("warning", True)


def test_a_library_with_every_hook_and_no_accessor(folder: Path) -> None:
    """The agent itself has all functions that it replaces, and none of those that it calls."""
    said = only(look(wheel.hooks, folder, package(folder, require())))
    assert said.level == "broken"
    assert "has no buffer_size, buffer_type" in said.found


def test_a_damaged_library_is_named(folder: Path) -> None:
    (folder / "damaged.so").write_bytes(b"\x7fELF\x02\x01" + bytes(2000))
    said = only(look(wheel.hooks, folder, package(folder, folder / "damaged.so")))
    assert said.level == "unknown"
    assert "libtt_metal.so" in said.found


def test_the_library_of_a_running_program_is_looked_at(folder: Path) -> None:
    user(machines.n150(folder), metal=require().read_bytes())
    said = only(look(wheel.hooks, folder))
    assert said.level == "broken"
    assert said.looked_at.endswith(f"/proc/4711/root{METAL}")


def test_a_library_is_found_below_any_folder(tmp_path: Path) -> None:
    """As in the plugin of tt-xla, or in a build folder of another name."""
    library = tmp_path / "pjrt_plugin_tt" / "tt-metal" / "build_Release" / "lib" / "libtt_metal.so"
    library.parent.mkdir(parents=True)
    with pytest.raises(OSError, match=r"nor another libtt_metal\.so"):
        wheel.find(str(tmp_path), {})
    library.touch()
    assert wheel.find(str(tmp_path), {}) == str(library)
