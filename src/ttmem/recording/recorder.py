# SPDX-License-Identifier: Apache-2.0
"""Records every applied event in an event file."""

from __future__ import annotations

from collections.abc import Callable

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.observer import Observable
from ttmem.model.events import Event, ProcessExited
from ttmem.recording.event_file import EventFileWriter
from ttmem.recording.output_files import open_recording


class Recorder:
    """Writes a growing event file; OSError if it cannot be created."""

    def __init__(self, path: str, observed: Observable, warn: Callable[[str], None]) -> None:
        """Record the events of ``observed`` from now on."""
        # It contains command lines and tags of all users, so only the user who runs ttmem may read it.
        self._file = open(open_recording(path), "wb", buffering=1 << 16)  # noqa: SIM115 - lives as long as this
        self._writer = EventFileWriter(self._file)
        self._observed = observed
        self._warn = warn
        self._stopped = False
        observed.add_observer(self._write)

    def _write(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        try:
            self._writer.write(time, source, event)
            if source is not None and type(event) is ProcessExited:
                for gone in source.process.sources.values():
                    self._writer.exited(gone)
        except OSError as error:
            self._stop(error)

    def flush(self) -> None:
        if not self._stopped:
            try:
                self._writer.flush()
            except OSError as error:
                self._stop(error)

    def _stop(self, error: OSError) -> None:
        """A full disk ends the recording, not the account."""
        self._stopped = True
        self._observed.remove_observer(self._write)
        self._warn(f"recording stopped: {error.strerror}; the file can be read up to here")

    def close(self) -> None:
        if self._stopped:
            return
        try:
            self._file.close()
        except OSError as error:
            self._warn(f"the end of the recording was lost: {error.strerror}")
