# SPDX-License-Identifier: Apache-2.0
"""Installs every ttnn wheel that the tests run, so that no test has to wait for one."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.mock.compatibility import IN_CI, PYTHON
from tests.mock.wheel import PYTHONS, wheel


def main() -> None:
    with ThreadPoolExecutor(2) as pool:  # one is unpacked while the next is downloaded
        list(pool.map(wheel, PYTHONS))
        list(pool.map(lambda version: wheel(PYTHON, version), IN_CI))


if __name__ == "__main__":
    main()
