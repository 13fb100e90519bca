# SPDX-License-Identifier: Apache-2.0
"""The table of a phase: rows, signs, and text that is no markup."""

from __future__ import annotations

from ttmem.collect.memory import PhaseFigures
from ttmem.collect.phase_table import phase_table


def test_rows_of_two_devices_and_their_sum() -> None:
    figures = {
        (0, "dram"): PhaseFigures(0, 4096, 2048),
        (1, "dram"): PhaseFigures(4096, 4096, 0),
        (None, "dram"): PhaseFigures(4096, 8192, 2048),
        (None, "l1"): PhaseFigures(0, 0, 0),
    }
    html = phase_table("load", "exact", figures)
    assert html.count("<tr>") == 4  # the title, two devices, and all; L1 was never used
    assert ">+2.0 KiB<" in html
    assert ">-4.0 KiB<" in html
    assert ">-2.0 KiB<" in html


def test_names_are_text() -> None:
    html = phase_table("<b>&", "<i>", {})
    assert "<b>phase &lt;b&gt;&amp;</b>" in html
    assert "(&lt;i&gt;)" in html
