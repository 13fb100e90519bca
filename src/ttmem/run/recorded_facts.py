# SPDX-License-Identifier: Apache-2.0
"""What a recording contains about a run beside its events: the command, where it ran, and which commit that was."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttmem import __version__

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_BYTES = 1 << 20


def run_facts(command: Sequence[str]) -> dict[str, Any]:
    return {
        "command": list(command),
        "folder": os.getcwd(),
        "host": socket.gethostname(),
        "ttmem": __version__,
        "commit": git_commit(Path.cwd()),
    }


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out in a folder, read from its repository; None if there is none."""
    for one in (folder, *folder.parents):
        git = one / ".git"
        try:
            if git.is_file():  # a worktree
                git = one / _text(git).removeprefix("gitdir:").strip()
            if git.is_dir():
                return _head(git)
        except OSError:
            return None
    return None


def _head(git: Path) -> str | None:
    head = _text(git / "HEAD").strip()
    if _COMMIT.fullmatch(head):
        return head
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    shared = git / _text(common).strip() if common.exists() else git
    for place in (git, shared):
        if (place / name).is_file():
            found = _text(place / name).strip()
            return found if _COMMIT.fullmatch(found) else None
    packed = shared / "packed-refs"
    for line in _text(packed).splitlines() if packed.exists() else ():
        commit, _, ref = line.partition(" ")
        if ref == name and _COMMIT.fullmatch(commit):
            return commit
    return None


def _text(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_BYTES)
