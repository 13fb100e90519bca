# SPDX-License-Identifier: Apache-2.0
"""Parses the messages of operations that check the available L1 before they allocate.

What an operation counts as available comes from tt-metal's source or from tests with the real ttnn; otherwise it is
marked as not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import NamedTuple

from ttmem.analyze.failure_types import BELOW, FIXED, FREE_IN_BANK, PART_BELOW, TooLittleL1
from ttmem.analyze.message_patterns import pattern

_SLICED = "an operation that slices"  # convolutions, pooling


class _Form(NamedTuple):
    """A message template: the last number is what is available, the others add up to what is needed."""

    operation: str
    counts: str | None
    text: str
    total: Callable[[list[int]], int] = sum


_FORMS = [
    _Form("ttnn.slice", BELOW, "ttnn::slice: required {entry} size # B exceeds per-core L1 budget # B"),
    _Form(
        "ttnn.reshape",
        BELOW,
        "RM reshape dest staging does not fit in L1: need at least # B dest + # B source, have # B",
    ),
    _Form(
        "a reduction",
        BELOW,
        "Negate H reduce: <<cb_>>acc + <<cb_>>ineg (# B for {skip} tiles) would not fit in available L1 (# B)",
    ),
    _Form(
        "layer norm",
        PART_BELOW,
        "LayerNorm streaming circular buffers require # bytes, but only # bytes of the allocator's L1 span are "
        "available",
    ),
    _Form("ttnn.concat", FIXED, "ttnn.concat: required {entry} size (# B) exceeds per-core L1 capacity (# B)"),
    _Form(
        "ttnn.concat",
        FIXED,
        "ttnn.concat: double-buffered tile-height chunk (2 x {skip} x {skip} = # B) exceeds L1 capacity (# B)",
    ),
    _Form("ttnn.pad", FIXED, "ttnn.pad: padded row of # B does not fit in the per-core L1 budget (# B)"),
    _Form(
        "ttnn.nonzero",
        FIXED,
        "non_zero_indices: indices staging buffer requires # L1 bytes but per-core L1 is # bytes",
    ),
    _Form(
        "ttnn.rotate",
        FIXED,
        "Not enough L1 for even a single CB page: aligned_input_stick_nbytes=# exceeds l1_for_cb=#",
    ),
    _Form(
        "a dataflow buffer",
        FIXED,
        "DFB {skip}: ring size (# bytes) exceeds Tensix unreserved L1 size (# bytes)",
    ),
    _Form(
        "create_qkv_heads",
        FIXED,
        "Workload of Tiles # at Tile Size # (times 2 for output) exceeds L1 capacity #",
        lambda tiles_and_size: 2 * prod(tiles_and_size),
    ),
    _Form(
        _SLICED,
        FREE_IN_BANK,
        "DRAM Auto slice could not find valid slice configuration. Tried up to {skip} slices for {any} Available L1: "
        "# bytes",
    ),
    _Form(_SLICED, FREE_IN_BANK, "DRAM slicing configuration failed for {any} Available L1: # bytes"),
    _Form("ttnn.experimental.conv3d", None, "conv3d: the static circular buffers need # B at {any} but only # B of L1"),
    _Form("ring joint attention", None, "Exp ring joint SDPA CBs need # B but only # B of L1 are usable"),
    _Form(
        "attention",
        None,
        "spec_multi_pos_tiles={skip}: circular buffers need # B per core but only # B of L1 are available",
    ),
    _Form(
        "qkv_causal_conv1d_silu",
        None,
        "qkv_causal_conv1d_silu: channel_chunk_size = {skip} needs # bytes of L1 per core, only # are available",
    ),
    _Form("moe_fused_swiglu", None, "moe_fused_swiglu: needs # bytes of CB L1 but budget is #"),
    _Form(
        "unified_routed_expert_ffn",
        None,
        "unified_routed_expert_ffn: per-core CBs do not fit in L1 even at the smallest config {any} need # B but only "
        "# B available",
    ),
    _Form(
        "attn_res_gather_softmax",
        None,
        "attn_res_gather_softmax needs # B of L1 per core at Wt {skip} but the core has # B",
    ),
]
_PATTERNS = [(form, pattern(form.text)) for form in _FORMS]
# The first words of each message, up to the first variable part; used to find messages.
ANCHORS = "|".join(sorted({r"\s+".join(map(re.escape, re.split("[#{<]", form.text)[0].split())) for form in _FORMS}))


def refusal_at(text: str, at: int) -> tuple[re.Match[str], TooLittleL1] | None:
    """The message of an operation that begins at ``at``."""
    for form, known in _PATTERNS:
        match = known.match(text, at)
        if match is not None:
            *needs, have = map(int, match.groups())
            return match, TooLittleL1(form.operation, form.total(needs) if needs else None, have, form.counts)
    return None
