# SPDX-License-Identifier: Apache-2.0
"""The folder of a recording that may not grow beyond a limit: its segments, of which the oldest are deleted."""

from __future__ import annotations

import errno
import os
import stat

from ttmem.recording.output_files import open_recording

SEGMENT_SUFFIX = ".ttmem"
_SEGMENTS = 8  # that fit the limit
LEAST_BYTES = 1 << 20


class SegmentFolder:
    """Makes the files of segments in a folder of the same user. OSError if that is not possible."""

    def __init__(self, path: str, limit: int) -> None:
        if limit < LEAST_BYTES:
            raise OSError(errno.EINVAL, f"a limit of {limit} bytes is too small; use at least 1 MiB", path)
        self._path = path
        self._limit = limit
        self.segment_bytes = limit // _SEGMENTS
        self._number = 0
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            found = os.stat(path, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                raise OSError(errno.EEXIST, "with a limit the recording is a folder; this is none", path) from None
            if found.st_uid != os.geteuid():
                raise OSError(errno.EEXIST, f"it belongs to another user, uid {found.st_uid}", path) from None
            others = [name for name in os.listdir(path) if not name.endswith(SEGMENT_SUFFIX)]
            if others:
                raise OSError(errno.EEXIST, f"it contains other files, such as {others[0]!r}", path) from None
            for name in os.listdir(path):
                os.close(open_recording(os.path.join(path, name)))  # refuses what is no recording
                os.unlink(os.path.join(path, name))

    def following(self) -> int:
        """A descriptor of the next segment. Old segments are deleted so that it fits the limit, too."""
        self._number += 1
        kept = sorted(name for name in os.listdir(self._path) if name.endswith(SEGMENT_SUFFIX))
        sizes = [os.path.getsize(os.path.join(self._path, name)) for name in kept]
        while kept and sum(sizes) + self.segment_bytes > self._limit:
            os.unlink(os.path.join(self._path, kept.pop(0)))
            sizes.pop(0)
        return open_recording(os.path.join(self._path, f"{self._number:08d}{SEGMENT_SUFFIX}"))
