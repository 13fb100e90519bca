# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page ttmem(1) on standard output, from the parsers of all commands: `make man`."""

from __future__ import annotations

import os

from argparse_manpage.manpage import Manpage

from ttmem import __version__
from ttmem.cli import full_parser

SEE_ALSO = "The pages in docs/ of the project explain every command, number and file."


def page() -> str:
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the page has no date, or it would change with each day it is made on
    parser = full_parser()
    data = {"project_name": "ttmem", "version": __version__, "manual_title": "User Commands", "format": "pretty"}
    found = Manpage(parser, _data={**data, "description": parser.description})
    found.add_section("SEE ALSO", ">", SEE_ALSO)
    return str(found).replace('"1970\\-01\\-01"', '""', 1)


if __name__ == "__main__":
    print(page(), end="")
