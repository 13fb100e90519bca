# SPDX-License-Identifier: Apache-2.0
"""The report of a recording, served: its sections one by one, and parts of the recording in more detail on request.

A page in a file has only what was put into it. A page that is served also asks for sections that are made when they are
needed: ``range/GROUP/FROM/UNTIL/COUNT``, a part of the timeline of a chip group in so many buckets, and
``moment/GROUP/TIME``, the maps of all cores at an exact moment. Times are in ns since the start of the recording.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from time import time
from typing import TYPE_CHECKING

from ttmem.pages.core_moments import Wanted, core_moments
from ttmem.pages.report_document import MadeReport, report_of
from ttmem.pages.report_series import columns, edges_of
from ttmem.pages.sections import Sections
from ttmem.pages.web_live import FILES, file_response
from ttmem.pages.web_shell import served_page
from ttmem.recording.blocks import RecordingError
from ttmem.recording.moments import Moment, MomentError
from ttmem.server.http_server import HttpError, Response

if TYPE_CHECKING:
    from ttmem.pages.html_page import Bundle
    from ttmem.recording.recording_file import Recording

MOST_BUCKETS = 4096
_KEPT_SECTIONS = 64
_MOST_DIGITS = 16


class RecordedContent:
    """Serves the report of a recording, which stays open."""

    def __init__(self, bundle: Bundle, recording: Recording, title: str) -> None:
        self._bundle = bundle
        self._recording = recording
        self._made: MadeReport = report_of(recording, made=time(), title=title)
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        # One thread: a recording is read by one reader at a time.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="recording")

    async def page(self) -> bytes:
        report = self._made.document
        return served_page(report["title"], {"page": "report", "served": True, "report": report})

    async def answer(self, path: str, query: dict[str, str]) -> Response:
        if path in FILES:
            return file_response(self._bundle, path)
        folder, _, name = path.partition("/")
        if folder != "section":
            raise HttpError(404, f"there is no {path[:100]!r} here")
        found = self._made.sections.get(name)
        if found is None:
            found = await asyncio.get_running_loop().run_in_executor(self._reader, self._section, name)
        return Response(found, content_type="application/octet-stream")

    def tick(self) -> None:
        """Nothing changes by itself."""

    def close(self) -> None:
        self._reader.shutdown(wait=True, cancel_futures=True)

    # -- in the thread of the reader -----------------------------------------------------------------------------

    def _section(self, name: str) -> bytes:
        """A section that is made on request; the last ones are kept."""
        found = self._kept.get(name)
        if found is None:
            kind, *numbers = name.split("/")
            if kind == "range":
                found = self._range(*_numbers(name, numbers, 4))
            elif kind == "moment":
                found = self._cores(*_numbers(name, numbers, 2))
            else:
                raise _unknown(name)
            self._kept[name] = found
            if len(self._kept) > _KEPT_SECTIONS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return found

    def _range(self, group: int, begin: int, end: int, count: int) -> bytes:
        if not (group < len(self._made.lines) and begin < end and 0 < count <= MOST_BUCKETS):
            raise HttpError(404, f"there is no range of group {group} from {begin} to {end} in {count} buckets")
        made = Sections()
        made.add_columns("range", columns(self._made.lines[group], edges_of(begin, end, count)))
        return made.payloads["range"]

    def _cores(self, group: int, moment: int) -> bytes:
        length = self._made.document["length_ns"]
        if not (group < len(self._made.groups) and moment <= length):
            raise HttpError(404, f"there is no moment {moment} of group {group}")
        wanted = Wanted(Moment(self._recording.begin + moment / 1e9, "at the chosen moment"), (group,), moment)
        made = Sections()
        try:
            found = core_moments(self._recording, [wanted], self._made.groups, made, lambda cores: cores)
        except (MomentError, RecordingError) as error:
            raise HttpError(404, str(error)) from None
        if not found:
            raise HttpError(404, "the cores at this moment are not known, or too many allocations were live")
        return made.payloads[found[0]["cores"]]


def _numbers(name: str, texts: list[str], count: int) -> list[int]:
    if len(texts) != count or not all(text.isascii() and text.isdecimal() for text in texts):
        raise _unknown(name)
    if any(len(text) > _MOST_DIGITS for text in texts):
        raise _unknown(name)
    return [int(text) for text in texts]


def _unknown(name: str) -> HttpError:
    return HttpError(404, f"there is no section {name[:100]!r}")
