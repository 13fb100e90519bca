# SPDX-License-Identifier: Apache-2.0
"""The answer of `ttmem fit --replay` as text: each memory as recorded and under other conditions, and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.units import exact, human
from ttmem.show.text import RED, Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import WhatIf, WhatIfDevice, WhatIfRun

_FAILURES_SHOWN = 3


def render(document: WhatIf, style: Style) -> str:
    """The text of a document with schema "ttmem.what_if/1"; the last line is a summary to search for."""
    lines: list[str] = []
    devices = document["devices"]
    for device in devices:
        of = f"{_name(device)}, " if len(devices) > 1 else ""
        for title, run in (("as recorded", device["recorded"]), ("changed", device["changed"])):
            failed = run["failed"]
            lines += [f"{of}{title}: {_verdict(failed)}", *_banks(run, style), *_failures(run, style)]
        lines += [line for note in _device_notes(device) for line in wrap(of + note, style, "  ", "")]
    lines += [line for note in _notes(document) for line in wrap(note, style, "  ", "")]
    failed = sum(device["changed"]["failed"] for device in devices)
    return "\n".join([*lines, f"ttmem fit: changed: {_verdict(failed)}"])


def _name(device: WhatIfDevice) -> str:
    """
    >>> _name({"numbers": [0, 1]}), _name({"numbers": [3]})
    ('mesh of devices 0, 1', 'device 3')
    """
    numbers = ", ".join(map(str, device["numbers"]))
    return f"mesh of devices {numbers}" if len(device["numbers"]) > 1 else f"device {numbers}"


def _verdict(failed: int) -> str:
    if not failed:
        return "every allocation succeeds"
    return f"{failed:,} allocation{'' if failed == 1 else 's'} would fail"


def _banks(run: WhatIfRun, style: Style) -> list[str]:
    lines = []
    for kind, bank in run["banks"].items():
        text = (
            f"{exact(bank['peak'])} of {human(bank['size'])} per bank at the peak; largest free block never "
            f"below {exact(bank['largest_free_min'])}"
        )
        lines += wrap(text, style, " " * 11, f"  {kind.upper():<9}")
    return lines


def _failures(run: WhatIfRun, style: Style) -> list[str]:
    lines = []
    for failure in run["failures"][:_FAILURES_SHOWN]:
        text = f"step {failure['step']:,}: {failure['name']}: {failure['text']}"
        lines += [style.paint(line, RED) for line in wrap(style.clean(text), style, "    ", "  ")]
    return lines


def _device_notes(device: WhatIfDevice) -> list[str]:
    recorded, changed = device["recorded"], device["changed"]
    notes = []
    if not device["exact"]:
        notes.append(
            f"not exact: as recorded, {recorded['moved']:,} of {recorded['steps']:,} steps have another "
            "address than recorded"
        )
    if changed["estimated"]:
        count = f"{changed['estimated']:,} buffer{'' if changed['estimated'] == 1 else 's'}"
        notes.append(f"estimated: the page size of {count}, which does not follow from the recording")
    return notes


def _notes(document: WhatIf) -> list[str]:
    notes = []
    if document["left_out"]:
        notes.append(
            f"left out: {document['left_out']:,} allocations of unknown size, or with an address of their own on each "
            "core"
        )
    notes.append(
        "The program itself may behave differently: it may choose other layouts on another board, and it continues "
        "after an allocation that failed in the recording. Programs are left out: circular buffers, kernels and their "
        "clashes with L1 buffers are not repeated."
    )
    return notes
