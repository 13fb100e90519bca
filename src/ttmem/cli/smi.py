# SPDX-License-Identifier: Apache-2.0
"""One picture of the machine: chips, where their memory goes, and who holds it."""

from __future__ import annotations

import argparse
import json
import sys

from ttmem.api.client import ApiError, get_json
from ttmem.cli import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--api", metavar="PATH", help="the server's API socket (default: found like the server's own)")
    parser.add_argument("--json", action="store_true", help='as data, schema "ttmem.snapshot/1"')


def run(args: argparse.Namespace) -> int:
    try:
        picture = get_json("/snapshot", socket_path=args.api)
    except ApiError as error:
        raise CommandError(str(error)) from None
    if args.json:
        json.dump(picture, sys.stdout)
        print()
        return 0
    from ttmem.show.smi import render

    print(render(picture, colour=sys.stdout.isatty()))
    return 0
