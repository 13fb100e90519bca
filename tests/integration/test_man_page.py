# SPDX-License-Identifier: Apache-2.0
"""`make man`: the manual page has every command and option, and `man` shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT
from ttmem.cli import COMMANDS


def test_the_page_is_complete_and_man_renders_it(folder: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "man_page.py")], capture_output=True, text=True, check=True
    )
    page = folder / "ttmem.1"
    page.write_text(made.stdout)
    text = made.stdout.replace("\\", "")
    for command in COMMANDS:
        shown = subprocess.run(
            [sys.executable, "-m", "ttmem", command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert f".SH COMMAND fI,'ttmem {command}'/fR" in text, command
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown)) - {"--help"}:
            assert option in text, f"{option} of ttmem {command}"
    man = shutil.which("man")
    if man is not None:  # a container may have none
        rendered = subprocess.run([man, "--warnings", "-l", str(page)], capture_output=True, text=True, check=True)
        assert rendered.stderr == ""
        assert rendered.stdout.startswith("TTMEM(1)")
