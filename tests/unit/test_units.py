# SPDX-License-Identifier: Apache-2.0
"""Human-readable sizes: formatting and parsing."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import ROOT
from ttmem.model.units import complete, exact, human, parse, short

LAW = settings(max_examples=60)
K, M, G, T, P = 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (K, "1.0 KiB"),
        (K + K // 2, "1.5 KiB"),
        (M - 1, "1.0 MiB"),  # never "1024.0 KiB"
        (M, "1.0 MiB"),
        (1572864, "1.5 MiB"),
        (110 * 1572864, "165.0 MiB"),
        (8 * 4278190080, "31.9 GiB"),
        (3 * T, "3.0 TiB"),
        (5 * P, "5.0 PiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_human(size: int | None, text: str) -> None:
    assert human(size) == text


@pytest.mark.parametrize(
    ("size", "in_short", "in_full"),
    [
        (0, "0 B", "0 B"),
        (1023, "1023 B", "1023 B"),
        (K, "1 KiB", "1 KiB"),
        (K + 1, "1.0 KiB", "1.0 KiB (1,025 B)"),
        (79_200, "77.3 KiB", "77.3 KiB (79,200 B)"),
        (M - 1, "1.0 MiB", "1.0 MiB (1,048,575 B)"),
        (512 * M, "512 MiB", "512 MiB"),
        (3 * M // 2, "1.5 MiB", "1.5 MiB"),
        (-2048, "-2 KiB", "-2 KiB"),
    ],
)
def test_short_and_exact(size: int, in_short: str, in_full: str) -> None:
    assert (short(size), exact(size)) == (in_short, in_full)


def test_unknown_can_be_worded() -> None:
    assert human(None, "not known") == "not known"
    assert human(0, "not known") == "0 B"


@LAW
@given(st.integers(0, 1 << 60))
def test_human_stays_narrow_and_close(size: int) -> None:
    number, unit = human(size).split(" ")
    assert len(number) <= 7
    factor = {"B": 1, "KiB": K, "MiB": M, "GiB": G, "TiB": T, "PiB": P}[unit]
    assert abs(float(number) * factor - size) <= 0.0501 * factor
    assert unit == "PiB" or float(number) < 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64K", 64 * K),
        ("64k", 64 * K),
        ("64KB", 64 * K),
        ("64KiB", 64 * K),
        ("64 kib", 64 * K),
        ("1.5 MiB", 1572864),
        ("2G", 2 * G),
        ("1T", T),
        ("1P", P),
        ("7B", 7),
        ("  12 M  ", 12 * M),
    ],
)
def test_parse(text: str, size: int) -> None:
    assert parse(text) == size


@pytest.mark.parametrize("text", ["", " ", "K", "-1", "1.5.2", "ten", "1e3", "4 4", "1X", "1KK", "0x10", ".5"])
def test_parse_refuses_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="not a size") as caught:
        parse(text)
    assert repr(text) in str(caught.value)
    assert "64K" in str(caught.value)


@LAW
@given(st.integers(0, 1 << 64))
@example((1 << 53) + 1)  # the first that a float cannot hold
def test_parse_is_exact_for_plain_bytes(size: int) -> None:
    assert parse(str(size)) == size


@LAW
@given(st.integers(0, 1 << 20), st.sampled_from("KMG"))
def test_parse_is_exact_for_whole_units(count: int, unit: str) -> None:
    assert parse(f"{count}{unit}") == count * {"K": K, "M": M, "G": G}[unit]


@LAW
@given(st.floats(0, 1))
@example(1.0)
@example(0.99999)
@example(0.9999)
def test_what_is_not_all_is_never_said_to_be_all(part: float) -> None:
    text = complete(part)
    assert (text == "100 %") == (part == 1)
    assert abs(float(text.removesuffix(" %")) - 100 * part) <= 0.01 + 1e-9


def test_the_pages_write_sizes_in_the_same_way() -> None:
    """web/tests/format.test.ts checks these cases for the pages."""
    cases = json.loads((ROOT / "web" / "tests" / "sizes.json").read_text())
    for case in cases["sizes"]:
        size = case["size"]
        assert (human(size), short(size), exact(size)) == (case["human"], case["short"], case["exact"])
    for case in cases["shares"]:
        assert complete(case["part"]) == case["text"]
