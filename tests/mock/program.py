# SPDX-License-Identifier: Apache-2.0
"""A ttnn program of tests/programs in step with a test: it reports, and waits until the test has checked."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.mock.wheel import ROOT, Wheel, chip_ids, remove_statistics
from tests.support import PATIENCE


class Program:
    """A running program; its shared-memory statistics are removed when it is left.

    >>> with Program(wheel("3.12"), "ttnn_random", "n150", folder, "--steps", "100") as program:
    ...     for record in program.records():  # the program stands still until the next record is asked for
    ...         compare(record, server.snapshot())
    """

    def __init__(
        self,
        wheel: Wheel,
        name: str,
        board: str,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        chip_id_seed: int | None = None,
    ) -> None:
        self.board = board
        self.chip_id_seed = secrets.randbits(63) if chip_id_seed is None else chip_id_seed
        self.chip_ids = chip_ids(board, self.chip_id_seed)
        self.errors = folder / f"{name}.err"
        reports, report_fd = os.pipe()
        ack_fd, self._acks = os.pipe()
        self._reports = os.fdopen(reports)
        try:
            with open(self.errors, "wb") as errors:
                self.process = subprocess.Popen(
                    [
                        wheel.python,
                        str(ROOT / "tests" / "programs" / f"{name}.py"),
                        *("--board", board, "--report-fd", str(report_fd), "--ack-fd", str(ack_fd)),
                        *arguments,
                    ],
                    env={**wheel.environment(board, folder, self.chip_id_seed), **(environment or {})},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(report_fd, ack_fd),
                )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(report_fd)
            os.close(ack_fd)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def mapped(self) -> str:
        """The files it has mapped, according to /proc."""
        return Path(f"/proc/{self.pid}/maps").read_text()

    def records(self) -> Iterator[dict[str, Any]]:
        """Its records; requesting the next one lets it continue. It must end without an error."""
        while True:
            # Python's own buffer cannot hold a line that select() does not see: the program writes one at a time.
            ready, _, _ = select.select([self._reports], [], [], PATIENCE)
            if not ready:
                raise AssertionError(f"no report within {PATIENCE:g} s\n{self.errors.read_text()}")
            line = self._reports.readline()
            if not line:
                break
            yield json.loads(line)
            with contextlib.suppress(BrokenPipeError):  # killed meanwhile: the exit code shows it
                os.write(self._acks, b".")
        code = self.process.wait(PATIENCE)
        assert code == 0, f"exit code {code}\n{self.errors.read_text()}"

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self._close_pipes()
        remove_statistics(self.board, self.chip_id_seed)

    def _close_pipes(self) -> None:
        self._reports.close()
        os.close(self._acks)
