# SPDX-License-Identifier: Apache-2.0
"""Results of earlier runs, kept in the user's cache, so that a search that was interrupted continues."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ttmem import __version__
from ttmem.fit.mock_environment import Machine
from ttmem.fit.mock_run import RunOptions

if TYPE_CHECKING:
    from ttmem.model import schema

_MOST_BYTES = 64 << 20  # of a file whose content is part of the key
_READ = 1 << 20
_FORMAT = 2  # of a kept row: its keys changed


class KeptResults:
    """Answers by what they depend on: command, contents of the files that it names, machine, ttnn, options.

    A module that the command imports is not among them. Answers that cannot tell are not kept.
    """

    def __init__(self, folder: Path | None) -> None:
        """``folder`` None keeps nothing."""
        self._folder = folder
        self.used = 0  # answers that were taken from the cache

    def key(self, command: Sequence[str], machine: Machine, options: RunOptions) -> str:
        described = machine.described(dict.fromkeys(machine.chips, 0))
        parts: list[Any] = [_FORMAT, __version__, list(command), os.getcwd(), described]
        parts += [str(options.ttnn.root), options.ttnn.version, options.real_kernels, options.fake_weights]
        parts += [options.until, options.bytes_per_token]
        parts += [_content(Path(word)) for word in command]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def get(self, key: str) -> schema.FitBoard | None:
        if self._folder is None:
            return None
        try:
            found = json.loads((self._folder / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or "verdict" not in found:
            return None
        self.used += 1
        return cast("schema.FitBoard", found)

    def put(self, key: str, row: schema.FitBoard) -> None:
        if self._folder is None or row["verdict"] == "unknown":
            return
        scratch = self._folder / f".{key}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(row))
            scratch.replace(self._folder / f"{key}.json")
        except OSError:
            pass  # a full disk: the answer is made again next time


def results_folder(env: Mapping[str, str]) -> Path:
    """Where results are kept, as the XDG specification says."""
    base = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", "/tmp"), ".cache")
    return Path(base) / "ttmem" / "fit"


def _content(path: Path) -> str | None:
    """A hash of a file that the command names: a script that was changed has other answers."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        with open(path, "rb") as file:
            digest = hashlib.sha256()
            while block := file.read(_READ):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
