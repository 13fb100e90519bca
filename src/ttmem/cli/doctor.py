# SPDX-License-Identifier: Apache-2.0
"""Why do I see nothing? Look at driver, devices, server, agent, ttnn and running programs, and say what is wrong.

Nothing is changed, no device is opened, no workload is disturbed. Each problem comes with what was looked at, what was
found, and what to do; docs/troubleshooting.md has a section on each check.

Exit code: 0 fine, 1 warnings, 2 something is broken, or wrong usage. What could not be looked at does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

from ttmem.agent import AgentMissing
from ttmem.cli import complain
from ttmem.doctor.checks import document, examine
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.elf import NotALibrary
from ttmem.doctor.hook_coverage import look
from ttmem.doctor.wheel_checks import find
from ttmem.show.doctor_text import render
from ttmem.show.wheel_text import render as wheel_text

ERROR = 2  # 1 is for warnings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help='as data, schema "ttmem.doctor/1"')
    parser.add_argument(
        "--python", metavar="PATH", type=_interpreter, help="the interpreter whose ttnn to look at (default: this one)"
    )
    parser.add_argument(
        "--wheel",
        metavar="PATH",
        nargs="?",
        const="",
        help="only say, hook by hook, what the agent would see with a ttnn: its folder, its libtt_metal.so, or an "
        "interpreter that has it (default: that of --python)",
    )
    parser.add_argument("--api", metavar="PATH", help="the server's API socket (default: found like the server's own)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show in full what is fine, too")
    parser.add_argument("--root", metavar="FOLDER", default="/", help=argparse.SUPPRESS)


def _interpreter(text: str) -> str:
    found = shutil.which(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"there is no program {text!r} that could be run")
    return found


def run(args: argparse.Namespace) -> int:
    if args.wheel is not None:
        return _wheel(args)
    found = document(examine(DoctorContext(args.root, os.environ, api=args.api, python=args.python)))
    print(json.dumps(found) if args.json else render(found, verbose=args.verbose))
    code: int = found["verdict"]["exit_code"]
    return code


def _wheel(args: argparse.Namespace) -> int:
    """Exit code: 0 everything is tracked, 1 not everything, 2 nothing, or there is no such library."""
    try:
        path = find(args.wheel or args.python or sys.executable, os.environ)
        coverage = look(path)
    except (OSError, NotALibrary, AgentMissing) as error:
        complain(f"ttmem doctor: --wheel: {error}")
        return ERROR
    found = coverage.document()
    print(json.dumps(found) if args.json else wheel_text(found, verbose=args.verbose))
    return 0 if len(coverage.tracked) == len(coverage.kinds) else 1 if coverage.tracked else ERROR
