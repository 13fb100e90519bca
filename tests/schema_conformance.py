# SPDX-License-Identifier: Apache-2.0
"""Compares a value with a type of `model/schema.py`: exactly its keys, values of its types, None only where allowed.

assert not problems(document, schema.Snapshot)
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_UNIONS = (Union, types.UnionType)


def problems(value: object, wanted: Any) -> list[str]:
    """The problems of a value, a line for each place; empty if it conforms."""
    return list(_compare(value, wanted, ""))


def _compare(value: object, wanted: Any, where: str) -> Iterator[str]:
    if is_typeddict(wanted):
        yield from _compare_row(value, wanted, where)
        return
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in _UNIONS:
        found = [list(_compare(value, one, where)) for one in arguments if value is None or one is not type(None)]
        if all(found):
            yield from min(found, key=len)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: {_name(value)} instead of a list"
            return
        for inner in value:
            yield from _compare(inner, arguments[0], f"{where}[]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: {_name(value)} instead of an object"
            return
        for key, inner in value.items():
            yield from _compare(key, arguments[0], f"{where}: key {key!r}")
            yield from _compare(inner, arguments[1], f"{where}.{key}")
    elif origin is Literal:
        if value not in arguments:
            yield f"{where}: {value!r} instead of {' or '.join(map(repr, arguments))}"
    elif not _is(value, wanted):
        yield f"{where}: {_name(value)} instead of {wanted.__name__}"


def _compare_row(value: object, wanted: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {_name(value)} instead of {wanted.__name__}"
        return
    hints = get_type_hints(wanted)
    for key in wanted.__required_keys__ - value.keys():
        yield f"{where}: {wanted.__name__} has no {key!r}"
    for key in value.keys() - hints.keys():
        yield f"{where}: {wanted.__name__} has {key!r}, which is not in the schema"
    for key in value.keys() & hints.keys():
        yield from _compare(value[key], hints[key], f"{where}.{key}" if where else key)


def _is(value: object, wanted: type) -> bool:
    """Whether a value has a type. An int is accepted as a float; a bool is not a number."""
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)


def _name(value: object) -> str:
    return "null" if value is None else f"{type(value).__name__} {value!r}"[:80]


def paths(wanted: Any, apart: frozenset[Any] = frozenset(), where: str = "") -> Iterator[str]:
    """Every key of a type, dotted: ``chips[].chip``; keys of an object by kind or pool are ``<kind>`` or ``<pool>``.

    A row that is one of those ``apart`` is described elsewhere: its own keys are left out, here and in rows that
    extend it.
    """
    origin, arguments = get_origin(wanted), get_args(wanted)
    if is_typeddict(wanted):
        hints = get_type_hints(wanted)
        if where:
            yield where
            for other in apart:
                known = get_type_hints(other)
                if known.items() <= hints.items():
                    hints = {key: hint for key, hint in hints.items() if key not in known}
        for key, hint in hints.items():
            yield from paths(hint, apart, f"{where}.{key}" if where else key)
    elif origin in _UNIONS:
        yield where
        for one in arguments:
            if one is not type(None):
                yield from paths(one, apart, where)
    elif origin is list:
        yield from paths(arguments[0], apart, f"{where}[]")
    elif origin is dict and (where.endswith("kinds") or is_typeddict(arguments[1])):
        yield from paths(arguments[1], apart, f"{where}.<{'pool' if where.endswith('pools') else 'kind'}>")
    else:
        yield where
