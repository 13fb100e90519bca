# SPDX-License-Identifier: Apache-2.0
"""Sends the records of one named attack (tests/fuzz_known.py)."""

from __future__ import annotations

import sys

from tests.attacks.client import hold, send
from tests.fuzz_known import RECORDS


def main(path: str, name: str) -> None:
    with send(path, RECORDS[name]()):
        hold()


if __name__ == "__main__":
    main(*sys.argv[1:])
