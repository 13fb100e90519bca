# SPDX-License-Identifier: Apache-2.0
"""`ttmem fit --replay`: a recorded run is repeated byte for byte, and under other conditions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.fits import script
from tests.runs import TTMEM, Bench
from tests.schema_conformance import problems
from ttmem.model import schema

FRAGMENTED = """
import ttnn
device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1), l1_small_size=16384, trace_region_size=1 << 20)
def empty(mib, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.empty([1, 1, 512 * mib, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)
small = [empty(64) for _ in range(180)]
temporary = empty(96)
late = empty(64)
on_chip = [empty(1, ttnn.L1_MEMORY_CONFIG) for _ in range(20)]
del on_chip[::2]
small[:] = small[::2]
try:
    large = empty(800)
except RuntimeError:
    pass
"""


def test_a_recording_is_repeated_byte_for_byte_and_under_other_conditions(folder: Path) -> None:
    path = folder / "run.ttmem"
    with Bench(folder / "bench", "n150", "3.10") as bench:
        ran = bench.run_command([bench.python, *script(folder, FRAGMENTED)], ["--record", str(path), "--stacks"])
    assert (ran.code, ran.data["failed"]) == (0, 1), ran.err

    def replayed(code: int, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [*TTMEM, "fit", "--replay", str(path), "--json", *arguments], capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert problems(found, schema.WhatIf) == []
        return found

    def on_device(code: int, *arguments: str) -> dict[str, Any]:
        (device,) = replayed(code, *arguments)["devices"]
        return dict(device)

    same = on_device(4)
    (chip,) = ran.data["chips"]
    assert same["exact"], same
    assert same["recorded"] == same["changed"]
    assert same["recorded"]["failed"] == 1
    (failure,) = same["recorded"]["failures"]
    assert failure["as_recorded"]
    assert failure["text"] in ran.data["failures"][0]["text"], "the simulated error is ttnn's own"
    assert same["recorded"]["banks"]["dram"]["peak"] * 12 == chip["dram"]["reserved_peak"]
    larger = on_device(0, "--board", "p150")
    assert larger["changed"]["estimated"] <= 1, "all but the one that failed have a shape"
    assert larger["changed"]["banks"]["dram"]["peak"] == sum(-(-tiles // 8) * 2048 for tiles in [32768] * 181 + [49152])
    assert on_device(0, "--free-early", "empty*[1, 1, 32768, 1024]")["changed"]["failed"] == 0
    small = on_device(4, "--trace-region", "6G")["changed"]
    assert small["failed"] > 1
    assert small["banks"]["dram"]["size"] < same["recorded"]["banks"]["dram"]["size"] - (500 << 20)
    assert on_device(4, "--l1-small", "64K")["changed"]["banks"]["l1_small"]["size"] == 64 << 10
    assert on_device(4, "--order", "largest-first")["changed"]["moved"] > 0
    text = subprocess.run([*TTMEM, "fit", "--replay", str(path)], capture_output=True, text=True).stdout
    assert text.endswith("ttmem fit: changed: 1 allocation would fail\n")


def test_each_device_of_a_recording_is_repeated(folder: Path) -> None:
    """Two devices and then a mesh of both; the failure was on the second device."""
    text = (
        "import ttnn\nfirst, second = (ttnn.open_device(device_id=number) for number in (0, 1))\n"
        "def empty(device, mib):\n"
        "  return ttnn.empty([1, 1, 512 * mib, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)\n"
        "held = [empty(device, size) for size in (64, 32, 128) for device in (first, second)]\n"
        "del held[2]\nheld.append(empty(first, 16))\n"
        "try: empty(second, 20000)\nexcept RuntimeError: pass\n"
        "held.clear()\nttnn.close_device(second)\nttnn.close_device(first)\n"
        "mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))\nheld = empty(mesh, 256)\nttnn.close_mesh_device(mesh)\n"
    )
    path = folder / "run.ttmem"
    with Bench(folder / "bench", "n300", "3.10") as bench:
        ran = bench.run_command([bench.python, *script(folder, text)], ["--record", str(path), "--stacks"])
    assert (ran.code, ran.data["failed"]) == (0, 1), ran.err
    done = subprocess.run([*TTMEM, "fit", "--replay", str(path), "--json"], capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert problems(found, schema.WhatIf) == []
    assert [device["numbers"] for device in found["devices"]] == [[0], [1], [0, 1]]
    assert [device["recorded"]["failed"] for device in found["devices"]] == [0, 1, 0]
    assert all(device["exact"] for device in found["devices"])
    mib = [device["recorded"]["banks"]["dram"]["peak"] * 12 >> 20 for device in found["devices"]]
    assert mib == [224, 224, 256]
    shown = subprocess.run([*TTMEM, "fit", "--replay", str(path)], capture_output=True, text=True).stdout
    assert "device 1, as recorded: 1 allocation would fail" in shown
    assert "mesh of devices 0, 1, changed: every allocation succeeds" in shown
