# SPDX-License-Identifier: Apache-2.0
"""A snapshot as text: chips, breakdown, processes, anomalies. Bytes become words only here."""

from __future__ import annotations

from ttmem.account.units import human, percent
from ttmem.api.words import anomaly_line

TYPE_CHECKING = False  # `typing` itself would cost a tenth of the time this screen takes
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_WIDTH = 108
_BAR = 20
_RESET = "\x1b[0m"
_EXITED_SHOWN = 5


def render(picture: Json, colour: bool = False) -> str:
    """The whole screen."""
    lines = [_header(picture), "═" * _WIDTH]
    lines += _chip_table(picture["chips"], colour)
    for chips, breakdown in _alike(picture["chips"]):
        lines += ["", chips, *breakdown]
    lines += ["", *_processes(picture["processes"], picture["chips"])]
    lines += ["", anomaly_line(picture["anomalies"]), *_hints(picture)]
    return "\n".join(line.rstrip() for line in lines)


def _header(picture: Json) -> str:
    server = picture["server"]
    if server is None:
        names = ", ".join(f"{source['name']} {source['state']}" for source in picture["sources"]) or "no source"
        return f"ttmem  {picture['host']}  {picture['time']}  {names}"
    return (
        f"ttmem {server['version']}  {picture['host']}  {picture['time']}  "
        f"server pid {server['pid']}, {server['events']:,} events"
    )


def _chip_table(chips: list[Json], colour: bool) -> list[str]:
    if not chips:
        return ["No chip is known yet: none in sysfs, and no process has reported one."]
    lines = [f"{'CHIP':<20} {'BOARD':<12} {'DRAM':>10} / {'SIZE':<9} {'':<{_BAR + 5}} {'L1':>10} / {'SIZE':<9}"]
    for chip in chips:
        dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
        board = (chip["board"] or chip["arch"] or "-")[:12]
        lines.append(
            f"{chip['uid']:<20} {board:<12} {_of(_level(dram), dram)} {_bar(_level(dram), dram['capacity'], colour)}"
            f"{_of(l1['at_once'], l1)} {percent(l1['at_once'], l1['capacity']):>4}"
        )
    return lines


def _level(pool: Json) -> int | None:
    """What a bar shows: what the allocator took where that is known, else what was asked for."""
    level: int | None = pool["reserved"] if pool["reserved"] is not None else pool["used"]
    return level


def _of(level: int | None, pool: Json) -> str:
    return f"{human(level):>10} / {human(pool['capacity']):<9}"


def _bar(used: int | None, capacity: int | None, colour: bool) -> str:
    if used is None or not capacity:
        return f"{'':<{_BAR}} {'-':>4} "
    share = min(1.0, used / capacity)
    full = round(share * _BAR)
    bar = "█" * full + "░" * (_BAR - full)
    if colour:
        bar = f"\x1b[{31 if share >= 0.9 else 33 if share >= 0.75 else 32}m{bar}{_RESET}"
    return f"{bar} {percent(used, capacity):>4} "


def _alike(chips: list[Json]) -> list[tuple[str, list[str]]]:
    """Each breakdown once, with the names of all chips it is true of: replicas of a model are many and equal."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for chip in chips:
        assumed = "" if chip["identity"] == "known" else "  (which chip this is, is assumed from the device number)"
        groups.setdefault(tuple(_breakdown(chip)), []).append(f"{chip['uid']}{assumed}")
    return [(_names(names), list(breakdown)) for breakdown, names in groups.items()]


def _names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]} ... {names[-1]}"
    return f"{listed}: {len(names)} chips, each"


def _breakdown(chip: Json) -> list[str]:
    memory = chip["memory"]
    dram, l1, system = memory["dram"], memory["l1"], memory["system"]
    lines: list[str] = []

    def row(name: str, size: int | None, note: str = "") -> None:
        if size or name.startswith(("L1 total", "DRAM total")):
            lines.append(f"  {name:<22} {human(size):>11}{note}")

    row("L1 buffers", l1["buffers"])
    row("L1 small", l1["small"]["used"])
    row("circular buffers", l1["cb"]["held"], _resident(l1["cb"], l1["capacity"]))
    row("dataflow buffers", l1["dfb"]["held"], _resident(l1["dfb"], l1["capacity"]))
    row("scratchpads", l1["scratchpad"])
    row("kernels", l1["kernels"])
    row("firmware", l1["firmware"])
    at_once = f"{human(l1['at_once'])} at once, " if l1["at_once"] != l1["used"] else ""
    row("L1 total", l1["used"], f"   {at_once}peak {human(l1['peak'])}{_basis(l1)}")
    row("fabric kernels", system["fabric_kernels"], "   on ethernet cores, outside the grid")
    row("dispatch kernels", system["dispatch_kernels"], "   on dispatch cores, outside the grid")
    row("trace", dram["trace"]["used"])
    row("DRAM total", dram["used"], f"   peak {human(dram['peak'])}{_basis(dram)}")
    row("host memory", memory["host"]["used"])
    lines += _reporter(memory["reporter"])
    known = [f"{human(size)} {name}" for name, size in memory["confidence"].items() if size]
    unknown = f"; not known: {', '.join(memory['missing'])}" if memory["missing"] else ""
    share = memory["completeness"]
    audited = "" if share is None else f"; {100 * share:.4g} % of what the allocators say"
    lines.append(f"  {', '.join(known) or 'nothing reported'}{audited}{unknown}")
    return lines


def _reporter(said: Json) -> list[str]:
    """L1 by the word of the allocators, if somebody published it, and what the difference means."""
    if said["total"] is None or not said["inferred"]:
        return []  # if nothing is inferred, all is tracked, and the line on completeness says so
    rows = (
        ("L1 (allocator-tracked)", said["tracked"], ""),
        ("L1 (total from MemoryReporter)", said["total"], ""),
        ("→ CB + kernels (inferred)", said["inferred"], "   what is not tracked: a stock reporter counts buffers only"),
    )
    return [f"  {name:<30} {human(size):>11}{note}" for name, size, note in rows]


def _resident(part: Json, capacity: int | None) -> str:
    held, resident = part["held"], part["resident"]
    over = bool(capacity and held and held > capacity)
    if not over and (resident is None or resident == held):
        return "" if resident is None else f"   {human(resident)} resident"
    known = "" if resident is None else f"; {human(resident)} resident"
    return f"   of all cached programs, which share L1 in time{known}"


def _basis(pool: Json) -> str:
    if pool["capacity"] is None:
        return ", size of the chip not known"
    return ", size from the board's table" if pool["capacity_basis"] == "table" else ""


def _processes(processes: list[Json], chips: list[Json]) -> list[str]:
    order = {chip["uid"]: number for number, chip in enumerate(chips)}

    def place(process: Json) -> int:
        """In the order of the chips they are on; those on none come last."""
        return min((order.get(share["uid"], len(order)) for share in process["chips"]), default=len(order))

    live = sorted((process for process in processes if process["state"] != "exited"), key=place)
    exited = [process for process in processes if process["state"] == "exited"]
    if not live and not exited:
        return ["No process has reported anything."]
    titles = ("DRAM", "L1", "PEAK DRAM", "PEAK L1")
    lines = [f"{'PID':>8} {'USER':<10} {'NAME':<16} {'STATE':<8} {'CHIP':<20}" + "".join(f" {t:>10}" for t in titles)]
    for process in (*live, *sorted(exited, key=lambda p: -p["exited"])[:_EXITED_SHOWN]):
        who = _who(process)
        for share in process["chips"] or [None]:
            lines.append(f"{who} {_share(share)}")
            who = " " * len(who)
    hidden = len(exited) - _EXITED_SHOWN
    if hidden > 0:
        lines.append(f"{'':>8} and {hidden} more that exited")
    if exited:
        lines.append(f"{'':>8} (an exited process shows what it still held when it went)")
    return lines


def _who(process: Json) -> str:
    name = (process["name"] or "-")[:16]
    user = (process["user"] or str(process["uid"] if process["uid"] is not None else "-"))[:10]
    return f"{process['pid'] or '?':>8} {user:<10} {name:<16} {process['state']:<8}"


def _share(share: Json | None) -> str:
    if share is None:
        return "-"
    sizes = (share["dram"], share["l1"], share["peak_dram"], share["peak_l1"])
    return f"{share['uid']:<20}" + "".join(f" {human(size):>10}" for size in sizes)


def _hints(picture: Json) -> list[str]:
    hints = []
    for process in picture["processes"]:
        for source in process["sources"]:
            hints += [f"pid {process['pid']}: {line}" for line in (source["trouble"] or "").splitlines()]
    if any(chip["identity"] == "assumed" for chip in picture["chips"]):
        hints.append('Hint: "assumed:N" is some process\'s device N; a client that names its chip makes it certain.')
    if picture["server"] is not None and not picture["processes"]:
        hints.append(
            "Hint: `ttmem run -- COMMAND` tracks a program that uses ttnn; TT_ALLOC_TRACKING_ENABLED=1 a patched one."
        )
    return hints
