# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors without an element: their kernels are on no core."""

from __future__ import annotations

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    for shape in ([1, 1, 0, 32], [1, 1, 32, 0], [0, 1, 32, 32]):
        empty = ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        turned = ttnn.transpose(empty, -2, -1)
        moved = ttnn.permute(empty, (0, 2, 1, 3))
        report(what="empty", shapes=[list(tensor.shape) for tensor in (turned, moved)])
    report(what="programs", count=device.num_program_cache_entries())
    close_board(chosen, device)


if __name__ == "__main__":
    main()
