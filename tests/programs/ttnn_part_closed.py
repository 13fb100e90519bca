# SPDX-License-Identifier: Apache-2.0
"""A part of a mesh is closed while the whole holds tensors, which are freed before the whole closes as well."""

from __future__ import annotations

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    whole = open_board(chosen)
    part = whole.create_submesh(ttnn.MeshShape(1, 1), ttnn.MeshCoordinate(0, 0))
    kept = [ttnn.empty([1, 1, 64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, whole) for _ in range(3)]
    report(what="both", **account(whole))
    ttnn.close_mesh_device(part)
    report(what="part closed", **account(whole))
    kept.clear()
    report(what="whole empty", **account(whole))
    close_board(chosen, whole)


if __name__ == "__main__":
    main()
