# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, each defined once, so that they have the same meaning everywhere."""

from __future__ import annotations

import argparse
import os
import time

from ttmem.cli import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_ROWS = 10_000  # maximum of one answer of the server
LOOPBACK = "127.0.0.1"
_WEB_PORT = 8899
_DEFAULT_DEPTH = 24
_MAX_DEPTH = 64  # limit of the agent


def add_socket(
    parser: argparse._ActionsContainer, help: str = "socket of the server (default: the first found)"
) -> None:
    """For commands that query a server or report to one."""
    parser.add_argument("--socket", metavar="PATH", type=_path, help=help)


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a file, or leave the option out")
    return text


def size(text: str) -> int:
    """The type of an option that is a size such as 64K."""
    from ttmem.model.units import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def api_socket(args: argparse.Namespace) -> str | None:
    """The API socket of the server of --socket, which may name either of its sockets; None without the option."""
    if args.socket is None:
        return None
    from ttmem.wire.endpoint import api_path  # only now: `ttmem smi` starts with few imports

    path = str(args.socket)
    return path if path.endswith(".api.sock") else api_path(path)


def add_address(parser: argparse.ArgumentParser) -> None:
    """For commands that serve a page."""
    parser.add_argument(
        "--port", metavar="N", type=_port,
        help=f"TCP port of the page, 0 for any free one (default: {_WEB_PORT})",
    )  # fmt: skip
    parser.add_argument(
        "--host", metavar="ADDRESS",
        help=f"address to listen on (default: {LOOPBACK}, which only this machine can reach)",
    )  # fmt: skip
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def address_of(args: argparse.Namespace) -> tuple[str, int]:
    """Host and port to listen on."""
    return LOOPBACK if args.host is None else args.host, _WEB_PORT if args.port is None else args.port


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def add_chips(parser: argparse.ArgumentParser, help: str) -> None:
    """For commands that show several chips. Names are collected in ``chips``."""
    parser.add_argument(
        "-d", "--chip", type=_names, metavar="CHIP", dest="chips", action="append", default=[],
        help=f"{help}, by number, PCI address or id; several with commas, or -d again",
    )  # fmt: skip


def add_chip(parser: argparse.ArgumentParser, help: str) -> None:
    """For commands that show one chip."""
    parser.add_argument("-d", "--chip", metavar="CHIP", help=f"{help}, by number, PCI address or id")


def add_pids(parser: argparse.ArgumentParser, help: str) -> None:
    """Process ids are collected in ``pids``."""
    parser.add_argument(
        "--pid", type=_pids, metavar="PID", dest="pids", action="append", default=[],
        help=f"{help}; several with commas, or --pid again",
    )  # fmt: skip


def add_kinds(parser: argparse.ArgumentParser, help: str) -> None:
    """Kinds of memory are collected in ``kinds``."""
    from ttmem.model.kinds import KINDS  # only now: `ttmem smi` starts with few imports

    parser.add_argument(
        "--kind", type=_kinds, metavar="KIND", dest="kinds", action="append", default=[],
        help=f"{help}: {', '.join(kind.label for kind in KINDS)}; several with commas, or --kind again",
    )  # fmt: skip


def add_top(parser: argparse.ArgumentParser, help: str) -> None:
    """How many rows to show."""
    parser.add_argument("--top", type=_count, metavar="N", help=f"{help}; at most {MAX_ROWS:,}")


def flat(groups: list[list[str]]) -> list[str]:
    """The collected values of an option that takes lists with commas and may be repeated."""
    return [name for names in groups for name in names]


def add_style(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ascii", action="store_true", help="print ASCII only (the default if the locale is not UTF-8)"
    )
    parser.add_argument(
        "--no-color", action="store_true", help="print no colours (the default in a pipe, and with NO_COLOR)"
    )


class _Utc(argparse.Action):
    """Sets the time zone of this process as soon as the option is parsed."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        os.environ["TZ"] = "UTC"
        time.tzset()
        setattr(namespace, self.dest, True)


def add_utc(parser: argparse.ArgumentParser) -> None:
    """For commands that print times. Times in JSON are always UTC."""
    parser.add_argument("--utc", action=_Utc, nargs=0, default=False, help="print times in UTC (default: local time)")


def add_stacks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stacks", action="store_true", help="record the Python stack and tensor shape of each buffer")
    parser.add_argument(
        "--depth", type=_depth, metavar="N",
        help=f"maximum number of frames per stack, 1 to {_MAX_DEPTH} (default: {_DEFAULT_DEPTH})",
    )  # fmt: skip


def stack_frames(args: argparse.Namespace) -> int | None:
    """Number of frames to record for each buffer; None without stacks."""
    if not args.stacks:
        if args.depth is not None:
            raise UsageError("--depth needs --stacks; without it, no stacks are recorded")
        return None
    return _DEFAULT_DEPTH if args.depth is None else int(args.depth)


def _depth(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_DEPTH:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of frames from 1 to {_MAX_DEPTH}")
    return int(text)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} names no chip; without -d all are shown")
    return names


def _kinds(text: str) -> list[str]:
    from ttmem.model.kinds import KIND_BY_LABEL

    kinds = [kind.strip().lower() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KIND_BY_LABEL:
            raise argparse.ArgumentTypeError(f"{kind!r} is not a kind of memory; there are {', '.join(KIND_BY_LABEL)}")
    return kinds


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_ROWS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_ROWS}")
    return int(text)


def _pids(text: str) -> list[str]:
    pids = [pid.strip() for pid in text.split(",")]
    if not all(pid.isdecimal() for pid in pids):
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id")
    return pids
