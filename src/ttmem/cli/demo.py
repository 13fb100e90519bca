# SPDX-License-Identifier: Apache-2.0
"""See the whole loop without hardware: a server, a workload in other processes, and the picture.

Two processes report through the real client, each on a chip of its own that it calls device 0. One is killed while
it holds memory; what it left is still shown.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from ttmem.api.client import ApiError, get, get_json
from ttmem.cli import CommandError
from ttmem.show.smi import render
from ttmem.wire.endpoint import api_path

_WORKLOAD = "ttmem.collect.example"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave the server running until Enter is pressed")


def run(args: argparse.Namespace) -> int:
    colour = sys.stdout.isatty()
    with tempfile.TemporaryDirectory(prefix="ttmem-demo-") as folder:
        path = os.path.join(folder, "ttmem.sock")
        env = {**os.environ, "TTMEM_SOCKET": path, "TT_ALLOC_TRACKING_ENABLED": "1"}
        serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", path]
        server = subprocess.Popen(serve, env=env, stderr=subprocess.DEVNULL)
        workers: list[subprocess.Popen[str]] = []
        try:
            _wait_for(path)
            print("A server is up. Two processes start to report, each calling its chip device 0.\n")
            workers = [_start(env, name) for name in ("llama", "resnet")]
            for worker in workers:
                _expect(worker, "ready")
            print(render(_snapshot(path), colour))
            print("\nNow the first one is killed with SIGKILL while it holds all that.\n")
            killed = time.monotonic()
            workers[0].send_signal(signal.SIGKILL)
            workers[0].wait()
            while any(p["pid"] == workers[0].pid and p["state"] != "exited" for p in _snapshot(path)["processes"]):
                if time.monotonic() - killed > 5:
                    raise CommandError("the server did not notice the death within 5 s")
                time.sleep(0.002)
            print(f"Its memory was given back {1000 * (time.monotonic() - killed):.0f} ms later:\n")
            print(render(_snapshot(path), colour))
            print("\nAnd `ttmem dump` shows what is left, thing by thing:\n")
            print(get("/dump?format=text", socket_path=api_path(path)).decode())
            if args.keep:
                print(f"The server stays up. In another terminal: TTMEM_SOCKET={path} ttmem smi")
                input("Press Enter to end the demo. ")
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            server.terminate()
            server.wait()
    return 0


def _start(env: dict[str, str], name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", _WORKLOAD, name]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _expect(worker: subprocess.Popen[str], word: str) -> None:
    assert worker.stdout is not None
    line = worker.stdout.readline().strip()
    if line != word:
        raise CommandError(f"the demo workload ended early (exit code {worker.wait()})")


def _wait_for(path: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            get_json("/health", socket_path=api_path(path))
            return
        except ApiError:
            time.sleep(0.02)
    raise CommandError("the server did not come up within 10 s; try `ttmem serve` by hand")


def _snapshot(path: str) -> dict[str, Any]:
    picture: dict[str, Any] = get_json("/snapshot", socket_path=api_path(path))
    return picture
