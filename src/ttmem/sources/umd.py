# SPDX-License-Identifier: Apache-2.0
"""Telemetry through tt-umd, on request: readings that the driver's files lack, and remote chips.

This is the only source that opens devices, so it is used only on request. Opening a chip raises its power state and
lists us among its holders; jobs have become slower or hung because of it. A chip that a process holds is not read.
While any chip is held, remote chips are not read either, because reading them shares a lock with the job.

The library is loaded in a child process with a deadline (``umd_reader.py``).
"""

from __future__ import annotations

import json
import os
import sys
import time

from ttmem.model.printable import printable
from ttmem.sources.telemetry import FIELDS, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ttmem.model.machine_rows import DriverChip, HolderRow, MachineLook, UmdChip, UmdLook
    from ttmem.model.schema import PcieLink, SourceState, Telemetry

WARNING = (
    "tt-umd opens the chips: that raises their power state and lists ttmem among their holders for the moment, and "
    "jobs that ran meanwhile have become slower or hung"
)
_INSTALL = "tt-umd is not installed; `pip install 'ttmem[umd]'` installs it"
_READER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "umd_reader.py")

# Values that the driver's files lack, each with the driver's value whose limits apply to it.
_KIN = {
    "temperature_shutdown_c": "temperature_max_c",
    "board_temperature_c": "temperature_c",
    "dram_temperature_c": "temperature_c",
    "board_power_w": "power_max_w",
    "board_power_max_w": "power_max_w",
    "aiclk_max_mhz": "aiclk_mhz",
}
_OWN_LIMITS = {"fan_percent": (0, 100), "dram_speed": (1000, 65534)}  # the speed in million transfers per second
_DRAM = ("trained", "failed", "incomplete")
_JUDGED_BY = {**{name: name for name in FIELDS}, **_KIN}
_NAMES = (*_JUDGED_BY, *_OWN_LIMITS, "dram_status")
_NO_LINK: PcieLink = {"speed_gts": None, "width": None, "max_speed_gts": None, "max_width": None, "numa": None}
_WELL = ("ok", "no files")  # for a chip in reset, tt-umd would wait for minutes
_MAX_ANSWER_BYTES = 1 << 20
_QUOTED_CHARACTERS = 200


def read(
    chips: list[DriverChip],
    processes: list[HolderRow],
    *,
    foreign: dict[int, int] | None = None,
    sure: bool = True,
    anyway: bool = False,
    timeout: float = 10.0,
) -> UmdLook:
    """Telemetry of the chips that no process holds, or with ``anyway`` of all; never raises.

    ``foreign`` has the number of holders outside our pid namespace for each chip. Unless ``sure`` is set, the list of
    processes is incomplete, and any chip may be held.
    """
    held = {kmd for process in processes for kmd in process["holds"]}
    held |= {int(kmd) for kmd, count in (foreign or {}).items() if count}
    if not anyway and chips and not sure:
        return _answer(
            "refused", "not all processes can be seen, so any chip may be held, and none was opened; try as root"
        )
    well = [chip for chip in chips if chip["pci"] and chip["telemetry"]["state"] in _WELL]
    wanted = [chip for chip in well if anyway or chip["kmd"] not in held]
    if well and not wanted:
        return _answer("refused", "every chip is held by a process, so none was opened")
    local = [chip["pci"] for chip in wanted]
    # Only an n300 has a remote chip.
    behind = [chip["pci"] for chip in wanted if chip["arch"] == "wormhole_b0" and chip["board"] in ("n300", None)]
    notes = []
    if len(well) > len(wanted):
        notes.append(f"not read, because a process holds them: {len(well) - len(wanted)} of {len(chips)} chips")
    if len(chips) > len(well):
        notes.append(
            f"not read, because the driver reports problems with them: {len(chips) - len(well)} of {len(chips)} chips"
        )
    if behind and held and not anyway:
        notes.append("not read, because a process holds another chip: remote chips")
        behind = []
    if not chips:
        notes.append("the driver shows no chip to read")
    try:
        lines, ending = _run({"local": local, "behind": behind}, timeout)
    except OSError as error:
        return _answer("failed", f"the reader could not be started: {error.strerror}")
    return _conclude(lines, ending, notes, {chip["pci"]: chip["kmd"] for chip in chips})


def _answer(state: str, why: str | None, chips: list[UmdChip] | None = None) -> UmdLook:
    return {"state": state, "why": why, "warning": WARNING, "chips": chips or []}


def _run(task: Mapping[str, object], timeout: float) -> tuple[list[bytes], str | None]:
    """The output of the child, and how it ended if it failed."""
    import select
    import subprocess
    import tempfile

    deadline = time.monotonic() + timeout
    ours, theirs = os.pipe()
    said = b""
    with tempfile.TemporaryFile() as noise, open(ours, "rb", buffering=0):
        try:
            task = {**task, "answer": theirs, "seconds": timeout + 1}
            # By its path: -m would put the current folder first in the module search path.
            command = [sys.executable, _READER, json.dumps(task)]
            environment = {**os.environ, "TT_LOGGER_LEVEL": "error"}
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=noise, stderr=noise, pass_fds=[theirs], env=environment
            )
        finally:
            os.close(theirs)
        ending = None
        try:
            poll = select.poll()
            poll.register(ours, select.POLLIN)
            while ending is None:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    ending = f"did not answer within {timeout:g} s and was ended"
                    break
                piece = os.read(ours, 1 << 16)
                said += piece
                if not piece:
                    break
                if len(said) > _MAX_ANSWER_BYTES:
                    ending = "did not stop answering and was ended"
            if ending is None:
                ending = _how(child.wait(max(0.1, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            ending = f"answered, but did not end within {timeout:g} s"
        finally:
            child.kill()
            try:
                child.wait(1)
            except subprocess.TimeoutExpired:  # it sleeps in the kernel, and the signal takes effect later
                ending = "hangs in the driver, and cannot be ended until the driver returns"
        if ending is not None:
            noise.seek(max(0, noise.seek(0, os.SEEK_END) - 4096))
            words = [line.strip() for line in _printable(noise.read().decode("utf-8", "replace")) if line.strip()]
            ending += f"; its last output: {words[-1][:_QUOTED_CHARACTERS]}" if words else ""
    return said.splitlines(), ending


def _how(code: int) -> str | None:
    if code < 0:
        import signal

        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}" if code else None


def _printable(text: str) -> list[str]:
    return [printable(line) for line in text.splitlines()]


def _conclude(lines: list[bytes], ending: str | None, notes: list[str], kmds: dict[str | None, int | None]) -> UmdLook:
    chips: list[UmdChip] = []
    troubles: list[str] = []
    ended = False
    for line in lines:
        try:
            said = json.loads(line)
            if said.get("absent"):
                return _answer("absent", _INSTALL)
            ended = ended or "end" in said
            if "error" in said:
                troubles += _printable(str(said["error"])[:_QUOTED_CHARACTERS])[:1]
            elif "chip" in said:
                _take(said["chip"], kmds, chips, troubles)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            troubles.append("the reader printed invalid output")
    if ending is not None:
        troubles.insert(0, f"the reader {ending}")
    elif not ended and not troubles:
        troubles.append("the reader ended early without a message")
    good = ending is None and ended and (chips or not troubles)
    why = "; ".join(troubles + notes)
    return _answer("ok" if good else "failed", why or None, chips)


def _take(row: dict[str, Any], kmds: dict[str | None, int | None], chips: list[UmdChip], troubles: list[str]) -> None:
    """Add a chip that was read to the chips, or its error to the troubles."""
    pci = row.get("pci")
    if row.get("error"):
        name = pci if pci in kmds else f"remote chip {row.get('chip')}"
        troubles.extend(_printable(f"{name}: {row['error']}"[:_QUOTED_CHARACTERS])[:1])
        return
    identity = row["unique_id"]
    chips.append(
        {
            "kmd": kmds.get(pci),
            "pci": pci if pci in kmds else None,
            "unique_id": str(identity) if isinstance(identity, int) and 0 < identity < 1 << 64 else None,
            "remote": bool(row["remote"]),
            "chip": row.get("chip"),
            "arch": row["arch"] if row["arch"] in ("wormhole_b0", "blackhole") else None,
            "board": row["board"] if row["board"].isprintable() and row["board"] != "unknown" else None,
            "serial": f"{row['serial']:016X}" if row["serial"] else None,
            "firmware": {"bundle": "{:d}.{:d}.{:d}".format(*row["bundle"])} if any(row["bundle"]) else {},
            "telemetry": telemetry(row["values"]),
        }
    )


def telemetry(raw: dict[str, Any]) -> Telemetry:
    """The values with the names of the driver's telemetry, checked against the same limits."""
    values: Any = dict.fromkeys(_NAMES)
    implausible: dict[str, str] = {}
    numbers = {name: value for name, value in raw.items() if name in _NAMES and _is_number(value)}
    texts = {
        name: f"{round(value * FIELDS[_JUDGED_BY[name]][1])}" for name, value in numbers.items() if name in _JUDGED_BY
    }
    believed, _ = judge({name: text for name, text in texts.items() if name in FIELDS})
    for name, kin in _KIN.items():
        if name in texts:
            kept, _ = judge({kin: texts[name]})
            if kin in kept:
                believed[name] = kept[kin]
    for name, (low, high) in _OWN_LIMITS.items():
        if name in numbers and low <= numbers[name] <= high:
            believed[name] = numbers[name]
    values.update(believed)
    values["dram_status"] = raw.get("dram_status") if raw.get("dram_status") in _DRAM else None
    for name, value in raw.items():
        if name in _NAMES and value is not None and values[name] is None:
            implausible[name] = "".join(_printable(str(value)[:40])[:1])
    values.update(alive=None, state="ok", age_s=0.0, implausible=implausible)
    found: Telemetry = values
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 40  # nor NaN


def enrich(machine: MachineLook, umd: UmdLook) -> MachineLook:
    """The machine with the data of tt-umd: values that the driver's files lack, and remote chips."""
    by_pci = {chip["pci"]: chip for chip in umd["chips"] if chip["pci"] is not None}
    chips = [_fill(chip, by_pci[chip["pci"]]) if chip["pci"] in by_pci else chip for chip in machine["chips"]]
    chips += [_remote_chip(chip) for chip in umd["chips"] if chip["remote"] and chip["unique_id"] is not None]
    source: SourceState = {"name": "umd", "state": umd["state"], "detail": umd["why"]}
    return {**machine, "chips": chips, "sources": [*machine["sources"], source]}


def _remote_chip(chip: UmdChip) -> DriverChip:
    """A remote chip, which the driver does not list."""
    return {
        "kmd": None,
        "pci": chip["pci"],
        "arch": chip["arch"],
        "board": chip["board"],
        "serial": chip["serial"],
        "asic_id": None,
        "firmware": chip["firmware"],
        "pcie": _NO_LINK,
        "telemetry": chip["telemetry"],
        "unique_id": chip["unique_id"],
        "remote": chip["remote"],
    }


def _fill(chip: DriverChip, more: UmdChip) -> DriverChip:
    before = chip["telemetry"]
    if before["state"] not in _WELL:  # a broken chip: the values shown are old, with their age
        return {**chip, "unique_id": more["unique_id"]}
    values: Mapping[str, object] = more["telemetry"]
    found = {name: values[name] for name in _NAMES if before.get(name) is None}
    after: Any = {**before, **found}
    after["implausible"] = {
        name: text
        for name, text in {**more["telemetry"]["implausible"], **before["implausible"]}.items()
        if after.get(name) is None
    }
    if before["state"] == "no files":
        after.update(state="ok", age_s=0.0)
    return {**chip, "unique_id": more["unique_id"], "telemetry": after}
