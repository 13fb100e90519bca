# SPDX-License-Identifier: Apache-2.0
"""Text forms that more than one screen uses. Few imports: every start of `ttmem smi` loads this module."""

from __future__ import annotations

import re
import time
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttmem.model.schema import ChipRow, Snapshot, SourceState

_FRAME = re.compile(r"(.*)(:\d+ .*)", re.DOTALL)  # a path may have spaces
_KEPT_LINES = 65_536
_SOURCE_NAMES = {"sysfs": "driver files", "shm": "tt-metal's counters", "umd": "tt-umd"}
_ANOMALIES = {
    "unknown_free": "frees of unknown allocations",
    "double_free": "double frees",
    "ambiguous": "ambiguous frees",
    "misrouted": "frees sent to the wrong device",
    "replaced": "replaced allocations",
    "rejected": "invalid records",
    "dropped": "dropped events",
    "after_exit": "events after the exit",
    "resynced": "resyncs",
}
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?Z", re.ASCII)
_DAYS_TO_1970 = 719_468  # from 1 March of the year 0
_DAY_SECONDS = 86_400


def anomaly_line(counts: Mapping[str, object]) -> str:
    """The anomalies that occurred, in one line.

    >>> anomaly_line({"double_free": 2, "dropped": 0, "after_exit": 1})
    'Anomalies: double frees 2, events after the exit 1'
    """
    found = [f"{_ANOMALIES.get(name, name)} {count}" for name, count in counts.items() if count]
    return "Anomalies: " + (", ".join(found) if found else "none")


@lru_cache(maxsize=_KEPT_LINES)  # few lines, many allocations
def short_line(line: str | None) -> str | None:
    """A line of Python without most of its path.

    >>> short_line("src/models/llama/model.py:42 forward")
    'llama/model.py:42 forward'
    """
    if line is None:
        return None
    frame = _FRAME.fullmatch(line)
    return line if frame is None else "/".join(frame[1].split("/")[-2:]) + frame[2]


def chip_title(chip_id: str, number: int | None, board: str | None) -> str:
    """What a chip is called in text: board and number, with its id beside them; without a number, by its id alone.

    >>> chip_title("17716556166399396846", 0, "n150"), chip_title("17716556166399396846", None, "n150")
    ('n150 chip 0 (id 17716556166399396846)', 'n150 chip 17716556166399396846')
    >>> chip_title("kmd:3", 3, None), chip_title("assumed:0", None, None)
    ('chip 3', 'chip assumed:0')
    """
    name = short_chip_title(chip_id, number, board)
    return name if number is None or chip_id == f"kmd:{number}" else f"{name} (id {chip_id})"


def short_chip_title(chip_id: str, number: int | None, board: str | None) -> str:
    """The same for tables that give the ids elsewhere.

    >>> short_chip_title("17716556166399396846", 0, "n150")
    'n150 chip 0'
    """
    return f"{f'{board} ' if board else ''}chip {chip_id if number is None else number}"


def chip_numbers(snapshot: Snapshot) -> dict[str, int]:
    """The numbers of chips, by id. A number that two chips would have is left out."""
    numbers = chip_number_claims(snapshot)
    seen: dict[object, int] = {}
    for pair in numbers:
        for name in pair:
            seen[name] = seen.get(name, 0) + 1
    return {chip_id: number for chip_id, number in numbers if seen[chip_id] == seen[number] == 1}


def chip_number_claims(snapshot: Snapshot) -> list[tuple[str, int]]:
    """All pairs of a chip id and a number that may identify the chip.

    The numbers are those of the driver. Without a driver, as in a recording or a container, they are the device numbers
    of the processes. Then two chips may have the same number, and one chip may have several.
    """
    chips = [chip for chip in snapshot["chips"] if chip["identity"] == "known"]
    numbers = [(chip["chip"], chip["kmd"]) for chip in chips if chip["kmd"] is not None]
    driver = snapshot.get("driver")
    if numbers or (driver is not None and driver["loaded"]):
        return numbers
    known = {chip["chip"] for chip in chips}
    shares = (share for process in snapshot["processes"] for share in process["chips"] if share["chip"] in known)
    return list(dict.fromkeys((share["chip"], number) for share in shares for number in share["metal_ids"]))


def source_state(source: SourceState) -> str:
    """A source of a snapshot and its state.

    >>> source_state({"name": "shm", "state": "absent", "detail": None})
    "tt-metal's counters absent"
    """
    return f"{_SOURCE_NAMES.get(source['name'], source['name'])} {source['state']}"


def by_number(chips: list[ChipRow], numbers: Mapping[str, int]) -> list[ChipRow]:
    """Chips in the order of their numbers, those without one after them."""
    return sorted(chips, key=lambda chip: (chip["chip"] not in numbers, numbers.get(chip["chip"], 0)))


def local_time(moment: float | str, digits: int = 0) -> str:
    """A time for people, in the zone of the process, which --utc sets. The time stamp of a document is a str.

    >>> local_time(0), local_time("2026-01-02T03:04:05.678901Z", 3)  # where the zone is UTC
    ('1970-01-01 00:00:00 UTC', '2026-01-02 03:04:05.678 UTC')
    """
    seconds, fraction = _parts(moment)
    if seconds is None:
        return str(moment)
    fields = time.localtime(seconds)
    text = time.strftime("%Y-%m-%d %H:%M:%S", fields)
    return text + (f".{fraction[:digits]}" if digits else "") + zone(fields)


def zone(fields: time.struct_time) -> str:
    """The offset of a local time from UTC, to follow that time.

    >>> zone(time.gmtime(0))
    ' UTC'
    """
    minutes = fields.tm_gmtoff // 60
    if not minutes:
        return " UTC"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _parts(moment: float | str) -> tuple[int | None, str]:
    """Whole seconds since 1970, and the digits of the fraction; no seconds if it is not a time stamp."""
    if not isinstance(moment, str):
        seconds, microseconds = divmod(round(moment * 1e6), 1_000_000)
        return seconds, f"{microseconds:06d}"
    found = _STAMP.fullmatch(moment)
    if found is None:
        return None, ""
    year, month, day, hours, minutes, seconds = map(int, found.groups()[:6])
    # The day of a date, in years that begin on 1 March. `datetime` does the same, but every start of smi would load it.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1 - _DAYS_TO_1970
    return days * _DAY_SECONDS + hours * 3600 + minutes * 60 + seconds, (found[7] or ".")[1:].ljust(6, "0")
