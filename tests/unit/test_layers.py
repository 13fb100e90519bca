# SPDX-License-Identifier: Apache-2.0
"""Imports go downwards only, and code that runs inside the workload has no dependencies."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import ttmem

PACKAGE = Path(ttmem.__file__).parent
# Lowest first. Folders on the same line do not import each other.
LAYERS = [
    {"model"},
    {"wire", "account", "sources", "agent"},
    {"l1", "collect"},
    {"ingest", "sim"},
    {"recording"},
    {"analyze"},
    {"documents", "statistics"},
    {"server", "imports", "compare"},
    {"run"},
    {"doctor", "demo"},
    {"fit", "pages"},
    {"show"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# `import ttmem` provides the client, so it has the layer of the client. `python -m ttmem` is the command.
RANK[""] = RANK["collect"]
RANK["__main__"] = RANK["cli"] + 1


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Every module named in an import statement anywhere in a file, relative and lazy ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                parents = parents[: len(parents) - (node.level - 1)]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in MODULES else base
        elif isinstance(node, ast.Call):  # import_module("ttmem.x") and __import__("ttmem.x")
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    return set(imports(ast.parse(path.read_text()), module, path.name == "__init__.py"))


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_the_scan_sees_every_form_of_import() -> None:
    code = """
import ttmem.cli
from ttmem.server import daemon
from ttmem import cli as other
def lazy():
    from ..show.smi_screen import render
    from . import legacy_stream
    import importlib
    importlib.import_module("ttmem.run")
if TYPE_CHECKING:
    from ttmem.sources import sysfs
"""
    assert set(imports(ast.parse(code), "ttmem.wire.legacy_records", False)) == {
        "ttmem.cli", "ttmem.server.daemon", "ttmem.show.smi_screen", "ttmem.wire.legacy_stream", "importlib",
        "ttmem.run", "ttmem.sources.sysfs",
    }  # fmt: skip


def test_every_folder_has_a_layer() -> None:
    assert {layer(module) for module in MODULES} <= set(RANK), "say in LAYERS where the new folder belongs"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_downwards(module: str) -> None:
    mine = layer(module)
    wrong = [
        other
        for other in imports_of(module)
        if other.split(".")[0] == "ttmem"
        and not (layer(other) == mine or RANK[layer(other)] < RANK[mine] or (mine == "" and layer(other) == "collect"))
    ]
    assert not wrong, f"{module} imports {wrong}, which stand above it or beside it"


# A screen renders documents. In addition, the dashboard reads /proc and keeps its settings in a file.
SHOWN = {"", "model", "wire", "documents", "show"}  # "": the version
NOT_DOCUMENTS = {
    "ttmem.show.top.parts.process_tree": {"ttmem.sources.process_lookup"},
    "ttmem.show.top.settings": {"ttmem.recording.output_files"},
    "ttmem.show.top.signals": {"ttmem.sources.process_lookup"},
}


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) == "show"])
def test_screens_are_made_of_documents(module: str) -> None:
    ours = {other for other in imports_of(module) if other.split(".")[0] == "ttmem"}
    assert {other for other in ours if layer(other) not in SHOWN} == NOT_DOCUMENTS.get(module, set())


def closure(start: str) -> set[str]:
    """A module and all modules of ttmem that it imports, with the packages that contain them."""
    todo, done = [start], set()
    while todo:
        module = todo.pop()
        if module in MODULES and module not in done:
            done.add(module)
            todo += [*imports_of(module), module.rpartition(".")[0]]
    return done


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) in ("collect", "")])
def test_inside_the_workload_only_the_standard_library(module: str) -> None:
    foreign = {
        other
        for ours in closure(module)
        for other in imports_of(ours)
        if other.split(".")[0] not in sys.stdlib_module_names | {"ttmem"}
    }
    assert not foreign


def fresh_interpreter(code: str) -> list[str]:
    """Words printed by code in an interpreter without site-packages, environment or current directory."""
    prelude = f"import __future__, sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); before = set(sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_ttmem_costs_nothing() -> None:
    assert fresh_interpreter("import ttmem\nprint(*sorted(set(sys.modules) - before))") == ["ttmem"]


def test_the_client_brings_nothing_heavy() -> None:
    code = "from ttmem import AllocationClient\nprint(*sorted(set(sys.modules) - before))"
    loaded = {name.split(".")[0] for name in fresh_interpreter(code)}
    heavy = {"asyncio", "http", "email", "ssl", "argparse", "logging", "unittest", "subprocess", "multiprocessing",
             "concurrent", "urllib", "h11", "prometheus_client", "numpy", "ttnn", "inspect", "dataclasses"}  # fmt: skip
    assert not loaded & heavy


def test_public_names() -> None:
    code = "import ttmem\nprint(*(name for name in ttmem.__all__ if getattr(ttmem, name) is not None))"
    assert fresh_interpreter(code) == ttmem.__all__
    assert fresh_interpreter("from ttmem import *\nprint(phase.__name__)") == ["phase"]
    with pytest.raises(AttributeError, match="module 'ttmem' has no attribute 'nothing'"):
        _ = ttmem.nothing


def test_no_file_name_occurs_twice() -> None:
    """A newcomer finds a module by its name. A command has the name of what it shows."""
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
    assert [name for name, count in names.items() if count > 1] == ["__init__.py"]
