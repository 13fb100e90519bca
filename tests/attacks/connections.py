# SPDX-License-Identifier: Apache-2.0
"""Opens a number of connections and keeps them; with a text, it sends the text on each."""

from __future__ import annotations

import resource
import sys

from tests.attacks.client import connect, hold


def main(path: str, count: int, text: str = "") -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 64:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 64), hard))
    socks = [connect(path) for _ in range(count)]
    for sock in socks:
        if text:
            sock.sendall(text.encode().decode("unicode_escape").encode("latin-1"))
    hold()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
