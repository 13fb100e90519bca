# SPDX-License-Identifier: Apache-2.0
"""Describes the machine that ttmem runs on, as its ttnn sees it, in a form that `--board FILE` takes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping

from ttmem.fit.ttnn_root import NoTtnn

_SECONDS = 120.0  # ttnn looks at every chip and its links
_ASK = """
import sys, ttnn
with open(ttnn.cluster.serialize_cluster_descriptor()) as file:
    text = file.read()
with open(sys.argv[1], "w") as out:
    out.write(text)
"""


def describe(python: str, env: Mapping[str, str]) -> str:
    """The cluster descriptor of this machine. ttnn opens the devices for it, as any program that uses them does."""
    with tempfile.TemporaryDirectory(prefix="ttmem-fit-") as folder:
        out = os.path.join(folder, "cluster.yaml")
        variables = {**env, "TT_METAL_LOGS_PATH": folder, "TMPDIR": folder}
        variables.setdefault("TT_LOGGER_LEVEL", "error")
        variables.setdefault("LOGURU_LEVEL", "ERROR")
        try:
            done = subprocess.run(
                [python, "-c", _ASK, out], env=variables, capture_output=True, text=True, errors="replace",
                timeout=_SECONDS, stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
            with open(out, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError as error:
            if error.filename != out:
                raise NoTtnn(f"{python} cannot be run: {error.strerror}; name an interpreter with --python") from None
            reason = next(
                (line for line in reversed(done.stderr.splitlines()) if line.strip()), "no reason was printed"
            )
            raise NoTtnn(f"ttnn of {python} does not describe this machine: {reason.strip()}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoTtnn(f"ttnn of {python} does not describe this machine: {error}") from None
