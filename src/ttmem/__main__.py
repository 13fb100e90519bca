# SPDX-License-Identifier: Apache-2.0
"""The entry point: `ttmem` and `python -m ttmem`.

Ctrl-C ends the process without a word, whatever was being imported: Python would print a traceback.
"""

# Not `signal`: its enumerations take longer than reading the command line.
import _signal as signal  # type: ignore[import-not-found]
import sys

_INTERRUPT = signal.getsignal(signal.SIGINT)
if _INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start() -> int:
    from ttmem.cli import main

    try:
        signal.signal(signal.SIGINT, _INTERRUPT)
        return main()
    except KeyboardInterrupt:  # before the command itself ran; `main` handles the rest
        return 130


if __name__ == "__main__":
    sys.exit(start())
