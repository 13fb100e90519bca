# SPDX-License-Identifier: Apache-2.0
"""Fails when a test was skipped that is not on the list, or when a report ran nothing.

A line ``module::*`` of the list stands for all tests of a module.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as xml


def main(listed: str, *reports: str) -> int:
    with open(listed, encoding="utf-8") as file:
        expected = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    bad = 0
    for report in reports:
        ran = 0
        for case in xml.parse(report).getroot().iter("testcase"):
            module, name = case.get("classname"), f"{case.get('classname')}::{case.get('name')}"
            if case.find("skipped") is None:
                ran += 1
            elif name not in expected and f"{module}::*" not in expected:
                print(f"{report}: {name} was skipped and is not on {listed}")
                bad += 1
        print(f"{report}: {ran} ran")
        bad += ran == 0
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
