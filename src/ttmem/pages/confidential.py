# SPDX-License-Identifier: Apache-2.0
"""Leaves out of a report what says where it was made: paths, host, command, and names in the source code.

Lines of the program keep a number, so that equal ones can still be recognised. Operations, shapes and sizes stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ttmem.documents.common_text import short_line
from ttmem.recording.allocation_table import Site
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import CoresAtMoment

_D = TypeVar("_D")
_FRAME = re.compile(r"(?P<path>.*?):(?P<line>\d+)(?: (?P<function>.+))?", re.DOTALL)
# A path, or the name of a source file, perhaps with a line.
_PATH = re.compile(
    r"(?<![\w/])(?:~|\.{1,2})?(?:/[\w.+@%-]+){2,}(?::\d+)?|[\w./+-]*\w\.(?:py|pyx|cpp|cc|cxx|hpp|h|so)(?:\.\d+)*\b(?::\d+)?"
)
_FRAME_INSIDE = re.compile(r"[^\s(),;:]*[A-Za-z>][^\s(),;:]*:\d+ [\w<>.]+")  # of a sentence
_LEFT_OUT = "left out"
_PRIVATE_KEYS = frozenset({"command", "host", "folder", "commit", "user"})
_FRAME_KEYS = frozenset({"line", "caller"})
_STACK_KEYS = frozenset({"stack", "frames"})


class Redactor:
    """Replaces frames, and removes paths and names, in all texts of a report."""

    def __init__(self, recording: Recording, sites: Iterable[Site]) -> None:
        self._frames: dict[str, str] = {}
        self._lines = 0
        self._private: set[str] = set()
        for site in sites:
            for frame in (site.stack or "").split("\n"):
                self._learn(frame)
        known = recording.facts
        command = known.get("command")
        words = [str(word) for word in command] if isinstance(command, list) else []
        self._private |= {str(known[key]) for key in ("host", "folder", "commit") if known.get(key)}
        self._private |= {word for word in words if "/" in word or _PATH.search(word)}
        for process in recording.processes.values():
            info = process.source.info
            self._private |= {text for text in (info.name, info.command) if text}
        for source in recording.lifetimes().allocations.sources:
            self._private |= {text for text in (source.info.name, source.info.command) if text}
        self._longest = sorted((word for word in self._private if len(word) > 2), key=len, reverse=True)

    def _learn(self, frame: str) -> str:
        if not frame or frame.startswith("... "):
            return frame
        if frame not in self._frames:
            self._lines += 1
            name = f"line {self._lines}"
            self._frames[frame] = name
            short = short_line(frame)
            if short is not None:
                self._frames.setdefault(short, name)
        return self._frames[frame]

    def text(self, text: str) -> str:
        """A text of the page."""
        if text in self._frames:
            return self._frames[text]
        text = _FRAME_INSIDE.sub(lambda found: self._frames.get(found[0], _LEFT_OUT), text)
        text = _PATH.sub(_LEFT_OUT, text)
        for word in self._longest:
            if word in text:
                text = text.replace(word, _LEFT_OUT)
        return text

    def document(self, document: _D) -> _D:
        return cast("_D", self._walk(document, ""))

    def cores(self, cores: CoresAtMoment) -> CoresAtMoment:
        return self.document(cores)

    def _walk(self, value: Any, key: str) -> Any:
        if key == "sections":
            return value
        if isinstance(value, dict):
            return {name: self._walk(one, str(name)) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(one, key) for one in value]
        if not isinstance(value, str):
            return value
        if key in _PRIVATE_KEYS:
            return _LEFT_OUT if value else value
        if key in _FRAME_KEYS or key in _STACK_KEYS:
            return self._learn(value) if _FRAME.fullmatch(value) else self.text(value)
        return self.text(value)
