# SPDX-License-Identifier: Apache-2.0
"""Runs operations whose programs keep their own buffers, frees every tensor, and closes: there is no leak."""

from __future__ import annotations

from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser

ROW_MAJOR = ttnn.ROW_MAJOR_LAYOUT


def image(device: Any, side: int) -> Any:
    return ttnn.zeros([1, 1, side * side, 32], dtype=ttnn.bfloat16, layout=ROW_MAJOR, device=device)


def convolve(device: Any, side: int) -> Any:
    return ttnn.conv2d(
        input_tensor=image(device, side),
        weight_tensor=ttnn.zeros([32, 32, 3, 3], dtype=ttnn.bfloat16, layout=ROW_MAJOR),
        device=device,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=side,
        input_width=side,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
    )


def pool(device: Any, side: int) -> Any:
    return ttnn.max_pool2d(
        input_tensor=image(device, side),
        batch_size=1,
        input_h=side,
        input_w=side,
        channels=32,
        kernel_size=[2, 2],
        stride=[2, 2],
        padding=[0, 0],
        dilation=[1, 1],
    )


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    results = [operation(device, side) for operation in (convolve, pool) for side in (8, 16)]
    report(what="results", **account(device))
    results.clear()
    report(what="cached", **account(device))
    close_board(chosen, device)


if __name__ == "__main__":
    main()
