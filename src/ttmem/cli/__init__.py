# SPDX-License-Identifier: Apache-2.0
"""The `ttmem` command. Each command has its own module; only this one prints errors and decides the exit code.

Exit codes, the same for every command (docs/commands.md has the table): 0 done; 1 the command failed, with a
message; 2 wrong usage; 3 to 5 verdicts; 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from importlib import import_module

from ttmem.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

COMMANDS = {
    "demo": "show everything on simulated devices: a server, a workload, the dashboard",
    "run": "run a command that uses ttnn and account for its device memory",
    "fit": "find out whether a command fits on a board, without the board",
    "env": "print the environment in which a service or container reports",
    "serve": "run the allocation server",
    "smi": "show one snapshot: chips, memory, processes",
    "top": "show the live dashboard: charts, processes, the L1 of every core",
    "web": "show the live dashboard in a browser, or the report of a recording",
    "l1": "show the L1 of a chip, core by core",
    "explain": "explain failed allocations in a log or a recording",
    "doctor": "find out why ttmem shows nothing, or too little",
    "dump": "show what is allocated now",
    "leaks": "show what grows and what is held, with an exit code for CI",
    "replay": "show a moment of a recording",
    "stats": "show statistics of a recording: what allocates, lifetimes, fragmentation",
    "tree": "show what was live at a moment of a recording, by call tree",
    "report": "write a recording as a page: charts, maps, flame graph, tables",
    "diff": "compare two runs, with an exit code for CI",
    "import": "convert graph captures and reports of ttnn to a recording",
    "completion": "print a completion script for bash, zsh or tcsh",
}
_NUMBER_STARTS = tuple("0123456789.")
_MODULES = {"import": "import_"}  # the command's name is a keyword of Python


def complain(text: str) -> None:
    """Print one line on standard error, made printable: names and paths in it may come from other users."""
    print(printable(text), file=sys.stderr)


class Answered:
    """Context for code that shows a server's answer: for a malformed answer, it raises CommandError with a message."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        from ttmem.wire.api_client import MALFORMED, malformed

        if isinstance(error, MALFORMED) and os.environ.get("TTMEM_DEBUG") != "1":
            raise CommandError(malformed(error, self._command)) from None


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line, with the same text in every version of Python."""

    def error(self, message: str) -> NoReturn:
        text = _plain(message)
        complain(f"{self.prog}: {text}" + ("" if "; " in text else f"; `{self.prog} --help` lists the options"))
        raise SystemExit(2)


def _plain(message: str) -> str:
    """A message of argparse in plain words.

    >>> _plain("argument --by: invalid choice: 'size' (choose from 'op', 'line')")
    "--by: there is no 'size'; choose from op, line"
    >>> _plain("argument --csv: not allowed with argument --json")
    '--csv and --json cannot be used together'
    """
    import re

    for pattern, text in (
        (r"argument (.+): invalid choice: (.*) \(choose from (.*)\)", r"\1: there is no \2; choose from \3"),
        (r"argument (.+): not allowed with argument (.+)", r"\1 and \2 cannot be used together"),
        (r"argument (.+): expected one argument", r"\1 needs a value"),
        (r"argument (.+): ignored explicit argument (.*)", r"\1 takes no value, not \2"),
        (r"the following arguments are required: (\S+), (\S+)", r"\1 and \2 are missing"),
        (r"the following arguments are required: (.*)", r"\1 is missing"),
        (r"unrecognized arguments: (.*)", r"unknown option or argument: \1"),
        (r"argument (.+?): (.*)", r"\1: \2"),
    ):
        if found := re.fullmatch(pattern, message, re.DOTALL):
            said = found.expand(text)
            head, choices, listed = said.rpartition("choose from ")
            return head + choices + listed.replace("'", "") if choices else said
    return message


class CommandError(Exception):
    """An error to show to the user, in one line."""


class UsageError(CommandError):
    """Wrong usage of a command; exit code 2."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["-V"]):
        from ttmem.cli.version import version_text

        return _say(version_text(), 0)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        return _say(_help(), 0 if arguments else 2)
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"ttmem: there is no command {name!r}; {_meant(name)}", file=sys.stderr)
        return 2
    module = _module(name)
    parser = _Parser(prog=f"ttmem {name}", description=module.__doc__, formatter_class=_Formatter)
    module.add_arguments(parser)
    try:
        for stream in ("stdout", "stderr"):
            if getattr(sys, stream) is None:  # closed by the parent process; print() would use the other one
                setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # for names with characters that its encoding lacks
        code = int(module.run(_parsed(parser, rest)))
        sys.stdout.flush()  # here, where a full disk can still be reported
        return code
    except CommandError as error:
        complain(f"ttmem {name}: {error}")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            return _internal(name, error)
        print(f"ttmem {name}: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1
    except Exception as error:
        return _internal(name, error)


def full_parser() -> argparse.ArgumentParser:
    """A parser with all commands, for completion scripts and the manual page; `main` creates only the one it needs."""
    parser = _Parser(prog="ttmem", description="Where every byte of a Tenstorrent accelerator's memory goes.")
    parser.add_argument("-V", "--version", action="store_true", help="print the versions of ttmem, its agent and ttnn")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command_name")
    for name, summary in COMMANDS.items():
        module = _module(name)
        module.add_arguments(
            commands.add_parser(name, help=summary, description=module.__doc__, formatter_class=_Formatter)
        )
    return parser


def _module(name: str) -> Any:
    return import_module(f"ttmem.cli.{_MODULES.get(name, name)}")


def _parsed(parser: argparse.ArgumentParser, rest: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(_joined(parser, rest))
    except SystemExit:
        sys.stdout.flush()  # the help text: its reader may have closed the pipe
        raise


def _joined(parser: argparse.ArgumentParser, rest: list[str]) -> list[str]:
    """The arguments, with values such as -1s or -1,0 joined to their option: argparse would take them for options.

    The command of `ttmem run` and its arguments stay as they are.
    """
    valued = {name for action in parser._actions if action.nargs is None for name in action.option_strings}
    runs = any(action.nargs == argparse.REMAINDER for action in parser._actions)
    found: list[str] = []
    for place, word in enumerate(rest):
        is_value = bool(found) and found[-1] in valued
        if word == "--" or (runs and not is_value and not word.startswith("-")):
            return found + rest[place:]
        if is_value and found[-1].startswith("--") and word[:1] == "-" and word[1:2] in _NUMBER_STARTS:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _say(text: str, code: int) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        print(f"ttmem: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1
    return code


def _discard_output() -> None:
    """The reader has closed the pipe. Without this, Python would fail to write the rest of the buffer at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _internal(name: str, error: Exception) -> int:
    if os.environ.get("TTMEM_DEBUG") == "1":
        raise error
    complain(
        f"ttmem {name}: internal error: {type(error).__name__}: {error}; please report it with the output of "
        f"TTMEM_DEBUG=1 ttmem {name}"
    )
    return 1


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with a fixed width: to get the terminal's width, argparse imports more than all of `ttmem smi` does."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100, max_help_position=30)


def _meant(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, 1)
    return f"did you mean `ttmem {near[0]}`?" if near else f"there are {', '.join(COMMANDS)}"


def _help() -> str:
    lines = ["usage: ttmem COMMAND [options]", "", "Where every byte of a Tenstorrent accelerator's memory goes.", ""]
    lines += [f"  {name:10} {text}" for name, text in COMMANDS.items()]
    lines += ["", "`ttmem COMMAND --help` describes a command."]
    return "\n".join(lines)
