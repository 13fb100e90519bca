# SPDX-License-Identifier: Apache-2.0
"""`make bench`: every figure with a reference from the same run, and every budget with its figure.

Only ratios are meaningful, because machines differ, and the load of a shared one changes. So rounds are interleaved
and medians are used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    agent,
    client,
    corrections,
    fit,
    holds,
    ingest,
    ledger,
    many_rings,
    meshes,
    questions,
    recording,
    recording_loops,
    reports,
    server_loops,
    shared_chips,
    sources,
    stacks,
    startup,
    top,
    tracking,
    web_page,
)
from benchmarks.report import Report

PARTS = {
    "agent": agent,
    "stacks": stacks,
    "ingest": ingest,
    "client": client,
    "tracking": tracking,
    "ledger": ledger,
    "meshes": meshes,
    "server_loops": server_loops,
    "many_rings": many_rings,
    "shared_chips": shared_chips,
    "corrections": corrections,
    "recording": recording,
    "recording_loops": recording_loops,
    "questions": questions,
    "reports": reports,
    "holds": holds,
    "sources": sources,
    "startup": startup,
    "fit": fit,
    "top": top,
    "web_page": web_page,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ttmem-bench-") as folder:
        for name in args.parts or PARTS:
            PARTS[name].run(report, Path(folder), args.rounds)
    report.verdict()
    return 0


if __name__ == "__main__":
    sys.exit(main())
