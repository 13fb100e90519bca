# SPDX-License-Identifier: Apache-2.0
"""`ttmem --version`: this ttmem, its agent, and the ttnn of this Python."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from ttmem import __version__
from ttmem.agent import library


def version_text() -> str:
    """Three lines. ttnn is not imported, because that would take seconds and open device drivers."""
    agent = library()
    return "\n".join(
        (
            f"ttmem {__version__}",
            f"agent {agent if agent is not None else 'not installed; `ttmem doctor` says why'}",
            f"ttnn {_ttnn()}",
        )
    )


def _ttnn() -> str:
    spec = find_spec("ttnn")
    if spec is None or not spec.submodule_search_locations:
        return "not installed in this Python; `ttmem run` uses that of the command it runs"
    try:
        found = metadata.version("ttnn")
    except metadata.PackageNotFoundError:
        found = "of unknown version"
    return f"{found}, {next(iter(spec.submodule_search_locations))}"
