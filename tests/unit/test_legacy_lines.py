# SPDX-License-Identifier: Apache-2.0
"""Numbers in the lines of the legacy log, and the values that a line may have. The lines: test_legacy_log.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ttmem.ingest.legacy_lines import STYLES, Lines, mega
from ttmem.model.kinds import Kind


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1048576, "1"),
        (208896, "0.199219"),
        (917504, "0.875"),
        (94208, "0.0898438"),
        (8192000, "7.8125"),
        (1, "9.53674e-07"),
        (100 << 30, "102400"),
        (1234567 << 20, "1.23457e+06"),
        (123456789, "117.738"),
    ],
)
def test_megabytes_as_cpp_prints_them(size: int, text: str) -> None:
    assert mega(size) == text


def test_styles_have_names() -> None:
    assert STYLES == ("newest", "untyped", "bytes", "decimal")


def test_a_line_about_a_mesh_names_its_devices() -> None:
    lines = Lines("newest")
    assert lines.allocated(7, 64, Kind.L1, (0, 1), 0x10, 1).decode() == (
        "✓ [PID 7] Allocated 64 bytes of L1 on device (0, 1) (buffer_id=0x10)"
    )
    assert (
        lines.freed(7, 64, (0, 1), 0x10, 0).decode() == "✗ [PID 7] Freed buffer 0x10 on device (0, 1) (64 bytes, FINAL)"
    )


def test_cpp_agrees_about_numbers(folder: Path) -> None:
    """The same division, printed by a C++ stream."""
    sizes = [1, 1000, 94208, 208896, 917504, 123456789, 8192000, 99999950, 1048575, 1 << 33, (100 << 30) - 1, 1 << 50]
    loop = "unsigned long n; while (std::cin >> n) std::cout << n / 1048576.0 << ' ';"
    code = f"#include <iostream>\nint main() {{ {loop} }}\n"
    (folder / "p.cpp").write_text(code)
    subprocess.run(["g++", "-O0", str(folder / "p.cpp"), "-o", str(folder / "p")], check=True)
    said = subprocess.run(
        [str(folder / "p")], input=" ".join(map(str, sizes)), capture_output=True, text=True, check=True
    ).stdout.split()
    assert [mega(size) for size in sizes] == said
