# SPDX-License-Identifier: Apache-2.0
"""Explanations of failed allocations as data: schema "ttmem.explain/1"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from ttmem.analyze.failure_types import Failure
from ttmem.analyze.process_layout import Block, ProgramBuffer
from ttmem.analyze.verdict_types import Advice, HeldGroup, Verdict
from ttmem.documents.explanation_summary import headline, held_by
from ttmem.documents.explanation_text import advice_text, sentences
from ttmem.model.core_sets import CoreRange, format_ranges, ranges_of
from ttmem.model.kinds import Kind

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.explain/1"


def document(file: str, failures: int, explained: Iterable[tuple[str, int, Verdict]]) -> schema.Explanation:
    """Explanations of failures in a file: where each was found, how often, and its verdict.

    ``failures`` is the number of different failures, explained here or not.
    """
    return {
        "schema": SCHEMA,
        "file": file,
        "failures": failures,
        "explained": [{"where": where, "times": times, **verdict(found)} for where, times, found in explained],
    }


def verdict(found: Verdict) -> schema.VerdictRow:
    """One verdict; what is not known is null."""
    return {
        "headline": headline(found),
        "held_by": held_by(found),
        "failure": failure(found.failure),
        "why": found.why,
        "operation": found.tag,
        "line": found.line,
        "shape": found.shape,
        "asked": found.asked,
        "there": found.there,
        "missing": found.missing,
        "free": found.free,
        "size": found.size,
        "holders": [_group(group) for group in found.holders],
        "held": found.held,
        "wall": None if found.wall is None else _block(found.wall),
        "program": None if found.program is None else {"id": found.program.metal_id, "operation": found.program.tag},
        "parts": [_piece(piece) for piece in found.pieces],
        "advice": [_advice(advice, found) for advice in found.advice],
        "unknown": list(found.unknown),
        "sections": [{"heading": heading, "lines": lines} for heading, lines in sentences(found)],
    }


def failure(found: Failure) -> schema.FailureRow:
    """Every number of a message, by name."""
    fields = {name: _plain(value) for name, value in found._asdict().items()}
    return cast("schema.FailureRow", {"type": type(found).__name__, **fields})


def _plain(value: Any) -> Any:
    if isinstance(value, Kind):
        return value.label
    if isinstance(value, CoreRange):
        return format_ranges([value])
    return [list(one) for one in value] if isinstance(value, tuple) else value


def _block(block: Block) -> schema.BlockRow:
    return {
        "kind": block.kind.label,
        "address": block.address,
        "size": block.size,
        "per_bank": block.per_bank,
        "allocator": block.allocator,
        "tag": block.tag,
        "shape": block.shape,
        "line": block.line,
        "cause": block.cause.name.lower(),
    }


def _group(group: HeldGroup) -> schema.HolderRow:
    addresses = [block.address for block in group.blocks]
    return {**_block(group.blocks[0]), "buffers": group.buffers, "addresses": addresses}


def _piece(piece: ProgramBuffer) -> schema.ProgramPart:
    return {
        "kind": piece.kind.label,
        "start": piece.start,
        "end": piece.end,
        "cores": format_ranges(ranges_of(piece.cores)),
        "tag": piece.tag,
    }


def _advice(advice: Advice, found: Verdict) -> schema.AdviceRow:
    return {
        "what": advice.what,
        "value": advice.value,
        "gives": advice.gives,
        "basis": advice.basis,
        "blocks": [_block(block) for block in advice.blocks],
        "addresses": list(advice.addresses),
        "note": advice.note,
        "text": advice_text(advice, found),
    }
