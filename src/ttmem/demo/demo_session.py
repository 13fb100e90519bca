# SPDX-License-Identifier: Apache-2.0
"""A session of the demo: a server, and the processes of a simulated workload, which run step by step."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ttmem.sim.driver import VARIABLE, Driver, has_driver
from ttmem.sim.workloads import WorkerPart
from ttmem.wire.api_client import ApiError, NoServer, get_json
from ttmem.wire.endpoint import api_path

if TYPE_CHECKING:
    from ttmem.model.schema import Snapshot

_END_SECONDS = 60.0
_LOOK_SECONDS = 0.5
_ASK_SECONDS = 5.0
_MOST_PATH_BYTES = 107  # of a Unix socket
_PR_SET_PDEATHSIG = 1


class DemoError(Exception):
    """The server did not start, or a workload failed; the message is for the user."""


class Worker:
    """One process of a workload. After every step it waits for a line on its standard input."""

    def __init__(self, command: list[str], env: dict[str, str], chips: Sequence[int]) -> None:
        self.chips = chips
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the worker
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            preexec_fn=_set_up_child,
        )  # fmt: skip
        self.did = "starting"  # a sentence about its last step
        self.launches = 0  # programs that each of its chips has run
        self.held = False
        self.ended = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def finish_step(self, check: Callable[[], None]) -> None:
        """Wait until the current step is done; ``check`` is called now and then, and may raise."""
        assert self.process.stdout is not None
        while not select.select([self.process.stdout], [], [], _LOOK_SECONDS)[0]:
            check()
        line = self.process.stdout.readline()
        if not line:
            self._end()
            return
        try:
            step = json.loads(line)
        except ValueError:
            raise DemoError(f"the simulated workload wrote {line.strip()!r}, which is not a step") from None
        if step.get("applied") is False:
            raise DemoError(f"the server did not apply what process {self.pid} reported in time")
        self.held = step["held"]
        self.launches = step["launches"]
        if not self.held:
            self.did = step["did"]

    def start_step(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; finish_step finds the reason

    def stop(self) -> None:
        """Make it close its devices and end; does not wait."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def _end(self) -> None:
        self.ended = True
        try:
            code = self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoError(f"process {self.pid} of the workload does not end") from None
        if code > 0:
            raise DemoError(f"the simulated workload failed with exit code {code}: {_last_line(self._errors)}")

    def wait(self) -> int:
        """Its exit code, or minus the signal that killed it."""
        self._end()
        return int(self.process.returncode)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            if file is not None:
                try:
                    file.close()
                except BrokenPipeError:
                    pass


class DemoSession:
    """A server, the workers of a workload, and the driver of their chips if it is simulated, too."""

    def __init__(self, path: str, folder: str, *, private: bool) -> None:
        self.path = path
        self.folder = folder  # removed with the session
        self.private = private  # whether the session started the server
        self.driver: Driver | None = None
        self.workers: list[Worker] = []

    def check(self) -> None:
        """Raise if the server does not answer."""
        try:
            get_json("/health", socket_path=api_path(self.path))
        except ApiError as error:
            raise DemoError(f"the server is gone: {error}") from None

    def snapshot(self) -> Snapshot:
        found: Snapshot = get_json("/snapshot", socket_path=api_path(self.path))
        return found

    def start_workers(self, workload: str, devices: str, parts: int, rounds: int) -> None:
        """Start the processes of a workload."""
        env = {**os.environ, "TTMEM_SOCKET": self.path, "TT_ALLOC_TRACKING_ENABLED": "1"}
        env[VARIABLE] = "0" if self.driver is None else "1"
        command = [sys.executable, "-m", "ttmem.demo.worker", workload, "--devices", devices, "--rounds", str(rounds)]
        for number in range(parts):
            chips = WorkerPart(devices, number, parts).chips
            self.workers.append(Worker([*command, "--part", str(number), "--parts", str(parts)], env, chips))

    @property
    def running(self) -> list[Worker]:
        """Workers that have not ended."""
        return [worker for worker in self.workers if not worker.ended]

    @property
    def busy(self) -> list[Worker]:
        """Workers that have not yet reached their maximum."""
        return [worker for worker in self.running if not worker.held]

    def finish_step(self) -> None:
        """Wait until every busy worker has done its current step."""
        for worker in self.busy:
            worker.finish_step(self.check)
        if self.driver is not None:
            self.driver.tick({chip: worker.launches for worker in self.busy for chip in worker.chips})

    def start_step(self) -> None:
        """Make every busy worker begin its next step."""
        for worker in self.busy:
            worker.start_step()

    def stop_workers(self) -> list[int]:
        """Stop all workers and wait; returns their exit codes."""
        for worker in self.running:
            worker.stop()
        return [worker.wait() for worker in self.workers]


@contextmanager
def demo_session(path: str | None, machine: str | None = None) -> Iterator[DemoSession]:
    """A session with the server at this path, or with a private server without a path.

    A private server sees the telemetry of the chips of ``machine``, if one is named.
    """
    with tempfile.TemporaryDirectory(prefix="ttmem-demo-") as folder, tempfile.TemporaryFile("w+") as errors:
        server: subprocess.Popen[bytes] | None = None
        simulated: str | None = None
        if path is None:
            path = os.path.join(folder, "ttmem.sock")
            if len(os.fsencode(api_path(path))) > _MOST_PATH_BYTES:
                raise DemoError(f"a socket in {folder} would have too long a path; set TMPDIR to a shorter folder")
            if machine is not None and has_driver(machine):
                simulated = os.path.join(folder, "machine")
            looks = ["--no-machine"] if simulated is None else ["--machine", simulated]
            command = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", path, *looks]
            server = subprocess.Popen(command, stderr=errors, preexec_fn=_set_up_child)
        found = DemoSession(path, folder, private=server is not None)
        try:
            while not _up(path, must=server is None):
                if server is not None and server.poll() is not None:
                    raise DemoError(f"the server did not start: {_last_line(errors)}")
                time.sleep(0.02)
            if machine is not None and simulated is not None:
                # Not earlier: a server enters the chips that exist at its start into the account by their driver's
                # name.
                found.driver = Driver(simulated, machine)
            yield found
        finally:
            for worker in found.workers:
                worker.kill()
            if server is not None:
                _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Terminate a server; kill it if it does not end in time."""
    server.terminate()
    try:
        server.wait(_ASK_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _set_up_child() -> None:
    """Run in a child: end it if the demo is killed. Only the main thread of the demo may start such a child.

    It gets a session of its own, because Ctrl-C signals every process of the session's foreground group, and the demo
    needs the server and the workers for its summary.
    """
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _up(path: str, *, must: bool) -> bool:
    try:
        get_json("/health", socket_path=api_path(path))
    except NoServer as error:
        if must:
            raise DemoError(str(error)) from None
        return False
    except ApiError as error:
        raise DemoError(str(error)) from None
    return True


def _last_line(errors: IO[str]) -> str:
    errors.seek(0)
    return (errors.read().strip().splitlines() or ["it wrote nothing"])[-1]
