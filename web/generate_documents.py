# SPDX-License-Identifier: Apache-2.0
"""Writes `web/src/documents.ts`: the TypedDicts of `ttmem.model.schema` and `page_schema` as TypeScript interfaces.

`make web-types` runs it. `tests/unit/test_documents_ts.py` compares the file with the output.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

from ttmem.model import page_schema, schema

TARGET = Path(__file__).parent / "src" / "documents.ts"
_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Generated from src/ttmem/model/schema.py and page_schema.py by `make web-types`. Do not edit.
"""
_NAMES = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null", object: "unknown"}
_WIDTH = 120


def generate() -> str:
    """The text of the file."""
    known = {**vars(schema), **vars(page_schema)}
    parts = [_HEAD]
    for module in (schema, page_schema):
        parts += [_definition(name, value, known) for name, value in vars(module).items() if _is_ours(value, module)]
    return "\n".join(parts)


def _is_ours(value: object, module: types.ModuleType) -> bool:
    """Classes of the module, and aliases such as ``Literal["a", "b"]``, which have no module."""
    if is_typeddict(value):
        return bool(getattr(value, "__module__", None) == module.__name__)
    return get_origin(value) in (Literal, dict)


def _definition(name: str, value: Any, known: dict[str, Any]) -> str:
    if not is_typeddict(value):
        return f"export type {name} = {_type(value)};\n"
    lines = _comment(value)
    lines.append(f"export interface {name} {{")
    for key, hint in typing.get_type_hints(value, localns=known).items():
        mark = "?" if key in value.__optional_keys__ else ""
        lines.append(f"  {key}{mark}: {_type(hint)};")
    lines.append("}\n")
    return "\n".join(lines)


def _comment(value: Any) -> list[str]:
    text = inspect.cleandoc(value.__doc__ or "").replace("``", "`")
    if not text or text.startswith("dict("):
        return []
    lines = text.splitlines()
    if len(lines) == 1 and len(lines[0]) <= _WIDTH - 7:
        return [f"/** {lines[0]} */"]
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def _type(hint: Any) -> str:
    if is_typeddict(hint):
        return str(hint.__name__)
    if hint in _NAMES:
        return _NAMES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{word}"' for word in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(_type(part) for part in arguments)
    if origin is list:
        inner = _type(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<{_type(arguments[0])}, {_type(arguments[1])}>"
    raise TypeError(f"no TypeScript type is known for {hint!r}: add it to {__file__}")


def main() -> None:
    text = generate()
    if "--print" in sys.argv[1:]:
        sys.stdout.write(text)
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()
