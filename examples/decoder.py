# SPDX-License-Identifier: Apache-2.0
"""A decoder with the shapes of Llama-3.1-8B: on which boards does it fit, with which batch and length?

    ttmem fit --board all -- python decoder.py --batch 32 --length 1024
    ttmem fit --board n150,n300 --vary batch=1..32 -- python decoder.py --batch {batch} --length 8192

It has weights in bfloat8_b, a KV cache, prefill, decoding with a trace and two command queues, greedy sampling, and
tensor parallelism over all chips of the machine. Its values are not those of a model: nothing is loaded.
"""

from __future__ import annotations

import argparse
from typing import Any

import ttnn

HIDDEN, FEED_FORWARD, LAYERS, VOCABULARY = 4096, 14336, 32, 128256
HEADS, KV_HEADS, HEAD = 32, 8, 128
TILE, ROWS = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT


class Layer:
    """The weights and the cache of one layer: the part of each chip."""

    def __init__(self, decoder: Decoder, batch: int, length: int) -> None:
        chips, new = decoder.chips, decoder.new
        self.norms = [new(1, 1, 32, HIDDEN, dtype=ttnn.bfloat16) for _ in range(2)]
        self.qkv = new(1, 1, HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD // chips)
        self.out = new(1, 1, HEADS * HEAD // chips, HIDDEN)
        self.gate, self.up = (new(1, 1, HIDDEN, FEED_FORWARD // chips) for _ in range(2))
        self.down = new(1, 1, FEED_FORWARD // chips, HIDDEN)
        self.cache = [new(batch, KV_HEADS // chips, length, HEAD) for _ in range(2)]


class Decoder:
    def __init__(self, device: Any, batch: int, length: int, layers: int) -> None:
        self.device = device
        self.chips = device.get_num_devices()
        self.batch = batch
        self.embedding = ttnn.empty([1, 1, VOCABULARY, HIDDEN], ttnn.bfloat16, ROWS, device, ttnn.DRAM_MEMORY_CONFIG)
        self.head = self.new(1, 1, HIDDEN, VOCABULARY // self.chips)
        self.layers = [Layer(self, batch, length) for _ in range(layers)]

    def new(self, *shape: int, dtype: Any = ttnn.bfloat8_b) -> Any:
        return ttnn.empty(list(shape), dtype, TILE, self.device, ttnn.DRAM_MEMORY_CONFIG)

    def prefill(self, tokens: int, user: int) -> None:
        """One user's prompt: its keys and values go into the cache."""
        hidden = self.new(1, 1, tokens, HIDDEN, dtype=ttnn.bfloat16)
        for layer in self.layers:
            qkv = ttnn.linear(ttnn.rms_norm(hidden, weight=layer.norms[0]), layer.qkv, dtype=ttnn.bfloat8_b)
            query, key, value = ttnn.experimental.nlp_create_qkv_heads(
                qkv, num_heads=HEADS // self.chips, num_kv_heads=KV_HEADS // self.chips, transpose_k_heads=False
            )
            for cache, new in zip(layer.cache, (key, value)):
                ttnn.fill_cache(cache, new, user)
            attended = ttnn.transformer.scaled_dot_product_attention(query, key, value, is_causal=True)
            hidden = self.rest(layer, hidden, ttnn.experimental.nlp_concat_heads(attended))

    def decode(self, tokens: Any, positions: Any) -> Any:
        """The next token of every user."""
        hidden = ttnn.embedding(tokens, self.embedding, layout=TILE)
        hidden = ttnn.reshape(hidden, [1, 1, self.batch, HIDDEN])
        for layer in self.layers:
            qkv = ttnn.linear(ttnn.rms_norm(hidden, weight=layer.norms[0]), layer.qkv)
            width = HEADS // self.chips * HEAD
            query = ttnn.reshape(ttnn.slice(qkv, [0, 0, 0, 0], [1, 1, self.batch, width]), [1, self.batch, -1, HEAD])
            attended = ttnn.transformer.scaled_dot_product_attention_decode(
                query, *layer.cache, cur_pos_tensor=positions
            )
            hidden = self.rest(layer, hidden, ttnn.reshape(attended, [1, 1, self.batch, width]))
        logits = ttnn.linear(hidden, self.head)
        if self.chips > 1:
            logits = ttnn.all_gather(logits, dim=3, cluster_axis=1)
        return ttnn.argmax(ttnn.to_layout(logits, ROWS), dim=-1)

    def rest(self, layer: Layer, hidden: Any, attended: Any) -> Any:
        """What follows the attention in each layer."""
        hidden = ttnn.add(hidden, self.over_chips(ttnn.linear(attended, layer.out)))
        normed = ttnn.rms_norm(hidden, weight=layer.norms[1])
        gate = ttnn.linear(normed, layer.gate, activation="silu")
        product = ttnn.mul(gate, ttnn.linear(normed, layer.up))
        return ttnn.add(hidden, self.over_chips(ttnn.linear(product, layer.down)))

    def over_chips(self, partial: Any) -> Any:
        """The sum over all chips."""
        if self.chips == 1:
            return partial
        part = ttnn.reduce_scatter(partial, dim=3, cluster_axis=1)
        return ttnn.all_gather(part, dim=3, cluster_axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--layers", type=int, default=LAYERS)
    options = parser.parse_args()
    chips = min(KV_HEADS, ttnn.get_num_devices())
    if chips > 1:
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    device = ttnn.open_mesh_device(
        ttnn.MeshShape(1, chips), num_command_queues=2, l1_small_size=32768, trace_region_size=32 << 20
    )
    decoder = Decoder(device, options.batch, options.length, options.layers)
    decoder.prefill(min(options.prompt, options.length), 0)
    tokens = ttnn.zeros([1, options.batch], dtype=ttnn.uint32, layout=ROWS, device=device)
    positions = ttnn.zeros([options.batch], dtype=ttnn.int32, layout=ROWS, device=device)
    decoder.decode(tokens, positions)  # compiles
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    found = decoder.decode(tokens, positions)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    for _ in range(4):
        written = ttnn.record_event(device, 1)  # queue 1 writes the next tokens
        ttnn.wait_for_event(0, written)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
    ttnn.synchronize_device(device)
    print("tokens:", list(found.shape))
    ttnn.release_trace(device, trace)
    ttnn.close_mesh_device(device)


main()
