# SPDX-License-Identifier: Apache-2.0
"""Write a recording as a page: one HTML file with charts, maps, flame graph and tables, which works offline.

The page needs a browser and nothing else: it loads nothing. Of a long recording it contains what matters most, and
says what is left out. --confidential leaves out paths, host, command and the names of the source code.

Exit code: 0 written, 1 the recording cannot be read or the page cannot be written, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from time import time
from typing import TYPE_CHECKING, NamedTuple

from ttmem.cli import CommandError, complain
from ttmem.cli.recorded import opened
from ttmem.recording.output_files import PAGE, open_report, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ttmem.pages.html_page import Bundle
    from ttmem.recording.recording_file import Recording

    PageContent = tuple[Mapping[str, object], Mapping[str, bytes]]  # its data, and its sections

_DEFAULT = "report.html"
_TITLE_LENGTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=_DEFAULT,
        help=f"page to write (default: {_DEFAULT}); - is standard output",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: the command that was recorded)")
    parser.add_argument(
        "--confidential",
        action="store_true",
        help="leave out paths, host, command, and names of files and functions; operations, shapes and sizes stay",
    )


def run(args: argparse.Namespace) -> int:
    with opened(args.file) as recording, open_page(args.output) as page:
        title = args.title or title_of(recording, args.confidential)
        page.report(recording, title, confidential=args.confidential)
    _wrote(args.output)
    return 0


def write_html(path: str, title: str, made: Callable[[], PageContent]) -> None:
    """Write a page. Its content is made only if it can be written; CommandError if it cannot."""
    with open_page(path) as page:
        page.write(title, made())
    _wrote(path)


def _wrote(path: str) -> None:
    if path != "-":
        complain(f"ttmem: wrote {path}")


def title_of(recording: Recording, confidential: bool) -> str:
    """The command that was recorded, without the path of its program; otherwise the name of the file."""
    if confidential:
        return "Recording"
    command = recording.facts.get("command")
    if isinstance(command, list) and command:
        words = [os.path.basename(str(command[0])), *map(str, command[1:])]
        return " ".join(words)[:_TITLE_LENGTH]
    return os.path.basename(os.path.normpath(recording.path)) or "Recording"


class Page(NamedTuple):
    """A page that is going to be written."""

    path: str
    fd: int | None  # None: standard output
    bundle: Bundle

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def report(self, recording: Recording, title: str, *, confidential: bool = False) -> None:
        """Write the report of a recording. CommandError if it cannot be written."""
        from ttmem.pages.report_document import report_of

        made = report_of(recording, made=time(), title=title, confidential=confidential)
        self.write(title, ({"page": "report", "report": made.document}, made.sections))

    def write(self, title: str, content: PageContent) -> None:
        """Write any page. CommandError if it cannot be written."""
        from ttmem.pages.html_page import page

        text = page(title, *content, self.bundle)
        if self.fd is None:
            sys.stdout.writelines(text)
            sys.stdout.flush()
            return
        try:
            with overwrite(os.dup(self.fd)) as file:
                file.writelines(text)
        except OSError as error:
            raise CommandError(f"cannot write {self.path}: {error.strerror}") from None


def open_page(path: str) -> Page:
    """Check that a page can be made and written there. CommandError if not."""
    from ttmem.pages.html_page import BundleMissing, load_bundle

    try:
        bundle = load_bundle()
        return Page(path, None if path == "-" else open_report(path, PAGE), bundle)
    except BundleMissing as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
