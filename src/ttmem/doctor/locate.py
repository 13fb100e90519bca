# SPDX-License-Identifier: Apache-2.0
"""Finds the ttnn of a Python interpreter without importing it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

_SECONDS = 1.5
# Isolated, so that no code of the caller runs; the caller's path is only searched.
_ASK = """
import importlib.metadata, importlib.util, json, os, site, sys
sys.path += [site.getusersitepackages(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
spec = importlib.util.find_spec("ttnn")
folders = list(spec.submodule_search_locations or []) if spec else []
try:
    version = importlib.metadata.version("ttnn")
except importlib.metadata.PackageNotFoundError:
    version = None
python = "%d.%d" % sys.version_info[:2]
print(json.dumps({"python": python, "folder": folders[0] if folders else None, "version": version}))
"""


class Wheel(NamedTuple):
    """ttnn as an interpreter would find it."""

    python: str
    folder: str | None
    version: str | None


def locate(python: str, env: Mapping[str, str], seconds: float | None = None) -> Wheel | str:
    """The ttnn of this interpreter, or why it is not known."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK], env=dict(env), capture_output=True, text=True, errors="replace",
            timeout=seconds or _SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Wheel(**json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    except (ValueError, TypeError):
        return (done.stderr.strip().splitlines() or ["no reason was printed"])[-1]
