# SPDX-License-Identifier: Apache-2.0
"""The documents describe the tree correctly: folders, layers, module paths, and the names of test files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.test_layers import LAYERS, PACKAGE

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TABLES = ["docs/architecture.md", "CONTRIBUTING.md"]
ROW = re.compile(r"^\| (\d+) \| `(\w+)/` \| (.*) \| (.*) \|$", re.MULTILINE)
# Where a path in a document may start. Documents write `account/ledger.py` for src/ttmem/account/ledger.py.
STARTS = [ROOT, PACKAGE, ROOT / "tests"]
# `folder/module.py` of one of our folders, or a path from the root of the repository.
FOLDERS = "|".join(sorted({path.name for path in PACKAGE.iterdir() if path.is_dir()}))
_TOPS = rf"src|tests|native|benchmarks|{FOLDERS}"
MODULE_PATH = re.compile(rf"(?<![\w/.])(?:\.\./)?((?:{_TOPS})/[\w/]+\.(?:py|cpp|h|def))\b")
# In the examples of documents, files of a user's project.
EXAMPLES = {"tests/test_model.py", "demo/model.py"}
# Unit tests of several modules, or of no module: the name describes their subject.
DESCRIPTIVE = {
    "account_of_lost_records", "accounting_examples", "agent_package", "benchmark_programs", "core_map_properties",
    "doctests", "documents_ts", "fuzz", "fuzz_grammar", "fuzz_imports", "imports", "inexact_peaks", "json_page",
    "layers", "ledger_properties", "mesh_properties", "missed_peaks_properties", "mock_toolchain", "plain_english",
    "recorded_ring_peaks", "ring_layout", "rings_hostile", "security_page", "server_loops",
    "slow_corrections", "slow_corrections_properties", "smi_machines", "smi_parts", "smi_properties", "source_tree",
    "top_screens", "workloads",
}  # fmt: skip


def folders() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def first_sentences(folder: str) -> str:
    """The first line of a folder's docstring."""
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text()))
    assert text, f"src/ttmem/{folder}/__init__.py has no docstring"
    return text.splitlines()[0]


def may_import(layer: int) -> str:
    return {1: "nothing of ours", 2: "layer 1"}.get(layer, f"layers 1 to {layer - 1}")


@pytest.mark.parametrize("page", TABLES)
def test_the_table_of_folders_is_the_tree(page: str) -> None:
    rows = ROW.findall((ROOT / page).read_text())
    assert {folder for _, folder, _, _ in rows} == folders()
    expected = {(layer, folder) for layer, names in enumerate(LAYERS, 1) for folder in names}
    assert {(int(layer), folder) for layer, folder, _, _ in rows} == expected
    assert [int(layer) for layer, *_ in rows] == sorted(int(layer) for layer, *_ in rows), "lowest layer first"
    for layer, folder, what, imports in rows:
        assert what == first_sentences(folder), f"{page}: the row of {folder}/ is not the first line of its docstring"
        assert imports == may_import(int(layer)), f"{page}: what {folder}/ may import"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_path_in_a_document_exists(page: Path) -> None:
    paths = set(MODULE_PATH.findall(page.read_text())) - EXAMPLES
    missing = sorted(path for path in paths if not any((start / path).exists() for start in STARTS))
    assert not missing, f"{page.name} names files that do not exist"


def test_paths_are_found() -> None:
    text = "see `account/ledger.py`, [layout](../native/src/layout.h), and tests/unit/test_units.py; not /a/tests/x.py"
    assert MODULE_PATH.findall(text) == ["account/ledger.py", "native/src/layout.h", "tests/unit/test_units.py"]


def test_a_unit_test_has_the_name_of_its_module() -> None:
    modules = {path.stem for path in PACKAGE.rglob("*.py")}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "unit").glob("test_*.py")}
    assert sorted(tests - modules - DESCRIPTIVE) == []
    assert sorted(DESCRIPTIVE - tests) == [], "these tests are gone: remove their names"
    assert sorted(DESCRIPTIVE & modules) == [], "these are names of modules: remove them from the list"


def test_the_glossary_has_each_term_once_and_its_names_exist() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = [term for term in re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE) if term not in ("term", "---")]
    assert len(terms) == len(set(terms)) > 40
    modules = {path.name: path.read_text() for path in PACKAGE.rglob("*.py") if path.parent.name != "cli"}
    for module, name in re.findall(r"`(\w+\.py)(?:: (\w+))?`", page):
        assert module in modules, f"the glossary names {module}, which does not exist"
        defined = re.search(rf"^(?:class )?{name}\b", modules[module], re.MULTILINE)
        assert not name or defined, f"the glossary names {name} of {module}, which does not exist"
