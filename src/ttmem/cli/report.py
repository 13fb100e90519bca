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
from typing import TYPE_CHECKING

from ttmem.cli import CommandError, complain
from ttmem.cli.recorded import opened
from ttmem.recording.output_files import PAGE, open_report, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ttmem.recording.recording_file import Recording

    PageContent = tuple[Mapping[str, object], Mapping[str, bytes]]  # its data, and its sections

_DEFAULT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default=_DEFAULT,
        help=f"page to write (default: {_DEFAULT}); - is standard output",
    )  # fmt: skip
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: the name of the recording)")
    parser.add_argument(
        "--confidential", action="store_true",
        help="leave out paths, host, command, and names of files and functions",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    with opened(args.file) as recording:
        title = args.title or ("recording" if args.confidential else os.path.basename(os.path.normpath(args.file)))
        write_page(recording, args.output, title, confidential=args.confidential)
    return 0


def write_page(recording: Recording, path: str, title: str, *, confidential: bool) -> None:
    """Write the report of a recording. CommandError if it cannot be written."""
    from ttmem.pages.report_document import report_of

    def made() -> PageContent:
        report = report_of(recording, made=time(), title=title, confidential=confidential)
        return {"page": "report", "report": report.document}, report.sections

    write_html(path, title, made)


def write_html(path: str, title: str, made: Callable[[], PageContent]) -> None:
    """Write a page. Its content is made only if it can be written; CommandError if it cannot."""
    from ttmem.pages.html_page import BundleMissing, load_bundle, page

    try:
        bundle = load_bundle()
    except BundleMissing as error:
        raise CommandError(str(error)) from None
    fd = None
    try:
        fd = None if path == "-" else open_report(path, PAGE)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    text = page(title, *made(), bundle)
    if fd is None:
        _write_out(text)
        return
    try:
        size = 0
        with overwrite(fd) as file:
            for piece in text:
                size += file.write(piece)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    complain(f"ttmem: wrote {path}, {size / 1e6:.1f} MB")


def _write_out(text: Iterable[str]) -> None:
    for piece in text:
        sys.stdout.write(piece)
    sys.stdout.flush()
