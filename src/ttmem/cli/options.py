# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, each defined once, so that they mean the same everywhere."""

from __future__ import annotations

import argparse

_DEFAULT_DEPTH = 24
_MAX_DEPTH = 64  # what the agent has room for


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
