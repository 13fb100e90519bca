# SPDX-License-Identifier: Apache-2.0
"""Print the variables that make a ttnn process report: for a service, a container, or a server that starts workers.

  eval "$(ttmem env)"                 this shell and everything started from it
  ttmem env --format systemd          lines for a unit file
  docker run $(ttmem env --format docker) IMAGE …

A process inherits them through exec, so vLLM's workers, torchrun's and MPI's ranks report each for itself.
"""

from __future__ import annotations

import argparse
import os
import shlex

from ttmem.agent import AgentMissing, require
from ttmem.cli import CommandError
from ttmem.run.environment import variables
from ttmem.wire.endpoint import default_path, search_paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = ("shell", "systemd", "docker")
    parser.add_argument("--format", choices=forms, default="shell", help="how to write them (default: shell)")
    parser.add_argument("--socket", metavar="PATH", help="the server's socket (default: the first that exists)")


def run(args: argparse.Namespace) -> int:
    path = args.socket or next((path for path in search_paths() if os.path.exists(path)), default_path())
    try:
        found = variables(os.environ, socket=os.path.abspath(path))
    except AgentMissing as error:
        raise CommandError(str(error)) from None
    for name, value in found.items():
        if not value.isprintable():  # it could neither be shown nor be written in all of these forms
            raise CommandError(f"{name} would have control characters in it: {value}; choose another path")
    if args.format == "docker":
        print(" ".join(_docker(found)))
    for name, value in found.items():
        if args.format == "shell":
            print(f"export {name}={shlex.quote(value)}")
        elif args.format == "systemd":
            print(f'Environment="{_quoted(f"{name}={value}")}"')
    return 0


def _quoted(text: str) -> str:
    """As systemd reads it back: C escapes inside quotes, and % doubled."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _docker(found: dict[str, str]) -> list[str]:
    """The container must see the library and the socket under the same paths, and the host's pids."""
    library = str(require())
    folder = os.path.dirname(found["TTMEM_SOCKET"])
    options = ["--pid=host", f"--volume={library}:{library}:ro", f"--volume={folder}:{folder}"]
    options += [f"--env={name}={value}" for name, value in found.items()]
    return [shlex.quote(option) for option in options]
