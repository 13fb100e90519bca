# SPDX-License-Identifier: Apache-2.0
"""Print the variables that make a ttnn process report: for a service, a container, or a server that starts workers.

  eval "$(ttmem env)"                 this shell and everything started from it
  ttmem env --format systemd          lines for a unit file
  docker run $(ttmem env --format docker) IMAGE ...
  ttmem env --format k8s              parts of a pod's specification

Child processes inherit them, so that each worker of vLLM and each rank of torchrun or MPI reports its own memory.

Exit code: 0 printed, 1 the agent is missing, or a path cannot be used, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable

from ttmem.agent import AgentMissing, require
from ttmem.cli import CommandError
from ttmem.cli.options import add_socket, add_stacks, stack_frames
from ttmem.run.environment import variables
from ttmem.wire.endpoint import default_path, search_paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=_FORMATS, default="shell", help="format of the output (default: shell)")
    add_socket(parser)
    add_stacks(parser)


def run(args: argparse.Namespace) -> int:
    path = args.socket or next((path for path in search_paths() if os.path.exists(path)), default_path())
    try:
        found = variables(os.environ, socket=os.path.abspath(path), stacks=stack_frames(args))
    except AgentMissing as error:
        raise CommandError(str(error)) from None
    for name, value in found.items():
        if not value.isprintable():  # not possible in all formats
            raise CommandError(f"{name} would have control characters in it: {value}; choose another path")
    print("\n".join(_FORMATS[args.format](found)))
    return 0


def _shell(found: dict[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in found.items()]


def _systemd(found: dict[str, str]) -> list[str]:
    return [f'Environment="{_quoted(f"{name}={value}")}"' for name, value in found.items()]


def _quoted(text: str) -> str:
    """A value in the syntax of systemd: C escapes inside quotes, and % doubled."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _docker(found: dict[str, str]) -> list[str]:
    """The container must see the library and the socket under the same paths, and the host's pids."""
    library, folder = _shared_paths(found)
    options = ["--pid=host", f"--volume={library}:{library}:ro", f"--volume={folder}:{folder}"]
    options += [f"--env={name}={value}" for name, value in found.items()]
    return [" ".join(shlex.quote(option) for option in options)]


def _k8s(found: dict[str, str]) -> list[str]:
    """The same for a pod. JSON is YAML, so its quotes are right for every path."""
    library, folder = _shared_paths(found)
    lines = [
        "# Merge these parts into the spec of your pod; repeat env and volumeMounts for each container.",
        "hostPID: true",
    ]
    lines += ["containers:", "- name: NAME", "  env:"]
    for name, value in found.items():
        lines += [f"  - name: {name}", f"    value: {_json(value.replace('$(', '$$('))}"]  # Kubernetes replaces $(NAME)
    lines += ["  volumeMounts:"]
    lines += ["  - name: ttmem-agent", f"    mountPath: {_json(library)}", "    readOnly: true"]
    lines += ["  - name: ttmem-socket", f"    mountPath: {_json(folder)}"]
    lines += ["volumes:"]
    lines += ["- name: ttmem-agent", f"  hostPath: {{path: {_json(library)}, type: File}}"]
    lines += ["- name: ttmem-socket", f"  hostPath: {{path: {_json(folder)}, type: Directory}}"]
    return lines


def _shared_paths(found: dict[str, str]) -> tuple[str, str]:
    """The agent's library, and the folder of the server's socket."""
    return str(require()), os.path.dirname(found["TTMEM_SOCKET"])


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_FORMATS: dict[str, Callable[[dict[str, str]], list[str]]] = {
    "shell": _shell,
    "systemd": _systemd,
    "docker": _docker,
    "k8s": _k8s,
}
