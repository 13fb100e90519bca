# SPDX-License-Identifier: Apache-2.0
"""The settings of the dashboard, kept in a small file that may be missing, broken or not writable."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ttmem.recording.output_files import write_atomically


def default_path(env: Mapping[str, str] = os.environ) -> str:
    """
    >>> default_path({"XDG_CONFIG_HOME": "/c"}), default_path({"HOME": "/users/ann"})
    ('/c/ttmem/top.json', '/users/ann/.config/ttmem/top.json')
    """
    base = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "ttmem", "top.json")


class Settings:
    """Names and plain values. A problem with the file is reported once and changes nothing else."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        self.trouble: str | None = None
        self._writable = True
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if not isinstance(found, dict):
                raise ValueError("no object")
            self._values = found
        except FileNotFoundError:
            pass
        except OSError as error:
            self.trouble = f"{path}: {error.strerror}; going on without what was chosen last time"
        except ValueError:
            self.trouble = f"{path} is broken; going on without what was chosen last time"

    def get(self, name: str, default: Any) -> Any:
        """A value of the same type as the default, else the default.

        >>> settings = Settings("/nonexistent/top.json")
        >>> settings.get("theme", "dark")
        'dark'
        """
        value = self._values.get(name, default)
        return value if type(value) is type(default) else default

    def put(self, values: dict[str, Any]) -> None:
        """Store values; the file is written at once, completely or not at all."""
        if all(name in self._values and self._values[name] == value for name, value in values.items()):
            return
        self._values.update(values)
        if not self._writable:
            return
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            write_atomically(self._path, json.dumps(self._values, indent=1, sort_keys=True))
        except OSError as error:
            self._writable = False
            self.trouble = f"{self._path}: {error.strerror}; what you choose is not remembered"
