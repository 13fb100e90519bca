# SPDX-License-Identifier: Apache-2.0
"""`ttmem run` and the workloads it is tested with: run to the end, or in step with a test."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.mock.wheel import ROOT, chip_ids, remove_statistics, wheel
from tests.support import PATIENCE, Server, wait_until
from ttmem.agent import require

TTMEM = [sys.executable, "-m", "ttmem"]
# ttnn's BufferType codes, by the kinds of the account.
BUFFER_TYPES = {"dram": 0, "l1": 1, "host": 2, "l1_small": 3, "trace": 4}


class Ran(NamedTuple):
    """A command that has ended, and its output; ``data`` is the document of `ttmem run --json`."""

    code: int
    out: bytes
    err: str
    data: dict[str, Any]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def ttmem(*arguments: str, **popen: Any) -> Ran:
    """Run a ttmem command to its end."""
    popen.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([*TTMEM, *arguments], capture_output=True, timeout=PATIENCE, **popen)
    return Ran(done.returncode, done.stdout, done.stderr.decode(), {})


class Bench:
    """A mock machine on which ttnn programs run, with or without the agent."""

    def __init__(self, folder: Path, board: str = "n150", python: str = "3.12") -> None:
        self.folder = folder
        self.board = board
        self.chip_id_seed = secrets.randbits(63)
        self.chip_ids = {chip: str(chip_id) for chip, chip_id in chip_ids(board, self.chip_id_seed).items()}
        self.python = wheel(python).python
        nobody = {"TTMEM_SOCKET": str(folder / "nobody.sock")}
        self.environment = wheel(python).environment(board, folder, self.chip_id_seed) | nobody
        for name in ("COLUMNS", "LINES", "NO_COLOR"):  # of the terminal of the test run
            self.environment.pop(name, None)

    def command(self, name: str, *arguments: str) -> list[str]:
        return [self.python, str(ROOT / "tests" / "programs" / f"{name}.py"), *arguments]

    def plain(self, name: str, *arguments: str, **environment: str) -> Ran:
        """Run the program without ttmem and without waiting after records."""
        return self._end(self.command(name, *arguments), environment)

    def preloaded(self, name: str, *arguments: str, **environment: str) -> Ran:
        """Run the program with the agent, as with `ttmem env`."""
        return self.plain(name, *arguments, LD_PRELOAD=str(require()), **environment)

    def run(self, name: str, *arguments: str, options: Iterable[str] = (), **environment: str) -> Ran:
        """Run the program under `ttmem run`."""
        return self.run_command(self.command(name, *arguments), options=options, **environment)

    def run_command(self, command: list[str], options: Iterable[str] = (), **environment: str) -> Ran:
        path = self.folder / "run.json"
        path.unlink(missing_ok=True)
        done = self._end([*TTMEM, "run", "--json", str(path), *options, "--", *command], environment)
        return done._replace(data=json.loads(path.read_text()) if path.exists() else {})

    def in_step(self, name: str, *arguments: str, options: Iterable[str] = (), **environment: str) -> InStep:
        """Start the program under `ttmem run`; it waits after each of its records."""
        return InStep(self, self.command(name, *arguments, "--ack-fd", "0"), list(options), environment)

    def _end(self, command: list[str], environment: Mapping[str, str]) -> Ran:
        done = subprocess.run(
            command,
            env={**self.environment, **environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode(), {})

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_statistics(self.board, self.chip_id_seed)


class InStep:
    """A program under `ttmem run` that waits until its next record is requested.

    >>> with bench.in_step("ttnn_endings", "--ending", "close") as running:
    ...     for record in running.records():
    ...         compare(record, server.snapshot())
    ... assert running.ran.code == 0
    """

    def __init__(
        self,
        bench: Bench,
        command: list[str],
        options: list[str],
        environment: Mapping[str, str],
        ttmem: list[str] = TTMEM,
    ) -> None:
        self._json = bench.folder / "run.json"
        self._err = bench.folder / "run.err"
        self._json.unlink(missing_ok=True)
        with open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                [*ttmem, "run", "--json", str(self._json), *options, "--", *command],
                env={**bench.environment, **environment},
                cwd=bench.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                bufsize=0,
            )
        self._out = b""
        self._records = self._read()

    def records(self) -> Iterator[dict[str, Any]]:
        """Its remaining records; requesting the next one lets it continue."""
        return self._records

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, f"no record within {PATIENCE:g} s\n{self._err.read_text()}"
            line = self.process.stdout.readline()
            if not line:
                return
            self._out += line
            if not line.startswith(b"{"):
                continue  # ttnn's log
            yield json.loads(line)
            self.let_go()

    def let_go(self) -> None:
        """Let it continue without waiting for its next record."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; its exit code shows how
            self.process.stdin.write(b".")

    @property
    def ran(self) -> Ran:
        """The result of the ended program."""
        for _ in self._records:
            pass
        code = self.process.wait(PATIENCE)
        data = json.loads(self._json.read_text()) if self._json.stat().st_size else {}
        return Ran(code, self._out, self._err.read_text(), data)

    def __enter__(self) -> InStep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        if self.process.poll() is None and error is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()  # passed on to the program
        self.process.wait(PATIENCE)


# Starts like `ttmem`, but examines the mappings of processes every time, and logs which process uses a device, how many
# agents it has read, and how many records it has lost.
WATCHED = """
import sys
from ttmem import cli
from ttmem.run import launch
from ttmem.run.session import Session
from ttmem.sources import process_lookup as processes

find, turn, log = processes.device_users, Session.turn, open(sys.argv.pop(1), "a", buffering=1)

def found(pid, **more):
    looked_at = processes.descendants(pid)
    users = find(pid, **more)
    log.writelines(f"look {pid}\\n" for pid in looked_at)
    log.writelines(f"user {pid}\\n" for pid in users)
    return users

def turned(collector):
    turn(collector)
    log.write(f"agents {len(collector.rings)} lost {collector.rings.counts()[1]}\\n")

processes.device_users, launch._EARLY_LOOK_SECONDS, Session.turn = found, 0.0, turned
sys.exit(cli.main())
"""


class Watched(InStep):
    """Runs under a `ttmem run` that logs its observations."""

    def __init__(self, bench: Bench, command: list[str]) -> None:
        self._log = bench.folder / "noticed"
        self._log.touch()
        starter = [sys.executable, "-c", WATCHED, str(self._log)]
        super().__init__(bench, command, ["--fail-on-leak"], {}, starter)

    def wait_for_look(self, pid: int, what: str = "look") -> None:
        """Wait until it has examined the mappings of the process; as a "user": and has found a device."""
        wait_until(lambda: f"{what} {pid}" in self._log.read_text().splitlines(), "a look at the process")

    def wait_for_loss(self) -> None:
        """Wait until it has noticed lost records."""
        wait_until(lambda: re.search(r" lost [1-9]", self._log.read_text()), "the loss")

    def wait_for_agents(self, count: int) -> None:
        """Wait until it has read everything that this number of agents have written by now."""
        before = len(self._turns())
        # The first logged round may have begun earlier.
        wait_until(lambda: f"agents {count}" in self._turns()[before + 1 :], "the agents")

    def _turns(self) -> list[str]:
        return re.findall(r"^(agents \d+) lost", self._log.read_text(), re.MULTILINE)

    def __enter__(self) -> Watched:
        return self


# -- comparable figures of ttnn and ttmem ----------------------------------------------------------------------------


def taken(account: Mapping[str, Any]) -> tuple[int, int]:
    """Allocated bytes of DRAM and of L1 on one chip, as reported by ttnn's allocator."""
    views = account["views"]
    used = {name: view["allocated_per_bank"] * view["banks"] for name, view in views.items()}
    return used["DRAM"] + used["TRACE"], used["L1"] + used["L1_SMALL"]


def reserved(memory: Mapping[str, Any]) -> tuple[int, int]:
    """The same from a snapshot, in which a kind that was never allocated is None."""
    return memory["dram"]["reserved"] or 0, memory["l1"]["reserved"] or 0


def memory_of(snapshot: Mapping[str, Any], chip_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(chip["memory"] for chip in snapshot["chips"] if chip["chip"] == chip_id)
    return found


def addresses(allocations: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """Buffer type and address of each buffer among the allocations, as ttnn lists them."""
    return sorted(
        [BUFFER_TYPES[allocation["kind"]], allocation["address"]]
        for allocation in allocations
        if allocation["kind"] in BUFFER_TYPES
    )


def figures(memory: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that two accounts of the same time must agree on: no peaks, no audits, no last program."""
    dram, l1 = memory["dram"], memory["l1"]
    return {
        "dram": (dram["used"], dram["reserved"], dram["capacity"]),
        "l1": (l1["used"], l1["reserved"], l1["capacity"], l1["buffers"]),
        "small": (l1["small"]["used"], l1["small"]["reserved"]),
        "parts": (l1["cb"]["held"], l1["dfb"]["held"], l1["scratchpad"], l1["kernels"]),
        "confidence": memory["confidence"],
    }


def agrees(server: Server, record: Mapping[str, Any], chip_id: str) -> bool:
    """Whether the server and ttnn report the same for a chip."""
    chips = {chip["chip"]: chip["memory"] for chip in server.snapshot()["chips"]}
    return chip_id in chips and reserved(chips[chip_id]) == taken(record)


def wait_for_account(server: Server, record: Mapping[str, Any], chip_id: str) -> dict[str, Any]:
    """Wait until the server reports the same as ttnn; returns the chip's memory."""
    wait_until(lambda: agrees(server, record, chip_id), "the server's account")
    return memory_of(server.snapshot(), chip_id)
