# SPDX-License-Identifier: Apache-2.0
"""The types of the pages are those of the Python schema: `web/src/documents.ts` is what its generator writes."""

from __future__ import annotations

import subprocess
import sys

from tests.support import ROOT


def test_the_types_of_the_pages_are_those_of_the_schema() -> None:
    command = [sys.executable, str(ROOT / "web" / "generate_documents.py"), "--print"]
    generated = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "export interface Report {" in generated
    assert (ROOT / "web" / "src" / "documents.ts").read_text() == generated, "run `make web-types`"
