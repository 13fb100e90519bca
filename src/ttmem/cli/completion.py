# SPDX-License-Identifier: Apache-2.0
"""Print a script that completes ttmem's commands and options in your shell.

ttmem completion bash > ~/.local/share/bash-completion/completions/ttmem
ttmem completion zsh > "${fpath[1]}/_ttmem"
ttmem completion tcsh > /etc/profile.d/ttmem.completion.csh

Exit code: 0 printed, 1 shtab is not installed, 2 wrong usage.
"""

from __future__ import annotations

import argparse

from ttmem.cli import CommandError, full_parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "tcsh"), help="bash, zsh or tcsh")


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise CommandError("this needs shtab: pip install 'ttmem[completion]'") from None
    print(shtab.complete(full_parser(), args.shell))
    return 0
