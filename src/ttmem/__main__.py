# SPDX-License-Identifier: Apache-2.0
"""The entry point: `ttmem` and `python -m ttmem`.

Until the command line is read, Ctrl-C ends the process without a word, as it ends any program that does not handle it;
Python would print a traceback of whatever was being imported.
"""

# Not `signal`: its enumerations take longer than reading the command line.
import _signal as signal  # type: ignore[import-not-found]
import sys

_INTERRUPT = signal.getsignal(signal.SIGINT)
if _INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start() -> int:
    from ttmem.cli import main

    signal.signal(signal.SIGINT, _INTERRUPT)
    return main()


if __name__ == "__main__":
    sys.exit(start())
