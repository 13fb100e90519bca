# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run on mock devices: it fits, it does not fit, or that cannot be known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from ttmem.fit.mock_run import MockRun
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import exact

if TYPE_CHECKING:
    from ttmem.model import schema

DOES_NOT_FIT, CANNOT_TELL = 4, 5  # exit codes
UNSUPPORTED_CALLS = frozenset({"create_sub_device_manager"})  # that libttmem_fit.so reports before it ends the process
_EXIT_CODES = {"fits": 0, "fails": DOES_NOT_FIT, "unknown": CANNOT_TELL}


class FitVerdict(NamedTuple):
    """The verdict and the reason for it, one sentence."""

    verdict: Literal["fits", "fails", "unknown"]
    reason: str


def exit_code(boards: Iterable[schema.FitBoard]) -> int:
    """The exit code for several runs: the command must fit on each of them."""
    codes = {_EXIT_CODES[board["verdict"]] for board in boards}
    return DOES_NOT_FIT if DOES_NOT_FIT in codes else max(codes, default=CANNOT_TELL)


def verdict_on(run: MockRun, dram: schema.FitDram | None, unknown: Iterable[schema.FitUnknown]) -> FitVerdict:
    result = run.result
    calls = [what for what, _ in run.reported if what in UNSUPPORTED_CALLS]
    if run.foreign_chips:
        return _cannot_tell(f"the command used devices that are no mock devices: {', '.join(run.foreign_chips)}")
    if result.document["failed"]:
        went_on = "" if result.exit_code else "; the command handled it and went on"
        return FitVerdict("fails", f"an allocation failed{went_on}")
    if calls:
        return _cannot_tell(f"the command called {calls[0]}, which does not work on mock devices")
    if not run.allocators:
        return _cannot_tell("the command opened no device" + _ended(run))
    missing = _not_seen(run)
    if missing is not None:
        return _cannot_tell(missing)
    if result.exit_code and not run.stopped:
        return _cannot_tell(f"the command failed, but no allocation did{_ended(run)}")
    bound = sum(row["bound"] or 0 for row in unknown)
    if dram is not None and bound > dram["largest_free_min"]:
        free = exact(dram["largest_free_min"])
        return _cannot_tell(
            f"every allocation succeeded, but only {free} per DRAM bank were left for what is unknown, at most "
            f"{exact(bound)}"
        )
    what = "allocation succeeded" if programs_tracked(run) else "buffer was allocated"
    only = "" if programs_tracked(run) else "; this is an answer for buffers only, because programs are not tracked"
    return FitVerdict("fits", f"every {what}{' until the run was stopped' if run.stopped else ''}{only}")


def programs_tracked(run: MockRun) -> bool:
    """False below ttnn 0.75: the agent reports it."""
    return not any("programs are not tracked" in text for text in run.result.document["trouble"])


def _cannot_tell(reason: str) -> FitVerdict:
    return FitVerdict("unknown", reason)


def _ended(run: MockRun) -> str:
    code = run.result.exit_code
    return f"; its exit code was {code}" if code else ""


def _not_seen(run: MockRun) -> str | None:
    """Why the account of the run is not complete, or None."""
    document = run.result.document
    if document["dropped"]:
        return f"{document['dropped']:,} records were lost"
    if document["unseen"]:
        process = document["unseen"][0]
        return f"the agent saw nothing of the device that pid {process['pid']} ({process['name']}) used"
    if document["uncertain"]:
        return f"the agent counted {counts_text(document['uncertain'])}"
    if document["completeness"] not in (None, 1.0):
        return "the account differs from that of ttnn's allocators"
    return None
