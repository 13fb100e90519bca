# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings are correct."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import ttmem

PACKAGE = Path(ttmem.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.stem.startswith("__")
]
WITH_EXAMPLES = [name for name in MODULES if ">>> " in (PACKAGE.parent / (name.replace(".", "/") + ".py")).read_text()]


def test_there_are_examples() -> None:
    assert {"ttmem.account.ledger", "ttmem.model.units", "ttmem.collect.client"} <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted
    assert not result.failed
