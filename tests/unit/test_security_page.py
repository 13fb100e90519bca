# SPDX-License-Identifier: Apache-2.0
"""The tests that docs/security.md names for its statements exist."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT

_PAGE = (ROOT / "docs" / "security.md").read_text()
_NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", _PAGE)))


@pytest.mark.parametrize(("path", "name"), _NAMED)
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_each_statement_and_each_attack_names_a_test() -> None:
    tables = re.split(r"^\|[-|]+\|$", _PAGE, flags=re.MULTILINE)[1:]
    rows = [line for table in tables[2:] for line in table.partition("\n\n")[0].splitlines() if line]
    assert len(rows) > 20
    for row in rows:
        assert "::test_" in row, row


def test_every_attack_is_on_the_page() -> None:
    """A new attack is described there."""
    attacks = re.findall(r"^def (test_\w+)\(", (ROOT / "tests/integration/test_attacks.py").read_text(), re.MULTILINE)
    left_out = [name for name in attacks if f"test_attacks.py::{name}`" not in _PAGE]
    assert left_out == ["test_a_dump_lists_what_was_live_when_it_was_asked_for"]  # a law, not an attack


def test_the_page_is_found() -> None:
    assert "docs/security.md" in (ROOT / "README.md").read_text()
    assert "security.md" in (ROOT / "docs" / "serve.md").read_text()
