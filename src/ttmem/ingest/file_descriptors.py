# SPDX-License-Identifier: Apache-2.0
"""File descriptors: as many as may be had, and some of them kept for the API when clients have used up the rest."""

from __future__ import annotations

import os
import resource

_RESERVED_DESCRIPTORS = 640  # the API's connections, files of the machine that are read, and some to spare
_SLACK_DESCRIPTORS = 8  # so many more must be free before clients are accepted again


def raise_limit() -> None:
    """One descriptor for each client and some for each process: ask for all we may have."""
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
    """How many are kept from clients that send events."""
    return min(_RESERVED_DESCRIPTORS, limit() // 2)


def for_clients() -> int:
    return limit() - reserve()


def scarce(fd: int, *, slack: bool = False) -> bool:
    """Has only the reserve been left? ``fd`` is any open one; the kernel gives out the lowest number that is free."""
    try:
        probe = os.dup(fd)
    except OSError:
        return True
    os.close(probe)
    return probe >= for_clients() - (_SLACK_DESCRIPTORS if slack else 0)
