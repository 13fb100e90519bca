# SPDX-License-Identifier: Apache-2.0
"""The last lines of a command's output. A command may print megabytes, so the rest is not kept."""

from __future__ import annotations

import os
import threading
from types import TracebackType

_KEPT_BYTES = 1 << 15
_READ_BYTES = 1 << 16
_JOIN_SECONDS = 2.0
_BACKTRACE = (" --- ", "backtrace:")


class OutputTail:
    """A pipe for the output of a command; ``copy_to`` is a file descriptor that gets everything as well."""

    def __init__(self, copy_to: int | None = None) -> None:
        self._reader, self.writer = os.pipe()
        self._copy_to = copy_to
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="ttmem-fit-output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while data := os.read(self._reader, _READ_BYTES):
            self._kept = (self._kept + data)[-_KEPT_BYTES:]
            if self._copy_to is not None:
                try:
                    os.write(self._copy_to, data)
                except OSError:  # its reader is gone
                    self._copy_to = None

    def lines(self, most: int) -> list[str]:
        """The last lines, without those that are empty or belong to a backtrace of ttnn."""
        text = self._kept.decode("utf-8", "replace")
        return [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith(_BACKTRACE)][-most:]

    def __enter__(self) -> OutputTail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read what is left. A process that is still there and has the pipe open is not waited for."""
        os.close(self.writer)
        self._thread.join(_JOIN_SECONDS)
        if not self._thread.is_alive():
            os.close(self._reader)
