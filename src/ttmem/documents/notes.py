# SPDX-License-Identifier: Apache-2.0
"""The notes of a snapshot: sentences that a reader should know in addition to the numbers."""

from __future__ import annotations

from ttmem.model.units import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Literal

    from ttmem.model.machine_rows import CounterFile, MachineLook
    from ttmem.model.schema import ChipRow, Note, ProcessRow, Snapshot

    Differing = Mapping[tuple[int, str], dict[str, tuple[int, int]]]  # by pid and chip; by kind: tracked, counted

_COUNTED: tuple[Literal["dram", "l1", "l1_small", "trace"], ...] = ("dram", "l1", "l1_small", "trace")
_COUNTED_WORDS = {"dram": "DRAM", "l1": "L1", "l1_small": "L1_SMALL", "trace": "traces"}
_STATES = {
    "in reset": "is in reset or not initialised; its telemetry cannot be read",
    "off the bus": "answers with all ones: it is off the PCIe bus or dead; a reset (tt-smi -r) may bring it back",
    "gone": "is gone: the driver no longer lists it",
    "hangs": "does not answer: reading its telemetry hangs; other chips are not affected",
}


def of(snapshot: Snapshot, machine: MachineLook, files: Iterable[CounterFile], differing: Differing) -> list[Note]:
    """All notes, those about chips first. ``files`` are tt-metal's counters of the chips in the snapshot."""
    found: list[Note] = []
    for chip in snapshot["chips"]:
        found += (_note(what, text, chip=chip["chip"]) for what, text in _of_chip(chip))
    by_chip = {chip["unique_id"] or chip["chip"]: chip for chip in snapshot["chips"]}
    shown = {file["path"] for file in files}
    orphans = [file for file in machine["shm"] if file["state"] == "ok" and file["path"] not in shown and _left(file)]
    orphaned = {file["path"] for file in orphans}
    for file in machine["shm"]:
        row = by_chip.get(file["chip"])
        chip_id = row["chip"] if row else None
        apart = file["path"] in orphaned
        said = (one for one in _of_file(file, row) if not apart or one[0] != "shm-stale")
        found += (_note(what, text, chip=chip_id) for what, text in said)
    if orphans:
        found.append(_note("shm-stale", _orphaned(orphans)))
    names = {chip["chip"]: name_of(chip) for chip in snapshot["chips"]}
    astray = {chip["chip"] for chip in snapshot["chips"] if chip["kmd"] is None and not chip["remote"]}
    for process in snapshot["processes"]:
        found += _of_process(process, names, astray, differing)
    return found


def name_of(chip: ChipRow) -> str:
    """The name of a chip for users: the driver's number, if it has one."""
    return f"chip {chip['kmd']}" if chip["kmd"] is not None else f"chip {chip['chip']}"


def _note(what: str, text: str, chip: str | None = None, pid: int | None = None) -> Note:
    return {"what": what, "chip": chip, "pid": pid, "text": text}


def _of_chip(chip: ChipRow) -> Iterator[tuple[str, str]]:
    for label, row in (("DRAM", chip["memory"]["dram"]), ("L1", chip["memory"]["l1"])):
        peak, at_most = row["peak"], row["peak_at_most"]
        if peak is not None and at_most is not None:
            yield (
                "peak",
                f"{name_of(chip)}: the peak of {label} was between {human(peak)} and {human(at_most)}; "
                "records were lost while several processes used the chip",
            )
    now = chip["telemetry"]
    if now is None:
        return
    name = name_of(chip)
    if now["state"] in _STATES:
        yield "chip-state", f"{name} {_STATES[now['state']]}"
    if now["alive"] is False:
        yield "heartbeat", f"{name}: the heartbeat of its firmware has stopped at {now['heartbeat']}"
    if now["implausible"] and now["state"] == "ok":
        told = ", ".join(f"{field} reads {raw!r}" for field, raw in now["implausible"].items())
        yield "implausible", f"{name}: {told}; rejected as implausible"
    hot, limit = now["temperature_c"], now["temperature_max_c"]
    if hot is not None and limit is not None and hot >= limit:
        yield "hot", f"{name} is at {hot:.0f} °C; its limit is {limit:.0f} °C"
    link = chip["pcie"]
    if link and link["width"] and link["max_width"] and link["width"] < link["max_width"]:
        yield "pcie", f"{name}: PCIe runs with {link['width']} of {link['max_width']} lanes"


def _of_file(file: CounterFile, chip: ChipRow | None) -> Iterator[tuple[str, str]]:
    """Notes on tt-metal's counters of one chip."""
    if file["state"] != "ok":
        why = file["why"] or file["state"]
        yield f"shm-{file['state']}", why if why.startswith(file["path"]) else f"{file['path']}: {why}"
        return
    left = _left(file)
    if left:
        gone = [f"{slot['pid']} {slot['name']}" for slot in file["slots"] if slot["state"] in ("dead", "reused")]
        whose = f" (pid {', '.join(gone[:3])}{' ...' if len(gone) > 3 else ''})" if gone else ""
        name = name_of(chip) if chip else file["path"]
        held = f"tt-metal's counters of {name} still hold {left} of processes that"
        remove = f"When no job runs, rm {file['path']}"
        if any(slot.get("unsure") for slot in file["slots"]):
            yield "shm-stale", f"{held} are gone, or that are not visible from here{whose}: not counted"
        elif gone:
            yield "shm-stale", f"{held} are gone{whose}: not in use. {remove}"
        else:
            yield "shm-stale", f"{held} are gone, or that have no slot in them: not counted. {remove}"
    if file["why"]:
        yield "shm-doubt", f"{file['path']}: {file['why']}"


def _left(*files: CounterFile) -> str:
    """The left-over bytes by kind, as text; "" if there are none."""
    stale = [file["stale"] for file in files]
    sums = {kind: sum(sizes[kind] for sizes in stale if sizes is not None) for kind in _COUNTED}
    return ", ".join(f"{human(size)} of {_COUNTED_WORDS[kind]}" for kind, size in sums.items() if size)


def _orphaned(files: list[CounterFile]) -> str:
    """Counters of unknown chips with left-over bytes only; tt-metal never removes these files."""
    many = len(files) > 1
    whose, use = "are gone", "not in use"
    unsure = any(slot.get("unsure") for file in files for slot in file["slots"])
    if unsure:
        whose, use = "are gone or not visible from here", "not counted"
    elif not all(any(slot["state"] in ("dead", "reused") for slot in file["slots"]) for file in files):
        whose, use = "are gone or found no slot", "not counted"
    subject = f"{len(files)} counter files of tt-metal belong" if many else "1 counter file of tt-metal belongs"
    chips = "chips that are" if many else "a chip that is"
    text = f"{subject} to processes that {whose}, on {chips} not known otherwise: {_left(*files)}, {use}"
    path = "/dev/shm/tt_device_*_memory" if many else files[0]["path"]
    return text if unsure else f"{text}. When no job runs, delete with `rm {path}`"


def _sentence(text: str) -> str:
    """The message of tt-metal without its source position: "TT_FATAL @ file: condition, info:, the sentence"."""
    return text.rpartition("info:")[2].strip().partition("\n")[0]


def _difference(kind: str, tracked: int, counted: int) -> str:
    texts = human(counted), human(tracked)
    if texts[0] == texts[1]:
        texts = f"{counted:,} B", f"{tracked:,} B"
    return f"{kind} {texts[0]} where {texts[1]} is tracked"


def _of_process(process: ProcessRow, names: dict[str, str], astray: set[str], differing: Differing) -> Iterator[Note]:
    """Notes on a process. ``astray`` are the chips that could not be matched."""
    pid = process["pid"]
    for share in process["chips"]:
        amounts = differing.get((pid, share["chip"])) if pid is not None and process["state"] == "tracked" else None
        if amounts:
            differs = [_difference(kind, *pair) for kind, pair in amounts.items()]
            text = (
                f"pid {pid} on {names.get(share['chip'], share['chip'])}: tt-metal's own counters say "
                f"{', '.join(differs)}; they miss other threads"
            )
            yield _note("shm-differs", text, share["chip"], pid)
    for source in process["sources"]:
        if source["shed"]:
            text = (
                f"pid {pid} writes records faster than they can be read: its totals and peaks are exact about once a "
                f"second, in between they are old; {source['unread']:,} records are not read yet"
            )
            yield _note("shed", text, None, pid)
    if process["failed"]:
        times = "once" if process["failed"] == 1 else f"{process['failed']:,} times"
        last = process["last_failure"]
        why = f", last in {last['operation']}" if last and last["operation"] else ""
        said = f": {_sentence(last['text'])}" if last else ""
        yield _note("refused", f"pid {pid} was refused memory {times}{why}{said}", None, pid)
    told = {share["chip"] for share in process["chips"]}
    silent = [chip_id for chip_id in process["holds"] if chip_id not in told]
    if process["state"] == "untracked" and silent:
        who = f"pid {pid}" if pid else "a process outside this pid namespace"
        chips = ", ".join(names.get(chip_id, chip_id) for chip_id in silent[:4]) + (" ..." if len(silent) > 4 else "")
        text = f"{who} holds {chips} open, and no source reports its memory there"
        if found := sorted(told & astray):
            others = ", ".join(names.get(chip_id, chip_id) for chip_id in found[:4]) + (
                " ..." if len(found) > 4 else ""
            )
            text = f"{who} holds {chips} open; whether that is {others}, on which it is counted, is not known"
        yield _note("untracked", text, silent[0] if len(silent) == 1 else None, pid)
