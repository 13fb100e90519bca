# SPDX-License-Identifier: Apache-2.0
"""The tools for running an unmodified ttnn: the stub compiler, the boards, the installation."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mock import wheel as mock_wheel
from tests.mock.boards import BOARDS, board_named, descriptor
from ttmem.agent import KERNEL_COMPILER, require_file

NUMBER = "  .text 0xFFC00000 :\n  {\n  } :text\n  .data 0xFFB00000 : AT(__kernel_data_lma)\n  {\n  } :data\n"
SYMBOL = "  .text kernel_main :\n  {\n  } :text\n  .data _start : AT(__kernel_data_lma)\n  {\n  } :data\n"
MEMORY = "MEMORY\n{\n    CODE : ORIGIN = 0x0000A840, LENGTH = 16K\n    DATA : ORIGIN = 0x0000EBE0, LENGTH = 6144\n}\n"
REGION = (
    'INCLUDE "memory.ld"\nREGION_ALIAS("REGION_CODE", CODE)\n__firmware_start = ORIGIN(REGION_CODE);\n'
    "  .text __firmware_start :\n  {\n  } > REGION_CODE :text\n  .data : ALIGN(16) {\n  } > DATA :data\n"
)


class Segment(NamedTuple):
    address: int
    loaded_at: int
    size: int


class Compiler:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "runtime" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"
        self.prebuilt = folder / "tt_metal" / "pre-compiled"
        for path in (self.program, self.prebuilt):
            path.parent.mkdir(parents=True)
        (folder / "tt_metal" / "sfpi-version").write_text("# release\nsfpi_version='1.2.3'\nsfpi_build='45'\n")
        self.program.symlink_to(require_file(KERNEL_COMPILER))

    def __call__(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        env = {**os.environ, **environment}
        done = subprocess.run([str(self.program), *arguments], capture_output=True, text=True, env=env)
        assert bool(done.returncode) == fails, done.stderr
        return done.stdout + done.stderr

    def link(self, script: str, name: str, *arguments: str) -> Path:
        output = self.folder / "kernels" / name
        output.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "script.ld").write_text(script)
        assert self(f"-T{self.folder}/script.ld", *arguments, "some.o", "-o", str(output)) == ""
        return output


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(tmp_path_factory.mktemp("compiler"))


def segments(path: Path) -> list[Segment]:
    content = path.read_bytes()
    assert content[:6] == b"\x7fELF\x01\x01"
    assert struct.unpack_from("<HH", content, 16) == (2, 243)  # an executable, RISC-V
    start, size, count = (*struct.unpack_from("<I", content, 28), *struct.unpack_from("<HH", content, 42))
    headers = [struct.unpack_from("<5I", content, start + number * size) for number in range(count)]
    found = [Segment(address, loaded_at, length) for _, _, address, loaded_at, length in headers]
    (entry,) = struct.unpack_from("<I", content, 24)
    assert found[0].address == entry
    return found


def test_it_prints_the_version_of_the_root_it_is_in(compiler: Compiler) -> None:
    assert "sfpi:1.2.3[45]" in compiler("--version")


def test_a_compile_step_leaves_empty_files(compiler: Compiler, tmp_path: Path) -> None:
    output, dependencies = tmp_path / "k.o", tmp_path / "k.d"
    assert compiler("-O3", "-c", "-o", str(output), "k.cc", "-MF", str(dependencies)) == ""
    assert output.read_bytes() == b""
    assert dependencies.read_text() == f"{output}:\n"


def test_a_kernel_lies_where_the_script_says(compiler: Compiler) -> None:
    text, data = segments(compiler.link(NUMBER, "add/1/brisc/brisc.1_2.elf"))
    assert (text.address, data.address) == (0xFFC00000, 0xFFB00000)
    assert (text.loaded_at, data.loaded_at) == (text.address, text.address + text.size)


def test_a_kernel_lies_where_the_firmware_ends(compiler: Compiler) -> None:
    firmware = compiler.link(NUMBER, "firmware.elf")
    output = compiler.link(SYMBOL, "add/1/brisc/brisc.elf", f"-Wl,--just-symbols={firmware}")
    text, data = segments(output)
    assert (text.address, data.address) == (0xFFC00004, 0xFFC00000)


def test_a_kernel_lies_in_a_memory_region_of_an_included_script(compiler: Compiler) -> None:
    (compiler.folder / "memory.ld").write_text(MEMORY)
    text, data = segments(compiler.link(REGION, "router/1/erisc/erisc.elf", f"-L{compiler.folder}"))
    assert (text.address, data.address) == (0xA840, 0xEBE0)
    assert data.loaded_at == data.address


def test_the_name_decides_the_size_and_the_number_of_the_run_does_not(compiler: Compiler) -> None:
    def size(name: str) -> int:
        return sum(segment.size for segment in segments(compiler.link(NUMBER, name)))

    sizes = [size(f"add/{number}/brisc/brisc.1_2.elf") for number in range(50)]
    assert len(set(sizes)) > 40
    assert all(1024 <= size < 8192 for size in sizes)
    assert size("add/7/brisc/brisc.33_44.elf") == sizes[7]
    assert size("add/7/brisc/brisc.elf") == sizes[7]


def test_kernels_of_fit_are_as_small_as_possible(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_SMALL_KERNELS", "1")
    (text,) = segments(compiler.link(NUMBER, "add/1/brisc/brisc.elf"))
    assert text.size == 12


def test_what_it_cannot_link_is_an_error(compiler: Compiler, tmp_path: Path) -> None:
    script = tmp_path / "firmware.ld"
    script.write_text("  .text (16 + 32) :\n  {\n  } :text\n")
    assert "links kernels only" in compiler(f"-T{script}", "-o", str(tmp_path / "x.elf"), fails=True)


@pytest.mark.parametrize(("arch", "expected"), [("wormhole", "2"), ("blackhole", "3")])
def test_firmware_that_the_wheel_lacks_is_what_it_has_for_another_device(
    compiler: Compiler, tmp_path: Path, arch: str, expected: str
) -> None:
    """With the same core and architecture: Wormhole's Ethernet cores are called erisc."""
    for build, core in (("1", "erisc"), ("2", "erisc"), ("2", "brisc"), ("3", "active_erisc"), ("3", "brisc")):
        (compiler.prebuilt / build / core).mkdir(parents=True, exist_ok=True)
        (compiler.prebuilt / build / core / f"{core}.elf").write_text(build)
    script = tmp_path / arch / "firmware_brisc.ld"
    output = tmp_path / "77" / "firmware" / "brisc" / "brisc.8.elf"
    for path in (script, output):
        path.parent.mkdir(parents=True)
    script.write_text("  .text (16 + 32) :\n  {\n  } :text\n")
    assert compiler(f"-T{script}", "-o", str(output)) == ""
    assert output.read_text() == expected


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_consistent(name: str) -> None:
    board = board_named(name)
    ends = Counter[tuple[int, int]]()
    for link in board.links:
        assert len(link.channels) == len(link.other_channels)
        ends.update((link.chip, channel) for channel in link.channels)
        ends.update((link.other, channel) for channel in link.other_channels)
        (x, y), (other_x, other_y) = board.places[link.chip], board.places[link.other]
        assert abs(x - other_x) + abs(y - other_y) == 1, "linked chips are neighbours"
    assert not ends or max(ends.values()) == 1
    assert board.chips == list(range(len(board.chips))) == sorted(board.places)
    assert len(set(board.places.values())) == len(board.chips)

    text = descriptor(name, dict.fromkeys(board.chips, 5))
    codes = {int(found) >> 36 & 0xFFFFF for found in re.findall(r"board_id: (\d+)", text)}
    assert codes == {board.kind.code}


def test_an_unknown_board_is_named() -> None:
    with pytest.raises(ValueError, match="no board 'n151'; there are n150, "):
        board_named("n151")


def test_unique_ids_differ_by_seed_and_chip() -> None:
    ids = [chip_id for seed in range(100) for chip_id in mock_wheel.chip_ids("t3k", seed).values()]
    assert len(set(ids)) == 800
    assert mock_wheel.chip_ids("t3k", 3) == mock_wheel.chip_ids("t3k", 3)
    assert max(ids) >= 1 << 63, "ids are unsigned"


def test_a_missing_interpreter_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"need Python 9\.9 with venv: no python9\.9 that works is on PATH"):
        mock_wheel.interpreter("9.9")


def test_an_interrupted_installation_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(mock_wheel, "interpreter", lambda python: f"python{python}")
    monkeypatch.setattr(mock_wheel, "_answers", lambda command, python: True)
    folder = tmp_path / "installed"

    def run(command: list[str]) -> None:
        assert not (folder / "half").exists()
        folder.mkdir(exist_ok=True)
        commands.append(command)

    monkeypatch.setattr(mock_wheel, "_run", run)
    folder.mkdir()
    (folder / "half").touch()
    mock_wheel._install(folder, "3.12")
    assert [command[2] for command in commands] == ["venv", "pip"]
    mock_wheel._install(folder, "3.12")
    assert len(commands) == 2, "what is complete is left alone"
