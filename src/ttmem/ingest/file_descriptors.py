# SPDX-License-Identifier: Apache-2.0
"""Raises the limit of file descriptors, and reserves some for the API in case clients use all others."""

from __future__ import annotations

import os
import resource

_RESERVED_DESCRIPTORS = 640  # for connections of the API, for reading files of the machine, and some spare ones
_SLACK_DESCRIPTORS = 8  # this many more must be free before clients are accepted again


def raise_limit() -> None:
    """Raise the soft limit to the hard limit: each client needs one descriptor, and each process some more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            pass


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def reserve() -> int:
    """The number of descriptors that clients with events may not use."""
    return min(_RESERVED_DESCRIPTORS, limit() // 2)


def for_clients() -> int:
    return limit() - reserve()


def scarce(fd: int, *, slack: bool = False) -> bool:
    """True if only the reserve is left. ``fd`` is any open descriptor: a copy gets the lowest free number."""
    try:
        probe = os.dup(fd)
    except OSError:
        return True
    os.close(probe)
    return probe >= for_clients() - (_SLACK_DESCRIPTORS if slack else 0)
