# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, each defined once, so that they mean the same everywhere."""

from __future__ import annotations

import argparse

MAX_ROWS = 10_000  # that a server gives out at once
_DEFAULT_DEPTH = 24
_MAX_DEPTH = 64  # what the agent has room for


def add_socket(parser: argparse._ActionsContainer) -> None:
    """For commands that ask a server."""
    parser.add_argument("--socket", metavar="PATH", help="the server's socket (default: the first that is found)")


def api_socket(args: argparse.Namespace) -> str | None:
    """The API's socket of the server that --socket names by either of its sockets; None if none is named."""
    if args.socket is None:
        return None
    from ttmem.wire.endpoint import api_path  # only now: `ttmem smi` starts with few imports

    path = str(args.socket)
    return path if path.endswith(".api.sock") else api_path(path)


def add_chips(parser: argparse.ArgumentParser, help: str) -> None:
    """For commands that show several chips. Names are collected in ``chips``."""
    parser.add_argument(
        "-d", "--chip", type=_names, metavar="CHIP", dest="chips", action="append", default=[],
        help=f"{help}: its number, PCI address or id; several with commas, or -d again",
    )  # fmt: skip


def add_chip(parser: argparse.ArgumentParser, help: str) -> None:
    """For commands that show one chip."""
    parser.add_argument("-d", "--chip", metavar="CHIP", help=f"{help}: its number, PCI address or id")


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
    """What an option that may be repeated, each time with commas, has collected."""
    return [name for names in groups for name in names]


def add_style(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ascii", action="store_true", help="print ASCII only (the default if the locale is not UTF-8)"
    )
    parser.add_argument("--no-color", action="store_true", help="no colours (the default in a pipe, and with NO_COLOR)")


def add_stacks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stacks", action="store_true", help="take the Python stack and tensor shape of each buffer")
    parser.add_argument(
        "--depth", type=_depth, default=_DEFAULT_DEPTH, metavar="N",
        help=f"frames of a stack, 1 to {_MAX_DEPTH} (default {_DEFAULT_DEPTH})",
    )  # fmt: skip


def stack_frames(args: argparse.Namespace) -> int | None:
    """Frames to take with each buffer; None is no stack at all."""
    return int(args.depth) if args.stacks else None


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
