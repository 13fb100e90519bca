# SPDX-License-Identifier: Apache-2.0
"""A convolutional network with the shapes of ResNet-50: with which batch does it fit?

    ttmem fit --board n150 --vary batch=1..64 -- python convnet.py --batch {batch}

All 53 convolutions, the pooling and the classifier run once, with activations in L1. Its values are not those of a
model: weights are zero.
"""

from __future__ import annotations

import argparse
from typing import Any

import ttnn

STAGES = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))  # blocks, channels, side of the output
EXPANSION, CLASSES = 4, 1000


class Network:
    def __init__(self, device: Any, batch: int) -> None:
        self.device = device
        self.batch = batch

    def conv(self, x: Any, channels: tuple[int, int], side: int, kernel: int, stride: int = 1) -> tuple[Any, int]:
        """A convolution; returns its output and the side of that."""
        weight = ttnn.zeros(
            [channels[1], channels[0], kernel, kernel], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT
        )
        out, (height, _) = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            device=self.device,
            in_channels=channels[0],
            out_channels=channels[1],
            batch_size=self.batch,
            input_height=side,
            input_width=side,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            dtype=ttnn.bfloat16,
            return_output_dim=True,
        )
        return ttnn.to_memory_config(out, ttnn.L1_MEMORY_CONFIG), height

    def block(self, x: Any, inside: int, channels: int, side: int, stride: int) -> tuple[Any, int]:
        """A bottleneck: 1x1, 3x3, 1x1, and the shortcut around them."""
        wide = EXPANSION * channels
        shortcut = x if inside == wide else self.conv(x, (inside, wide), side, 1, stride)[0]
        y, _ = self.conv(x, (inside, channels), side, 1)
        y, small = self.conv(ttnn.relu(y), (channels, channels), side, 3, stride)
        y, _ = self.conv(ttnn.relu(y), (channels, wide), small, 1)
        return ttnn.relu(ttnn.add(y, shortcut)), small

    def run(self) -> Any:
        size = self.batch * 224 * 224
        x = ttnn.zeros(
            [1, 1, size, 16], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device,
            memory_config=ttnn.L1_MEMORY_CONFIG,
        )  # fmt: skip
        x, side = self.conv(x, (16, 64), 224, 7, 2)
        x = ttnn.max_pool2d(
            input_tensor=ttnn.relu(x), batch_size=self.batch, input_h=side, input_w=side, channels=64,
            kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1],
        )  # fmt: skip
        x = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
        inside, side = 64, 56
        for blocks, channels, out_side in STAGES:
            for number in range(blocks):
                stride = 2 if not number and side != out_side else 1
                x, side = self.block(x, inside, channels, side, stride)
                inside = EXPANSION * channels
        x = ttnn.reshape(ttnn.to_layout(x, ttnn.TILE_LAYOUT), [self.batch, 1, side * side, inside])
        weight = ttnn.zeros([1, 1, inside, CLASSES], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.device)
        return ttnn.linear(ttnn.mean(x, dim=2, keepdim=True), weight)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    device = ttnn.open_device(device_id=0, l1_small_size=32768)
    print("scores:", list(Network(device, options.batch).run().shape))
    ttnn.close_device(device)


main()
