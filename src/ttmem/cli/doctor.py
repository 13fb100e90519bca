# SPDX-License-Identifier: Apache-2.0
"""Find out why ttmem shows nothing, or too little: check driver, devices, server, agent, ttnn and running programs.

It changes nothing, opens no device and disturbs no workload. For each problem it prints what was checked, what was
found, and what to do; docs/troubleshooting.md has a section on each check.

Exit code: 0 nothing is broken (warnings do not count, nor does what could not be checked), 3 something is broken, or
with --wheel not everything would be tracked, 1 an error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

from ttmem.agent import AgentMissing
from ttmem.cli import CommandError
from ttmem.cli.options import add_socket, add_style, api_socket
from ttmem.doctor.checks import document, examine
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.elf import NotALibrary
from ttmem.doctor.hook_coverage import look
from ttmem.doctor.wheel_checks import find
from ttmem.show.doctor_text import render
from ttmem.show.text import Style, style_of
from ttmem.show.wheel_text import render as wheel_text

_INCOMPLETE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help='print JSON, schema "ttmem.doctor/1"')
    parser.add_argument(
        "--python", metavar="PATH", help="interpreter whose ttnn is checked (default: the one that runs ttmem)"
    )
    parser.add_argument(
        "--wheel",
        metavar="PATH",
        nargs="?",
        const="",
        help="only print, hook by hook, what the agent can track with a ttnn: its folder, its libtt_metal.so, or an "
        "interpreter that has it (default: that of --python)",
    )
    add_socket(parser)
    add_style(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="also print the details of checks that passed")
    parser.add_argument("--root", metavar="FOLDER", default="/", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.python is not None:
        python = shutil.which(args.python)
        if python is None:
            raise CommandError(f"--python: {args.python!r} is not a program that can be run; name an interpreter")
        args.python = python
    if args.wheel is not None:
        return _wheel(args)
    found = document(examine(DoctorContext(args.root, os.environ, api=api_socket(args), python=args.python)))
    print(json.dumps(found) if args.json else render(found, _style(args), verbose=args.verbose))
    code: int = found["verdict"]["exit_code"]
    return code


def _style(args: argparse.Namespace) -> Style:
    return style_of(sys.stdout, ascii=args.ascii, colour=not args.no_color)


def _wheel(args: argparse.Namespace) -> int:
    try:
        path = find(args.wheel or args.python or sys.executable, os.environ)
        coverage = look(path)
    except (OSError, NotALibrary, AgentMissing) as error:
        raise CommandError(f"--wheel: {error}") from None
    found = coverage.document()
    print(json.dumps(found) if args.json else wheel_text(found, _style(args), verbose=args.verbose))
    return 0 if len(coverage.tracked) == len(coverage.kinds) else _INCOMPLETE
