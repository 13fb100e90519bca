# SPDX-License-Identifier: Apache-2.0
"""Llama-like decode: weights in DRAM, a growing paged KV cache, programs compiled once, then a trace that is replayed.

Each process has a replica of the model (data parallel). If its share of the machine has several chips, the model is
split over them (tensor parallel).
"""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.collect.memory import phase
from ttmem.model.kinds import Kind
from ttmem.sim.buffer import Buffer, allocate_tensor
from ttmem.sim.device import AnyDevice
from ttmem.sim.tensors import Dtype, MemoryConfig, MemoryLayout, TensorSpec
from ttmem.sim.workloads import HELD, Steps, WorkerPart
from ttmem.sim.workloads.operations import BF8_TILE_BYTES, BF16_TILE_BYTES, eltwise, matmul, operation

_DIM, _HIDDEN, _QKV, _HEADS, _HEAD = 4096, 14336, 6144, 8, 128
_LAYERS, _BATCH, _CONTEXT_TOKENS = 32, 32, 512
_BLOCK_TOKENS = 32  # tokens per block of the KV cache
_VOCABULARY = 128256
_SHARDED = MemoryConfig(MemoryLayout.WIDTH_SHARDED, (32, _DIM // 32), 32)


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open(trace_region_size=32 << 20, system_dram=14 << 20) as device:
        yield "opened the device"
        weights: list[Buffer] = []
        with phase("load"):
            for tag, spec in _weights(device):
                weights.append(allocate_tensor(device, spec, tag=tag))
                yield f"loaded {tag}"
        cache = _grow(device, 0)
        yield "made the KV cache"
        with phase("prefill"):
            _forward(device, "prefill", block=16)
        yield "prefilled"
        _forward(device, "decode", block=4)
        yield "compiled decode"
        logits = allocate_tensor(device, TensorSpec((32, _VOCABULARY // 8)), Kind.L1, tag="logits")
        trace = device.begin_trace_capture()
        _forward(device, "decode", block=4)
        device.end_trace_capture(trace)
        yield "captured the trace"
        for token in range(rounds):
            with phase("decode"):
                device.execute_trace(trace)
                device.run("sample", lambda: eltwise("top_k", device.grid))
                if token % _CONTEXT_TOKENS == _CONTEXT_TOKENS - 1:
                    cache = []  # the conversations have ended
                if token % _BLOCK_TOKENS == _BLOCK_TOKENS - 1:
                    cache += _grow(device, len(cache) // _LAYERS // 2)
            yield f"decoded token {token + 1}"
        yield HELD
        device.release_trace(trace)
        logits.deallocate()
        yield "released the trace"
        del weights[:], cache[:]
        yield "freed weights and KV cache"
        device.clear_program_cache()
        yield "cleared the program cache"


def _weights(device: AnyDevice) -> Iterator[tuple[str, TensorSpec]]:
    """The weights on one device; as many layers as fit, because not every board has room for all."""
    ways = len(device.get_devices())

    def cut(rows: int, columns: int, dtype: Dtype = Dtype.BFLOAT8_B) -> TensorSpec:
        return TensorSpec((rows, columns // ways), dtype)

    layer = {
        "attention.wqkv": cut(_DIM, _QKV),
        "attention.wo": cut(_DIM, _DIM),
        "feed_forward.w1": cut(_DIM, _HIDDEN),
        "feed_forward.w2": cut(_HIDDEN, _DIM),
        "feed_forward.w3": cut(_DIM, _HIDDEN),
    }
    needs = [device.allocator.need(Kind.DRAM, spec) for spec in layer.values()]
    room = device.allocator.geometry.dram_capacity * 3 // 4
    layers = min(_LAYERS, room // sum(need.total for need in needs if need is not None))
    if layers == _LAYERS:
        yield "tok_embeddings", cut(_VOCABULARY, _DIM, Dtype.BFLOAT16)
        yield "output", cut(_DIM, _VOCABULARY)
    for number in range(layers):
        for name, spec in layer.items():
            yield f"layers.{number}.{name}", spec


def _grow(device: AnyDevice, block: int) -> list[Buffer]:
    """One more block of keys and values for every layer and user."""
    ways = len(device.get_devices())
    spec = TensorSpec((_BATCH, max(1, _HEADS // ways), _BLOCK_TOKENS, _HEAD), Dtype.BFLOAT8_B)
    tags = [f"layers.{layer}.kv.{side}.{block}" for layer in range(_LAYERS) for side in "kv"]
    return [allocate_tensor(device, spec, tag=tag) for tag in tags]


def _forward(device: AnyDevice, stage: str, block: int) -> None:
    """All layers use the same programs; activations live in L1 for as long as they are needed."""
    grid = device.grid
    for _ in range(2):  # further layers would do exactly the same
        residual = allocate_tensor(device, TensorSpec((32, _DIM), memory=_SHARDED), Kind.L1, tag="residual")
        device.run((stage, "norm"), lambda: operation("rms_norm", grid, [(4, BF16_TILE_BYTES), (2, BF16_TILE_BYTES)]))
        qkv = allocate_tensor(device, TensorSpec((32, _QKV)), Kind.L1, tag="qkv")
        device.run((stage, "qkv"), lambda: matmul("matmul_qkv", grid, block=block))
        attention = allocate_tensor(device, TensorSpec((32, _DIM), memory=_SHARDED), Kind.L1, tag="attention")
        device.run(
            (stage, "sdpa"), lambda: operation("sdpa_decode", grid, [(8, BF16_TILE_BYTES), (32, BF8_TILE_BYTES)])
        )
        del qkv
        device.run((stage, "wo"), lambda: matmul("matmul_wo", grid, block=block))
        hidden = allocate_tensor(device, TensorSpec((32, _HIDDEN)), Kind.L1, tag="hidden")
        device.run((stage, "ff1"), lambda: matmul("matmul_ff1", grid, block=2 * block))
        device.run((stage, "silu"), lambda: eltwise("silu_mul", grid))
        device.run((stage, "ff2"), lambda: matmul("matmul_ff2", grid, block=2 * block))
        del attention, hidden
        device.run((stage, "add"), lambda: eltwise("residual_add", grid))
        del residual
