# SPDX-License-Identifier: Apache-2.0
"""The progress of `ttmem fit` in one line of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.show.text import Style, style_of

if TYPE_CHECKING:
    from typing import TextIO

_BAR_COLUMNS = 20


class Progress:
    """Shows a bar on a terminal, and nothing anywhere else."""

    def __init__(self, stream: TextIO, *, ascii: bool = False) -> None:
        self._stream = stream if stream.isatty() else None
        self._style = style_of(stream, ascii=ascii)

    def show(self, share: float, text: str) -> None:
        if self._stream is not None:
            self._write(progress_line(share, text, self._style))

    def end(self) -> None:
        """Remove the line."""
        if self._stream is not None:
            self._write("")

    def _write(self, text: str) -> None:
        assert self._stream is not None
        print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)


def progress_line(share: float, text: str, style: Style) -> str:
    """
    >>> progress_line(0.25, "n150 batch=4", Style(width=60, ascii=True))
    '#####...............  25 % n150 batch=4'
    """
    bar, _ = style.bar(share, _BAR_COLUMNS)
    return style.cut(f"{bar} {share:>4.0%} ".replace("%", " %") + style.clean(text), style.width - 1)
