# SPDX-License-Identifier: Apache-2.0
"""Show what is allocated now: per device and kind, large and small, each thing where there are few."""

from __future__ import annotations

import argparse
import sys

from ttmem.api.client import ApiError, get
from ttmem.cli import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--api", metavar="PATH", help="the server's API socket (default: found like the server's own)")
    parser.add_argument("--json", action="store_true", help='as data, schema "ttmem.dump/1"')
    parser.add_argument("--kernels", action="store_true", help="only kernels, each with its age")


def run(args: argparse.Namespace) -> int:
    what = "kernels" if args.kernels else "all"
    form = "json" if args.json else "text"
    try:
        sys.stdout.buffer.write(get(f"/dump?format={form}&what={what}", socket_path=args.api, timeout=60.0))
    except ApiError as error:
        raise CommandError(str(error)) from None
    return 0
