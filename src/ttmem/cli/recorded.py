# SPDX-License-Identifier: Apache-2.0
"""Opens a recording for a command: --file and --at, the account at that moment, and its snapshot."""

from __future__ import annotations

import argparse
import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ttmem.analyze.failure_messages import parse
from ttmem.cli import CommandError, UsageError, complain
from ttmem.documents.common_text import local_time
from ttmem.documents.recorded_peaks import RecordedPeak, recorded_peaks
from ttmem.documents.recorded_snapshot import recorded_snapshot
from ttmem.documents.snapshot import take_snapshot
from ttmem.recording.blocks import RecordingError
from ttmem.recording.moments import (
    FORMS,
    Moment,
    MomentError,
    NotAMoment,
    default_moment,
    find_moment,
    open_moment,
    range_text,
)
from ttmem.recording.recording_file import Recording
from ttmem.show.chip_selector import UnknownChip, find_chip
from ttmem.show.text import Style, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ttmem.account.ledger import Ledger
    from ttmem.model.schema import Snapshot

DEFAULT_MOMENT = "failure, else peak"
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC)  # errors of what the command prints meanwhile; reading has none of them


class Replay(NamedTuple):
    """The account of a recording at a moment."""

    ledger: Ledger
    snapshot: Snapshot
    time: float
    since: float  # the start of the recording
    where: str  # in words: the moment, and the range of the recording


def titled(where: str, text: str, style: Style) -> str:
    """A text with a header that says which moment it shows."""
    return "\n".join([*wrap(style.clean(where), style), "", text])


def add_file(
    parser: argparse.ArgumentParser, group: argparse._ActionsContainer | None = None, *, default: str = DEFAULT_MOMENT
) -> None:
    """For commands that show the current state, or a moment of a recording."""
    (group or parser).add_argument("--file", metavar="FILE", help="recording to read instead of asking a server")
    add_at(parser, default=default)


def add_at(parser: argparse.ArgumentParser, *, default: str = DEFAULT_MOMENT) -> None:
    """``default`` says which moment is shown without the option."""
    parser.add_argument("--at", metavar="MOMENT", help=f"moment of the recording: {FORMS} (default: {default})")


def check_at(args: argparse.Namespace) -> None:
    if args.at is not None and args.file is None:
        raise UsageError("--at needs --file; a server shows the current state")
    if args.file is not None and args.socket is not None:
        raise UsageError("--socket and --file cannot be used together")


def is_failure(message: str) -> bool:
    """Is the message of an exception about memory?"""
    return parse(message) is not None


@contextmanager
def opened(path: str) -> Iterator[Recording]:
    """A recording; CommandError if it cannot be read. Damage is reported when it was used."""
    try:
        with Recording(path) as recording:
            yield recording
            for problem in recording.problems[:3]:
                complain(f"ttmem: {path}: {problem}; what is readable is shown")
            if not recording.finished and not recording.problems:
                complain(f"ttmem: {path} was not closed; it is read up to its last block")
    except OSError as error:
        if error.errno in _OF_OUTPUT:
            raise
        raise CommandError(f"{path}: {error.strerror}") from None
    except RecordingError as error:
        raise CommandError(f"{path}: {error}") from None


def moment_of(recording: Recording, at: str | None, option: str = "--at") -> Moment:
    """The moment that an option names; without one, the failure or the peak."""
    try:
        if at is None:
            return default_moment(recording, is_failure=is_failure)
        return find_moment(recording, at, is_failure=is_failure, find_chip=chip_id_of, stamp=_stamp)
    except NotAMoment as error:
        raise UsageError(f"{option}: {error}") from None
    except MomentError as error:
        raise CommandError(f"{option}: {error}" if at is not None else str(error)) from None


def replay(path: str, at: str | None) -> Replay:
    """The account of a recording at a moment, by default at the failure or the peak."""
    with opened(path) as recording:
        return _replay_of(recording, at)


def replay_peaks(path: str, at: str) -> tuple[Replay, list[RecordedPeak]]:
    """The account of a recording at a moment, and the peaks up to then with what was live at them."""
    with opened(path) as recording:
        found = _replay_of(recording, at)
        return found, recorded_peaks(recording, found.ledger)


def _replay_of(recording: Recording, at: str | None) -> Replay:
    moment = moment_of(recording, at)
    found = open_moment(recording, moment)
    return Replay(
        found.ledger, recorded_snapshot(recording, found.ledger, found.time), found.time, recording.begin,
        where_of(recording, moment.words),
    )  # fmt: skip


def where_of(recording: Recording, words: str) -> str:
    """The header of a text: which moment it shows, and the range of the recording."""
    return f"recording {words}; it is {range_text(recording, _stamp)}"


def _stamp(time: float) -> str:
    return local_time(time, 3)


def snapshot_of(recording: Recording, at: str) -> Snapshot:
    """The snapshot of a moment."""
    return _replay_of(recording, at).snapshot


def chip_id_of(name: str, ledger: Ledger) -> str:
    """The id of a chip that a user names; MomentError if there is none."""
    try:
        return str(find_chip(name, take_snapshot(ledger, time="", host=""))["chip"])
    except UnknownChip as error:
        raise MomentError(str(error)) from None
