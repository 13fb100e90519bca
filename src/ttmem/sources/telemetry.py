# SPDX-License-Identifier: Apache-2.0
"""Telemetry of every chip on PCIe from the driver's files: temperature, power, clocks, link, firmware.

The files are kept open, so that reading one again costs a few microseconds. The state of a broken chip follows from how
its files fail: ENODATA during a reset, ENODEV if the chip is gone, all ones if it no longer answers on the bus, and a
read that sleeps as long as a reset takes.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from ttmem.sources import sysfs
from ttmem.sources.polling import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from ttmem.model.machine_rows import ChipFacts, ChipFiles, DriverChip, TelemetryLook
    from ttmem.model.schema import PcieLink

    Values = dict[str, Any]  # by the names of FIELDS; None is not known

    class Reading(TypedDict):
        """The result of reading a chip's files once."""

        state: str
        facts: ChipFacts
        pcie: PcieLink
        values: Values
        implausible: dict[str, str]


FORGET_SECONDS = 600.0  # after this time, a chip that is gone is no longer shown
STILL_SECONDS = 1.5  # after this time without a heartbeat, the firmware counts as stopped

# name: (file, raw units in one of ours, lowest and highest accepted value, the limit that raises the highest).
# A limit is accepted within bounds that no card reaches. A value above the table but not far above the chip's own
# limit is accepted as well, because a chip that runs too hot must be visible.
FIELDS: dict[str, tuple[str, int, float, float, str | None]] = {
    "temperature_c": ("temp1_input", 1000, -50, 100, "temperature_max_c"),
    "temperature_max_c": ("temp1_max", 1000, 1, 125, None),
    "power_w": ("power1_input", 1000000, 1, 300, "power_max_w"),
    "power_max_w": ("power1_max", 1000000, 1, 1000, None),
    "current_a": ("curr1_input", 1000, 1, 350, "current_max_a"),
    "current_max_a": ("curr1_max", 1000, 1, 1000, None),
    "voltage_mv": ("in0_input", 1, 1, 900, "voltage_max_mv"),
    "voltage_max_mv": ("in0_max", 1, 1, 1500, None),
    "aiclk_mhz": ("tt_aiclk", 1, 1, 1500, None),
    "axiclk_mhz": ("tt_axiclk", 1, 1, 1500, None),
    "arcclk_mhz": ("tt_arcclk", 1, 1, 1500, None),
    "fan_rpm": ("fan1_input", 1, 0, 19999, None),
    "heartbeat": ("tt_heartbeat", 1, 0, (1 << 32) - 2, None),
    "therm_trips": ("tt_therm_trip_count", 1, 0, 65534, None),
}
_OVER_LIMIT = 1.25
# 32 ones as the driver shows them: unchanged, scaled, scaled in 32 bits, cut to 16 bits, and as a 16.16 temperature.
_ONES = (1 << 32) - 1
_ALL_ONES = {_ONES, _ONES * 1000, _ONES * 1000000, _ONES - 999, _ONES - 999999, 65535, 65535999}
_NOTHING: Values = dict.fromkeys(FIELDS)
_GONE = {errno.ENODEV, errno.ESTALE}

_QUOTED_CHARACTERS = 40
_FEW_DESCRIPTORS = 40  # together with a few others, these fit into the initial table


class Telemetry:
    """Reads all chips repeatedly.

    >>> Telemetry(root="/nonexistent").look()["state"]
    'absent'
    """

    def __init__(self, root: str = "/", patience: float = 0.5, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._rounds = Rounds(patience)
        self._chips: dict[int, _Chip] = {}

    def look(self) -> TelemetryLook:
        """The current state of the driver and its chips; never raises. Call it from one thread at a time."""
        module = os.path.join(self._root, "sys/module/tenstorrent")
        version = sysfs.read(os.path.join(module, "version"))
        folders = sysfs.folders(self._root)
        self._meet(folders or {})
        readers = [chip.reader for chip in self._chips.values() if chip.reader is not None]
        outcomes = self._rounds.run({reader: reader.read for reader in readers})
        now = self._clock()
        for number, chip in self._chips.items():
            outcome = outcomes.get(chip.reader)
            if outcome is None:
                chip.fail("gone")
            elif outcome.value is None:
                chip.fail("hangs")
                chip.identify((folders or {})[number])
            else:
                chip.take(outcome.value, now - outcome.age)
        why = None
        if folders is None:
            why = "the Tenstorrent driver is not loaded: there is no /sys/class/tenstorrent; try `modprobe tenstorrent`"
        elif not folders:
            why = "the driver is loaded, but lists no chip"
        return {
            "driver": {"version": version and version[:_QUOTED_CHARACTERS], "loaded": os.path.isdir(module)},
            "state": "absent" if folders is None else "ok",
            "why": why,
            "chips": [self._chips[number].show(now) for number in sorted(self._chips)],
        }

    def close(self) -> None:
        """Close all files. A later ``look`` opens them again."""
        for chip in self._chips.values():
            chip.leave()

    def _meet(self, folders: dict[int, str]) -> None:
        """Add new chips, and forget those that have been gone for long."""
        now = self._clock()
        if len(folders) > len(self._chips):
            _make_room(len(folders) * (len(FIELDS) + 2))
        for number, folder in folders.items():
            chip = self._chips.setdefault(number, _Chip(number))
            chip.seen = now
            if chip.reader is None:
                chip.reader = _Reader(self._root, folder)
        for number, chip in list(self._chips.items()):
            if number not in folders:
                chip.leave()
                if now - chip.seen > FORGET_SECONDS:
                    del self._chips[number]


class _Chip:
    """The state of a chip; written by ``look`` only, never by a read that may hang."""

    def __init__(self, number: int) -> None:
        self.reader: _Reader | None = None
        self.seen = 0.0
        self._number = number
        self._facts: ChipFacts = {
            "pci": None,
            "arch": None,
            "board": None,
            "serial": None,
            "asic_id": None,
            "firmware": {},
        }
        self._pcie: PcieLink = {
            "speed_gts": None, "width": None, "max_speed_gts": None, "max_width": None, "numa": None
        }  # fmt: skip
        self._values: Values = _NOTHING
        self._when: float | None = None
        self._state = "ok"
        self._implausible: dict[str, str] = {}
        self._alive: bool | None = None
        self._beat: tuple[int, float] | None = None  # the heartbeat, and when it was first read with that value

    def leave(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def fail(self, state: str) -> None:
        """The read failed; earlier values are kept, and their age grows."""
        self._state = state
        self._implausible = {}
        self._alive = self._beat = None

    def identify(self, folder: str) -> None:
        """Identify the chip from data that the kernel has cached. So a chip that never answered has an address too."""
        if self._facts["pci"] is None:
            self._facts = {**self._facts, "pci": sysfs.pci_address(folder), "arch": sysfs.arch(folder)}

    def take(self, reading: Reading, when: float) -> None:
        state = reading["state"]
        if state != "gone":
            if _is_another(self._facts, reading["facts"]):
                self._values, self._when = _NOTHING, None  # values of another chip, which had this number before
                self._alive = self._beat = None
            self._facts, self._pcie = reading["facts"], reading["pcie"]
        if state not in ("ok", "off the bus"):
            self.fail(state)
            return
        self._state = state
        self._implausible = reading["implausible"]
        self._values = reading["values"]
        self._when = when if state == "ok" else None
        self._feel(self._values["heartbeat"], when)

    def _feel(self, heartbeat: int | None, when: float) -> None:
        if heartbeat is None:
            self._alive = self._beat = None
        elif self._beat is None or self._beat[0] != heartbeat:
            self._alive = None if self._beat is None else True
            self._beat = heartbeat, when
        elif when - self._beat[1] >= STILL_SECONDS:
            self._alive = False

    def show(self, now: float) -> DriverChip:
        telemetry: Any = {
            **self._values,
            "alive": self._alive,
            "state": self._state,
            "age_s": None if self._when is None else max(0.0, now - self._when),
            "implausible": self._implausible,
        }
        facts = self._facts
        return {
            "kmd": self._number,
            "pci": facts["pci"],
            "arch": facts["arch"],
            "board": facts["board"],
            "serial": facts["serial"],
            "asic_id": facts["asic_id"],
            "firmware": facts["firmware"],
            "pcie": self._pcie,
            "telemetry": telemetry,
        }


def _is_another(old: ChipFacts, new: ChipFacts) -> bool:
    """Whether this is another chip with the same number."""
    return (
        _differ(old["pci"], new["pci"])
        or _differ(old["asic_id"], new["asic_id"])
        or _differ(old["serial"], new["serial"])
    )


def _differ(old: str | None, new: str | None) -> bool:
    return None not in (old, new) and old != new


class _Reader:
    """Reads the files of one chip. ``read`` may hang, so everything that it uses belongs to this object alone."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder
        self._open: dict[str, int] = {}
        self._identity: tuple[int, int] | None = None
        self._hwmon: str | None = None
        self._facts: ChipFiles | None = None
        self._changed = False
        self._busy = _thread.allocate_lock()
        self._left = False

    def close(self) -> None:
        """Close all files: at once or, if a read hangs, when it returns."""
        self._left = True
        if self._busy.acquire(blocking=False):
            self._forget()
            self._busy.release()

    def read(self) -> Reading:
        with self._busy:
            reading = self._read()
        if self._left:
            self.close()
        return reading

    def _read(self) -> Reading:
        try:
            found = os.stat(self._folder)
        except OSError:
            return self._reading("gone", {}, {})
        if self._identity != (found.st_dev, found.st_ino):  # another device with the same number
            self._forget()
            self._facts = None
            self._identity = found.st_dev, found.st_ino
        texts, errors = self._texts()
        if errors & _GONE:  # the driver removed the files; there may be new ones
            self._forget()
            texts, errors = self._texts()
        if not texts:
            state = "gone" if errors & _GONE else "in reset" if errno.ENODATA in errors else "no files"
            return self._reading(state, {}, {})
        numbers = [number for text in texts.values() if (number := sysfs.number(text)) is not None]
        if sum(number in _ALL_ONES for number in numbers) * 2 > len(numbers):
            return self._reading("off the bus", {}, texts)
        return self._reading("ok", *judge(texts))

    def _texts(self) -> tuple[dict[str, str], set[int]]:
        """The contents of the readable files, and the errors of the others."""
        if self._hwmon is None:
            self._hwmon = self._find_hwmon()
        texts, errors = {}, set()
        for name, (file, *_) in FIELDS.items():
            folder = self._folder if file.startswith("tt_") else self._hwmon
            if folder is not None:
                try:
                    texts[name] = self._text(f"{folder}/{file}")
                except OSError as error:
                    errors.add(error.errno or 0)
        return texts, errors

    def _text(self, path: str) -> str:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return sysfs.text_of(sysfs.read_at(descriptor))

    def _text_if_any(self, file: str) -> str | None:
        try:
            return self._text(f"{self._folder}/{file}")
        except OSError:
            return None

    def _find_hwmon(self) -> str | None:
        inside = f"{self._folder}/device/hwmon"
        for name in _names(inside):
            return f"{inside}/{name}"
        pci = sysfs.pci_address(self._folder)
        everybody = os.path.join(self._root, "sys/class/hwmon")
        for name in _names(everybody):
            if pci is not None and sysfs.pci_address(f"{everybody}/{name}") == pci:
                return f"{everybody}/{name}"
        return None

    def _reading(self, state: str, values: Values, implausible: dict[str, str]) -> Reading:
        # Serial number and firmware are read once, and again after a reset, because they may have changed.
        if self._facts is None or (self._changed and state == "ok"):
            self._facts = sysfs.facts(self._folder)
        self._changed = state != "ok"
        found = self._facts
        return {
            "state": state,
            "facts": {
                "pci": found["pci"],
                "arch": found["arch"],
                "board": found["board"],
                "serial": found["serial"],
                "asic_id": found["asic_id"],
                "firmware": found["firmware"],
            },
            "pcie": {
                "speed_gts": sysfs.link_speed(self._text_if_any("device/current_link_speed")),
                "width": sysfs.link_width(self._text_if_any("device/current_link_width")),
                **found["pcie"],
            },
            "values": {name: values.get(name) for name in FIELDS},
            "implausible": {name: text[:_QUOTED_CHARACTERS] for name, text in implausible.items()},
        }

    def _forget(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._hwmon = None
        self._changed = True


def _make_room(count: int) -> None:
    """Make room for this many descriptors.

    A process with one thread gets a larger table at once. With threads, the kernel first waits until none can be using
    the old table, 10 ms or more each time.
    """
    if count > _FEW_DESCRIPTORS:
        import fcntl

        try:
            own = os.open("/", os.O_PATH | os.O_CLOEXEC)
            try:
                os.close(fcntl.fcntl(own, fcntl.F_DUPFD_CLOEXEC, count + _FEW_DESCRIPTORS))
            finally:
                os.close(own)
        except OSError:
            pass  # the limit is lower; opening one too many will fail with an error


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith("hwmon"))
    except OSError:
        return []


def judge(texts: dict[str, str]) -> tuple[Values, dict[str, str]]:
    """The accepted values, and the raw texts of the rejected ones."""
    values: Values = {}
    implausible = {}
    for name, (_, unit, low, high, limit) in reversed(FIELDS.items()):  # a limit before the value that it limits
        text = texts.get(name)
        if text is None:
            continue
        if limit in values:
            high = max(high, values[limit] * _OVER_LIMIT)
        number = sysfs.number(text)
        # 65535 is 16 bits of ones; only a counter can pass this value.
        if number is None or not low * unit <= number <= high * unit or (number == 65535 and name != "heartbeat"):
            implausible[name] = text
        else:
            values[name] = number / unit if unit > 1 else number
    return values, implausible
