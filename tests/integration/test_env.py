# SPDX-License-Identifier: Apache-2.0
"""`ttmem env`: its output is parsed by the tools that it is for."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from tests.runs import ttmem
from ttmem.agent import require


def _pod(*arguments: str) -> dict[str, object]:
    done = ttmem("env", "--format", "k8s", *arguments, env={**os.environ, "LD_PRELOAD": ""})
    assert done.code == 0, done.err
    found: dict[str, object] = yaml.safe_load(done.out.decode())
    return found


def test_a_pod(folder: Path) -> None:
    library, socket = str(require()), str(folder / "ttmem.sock")
    assert _pod("--socket", socket) == {
        "hostPID": True,
        "containers": [
            {
                "name": "NAME",
                "env": [{"name": "LD_PRELOAD", "value": library}, {"name": "TTMEM_SOCKET", "value": socket}],
                "volumeMounts": [
                    {"name": "ttmem-agent", "mountPath": library, "readOnly": True},
                    {"name": "ttmem-socket", "mountPath": str(folder)},
                ],
            }
        ],
        "volumes": [
            {"name": "ttmem-agent", "hostPath": {"path": library, "type": "File"}},
            {"name": "ttmem-socket", "hostPath": {"path": str(folder), "type": "Directory"}},
        ],
    }


def test_a_pod_with_an_awkward_path(folder: Path) -> None:
    """Kubernetes replaces $(NAME) in a value unless the dollar is doubled; YAML keeps everything else."""
    awkward = str(folder / "a: 'b' \"c\" #d \\ é $(HOME) {x}.sock")
    container = _pod("--socket", awkward)["containers"][0]  # type: ignore[index]
    values = {entry["name"]: entry["value"] for entry in container["env"]}
    assert values["TTMEM_SOCKET"].replace("$$(", "$(") == awkward
    assert "$$(HOME)" in values["TTMEM_SOCKET"]


def test_stacks(folder: Path) -> None:
    socket = str(folder / "ttmem.sock")
    shown = {
        arguments: ttmem("env", "--socket", socket, *arguments).out.decode()
        for arguments in ((), ("--stacks",), ("--stacks", "--depth", "7"), ("--depth", "7"))
    }
    assert "TTMEM_STACKS" not in shown[()] + shown["--depth", "7"]
    assert "export TTMEM_STACKS=24\n" in shown[("--stacks",)]
    assert "export TTMEM_STACKS=7\n" in shown["--stacks", "--depth", "7"]
    wrong = ttmem("env", "--stacks", "--depth", "65")
    assert (wrong.code, "'65' is not a number of frames from 1 to 64" in wrong.err) == (2, True)
