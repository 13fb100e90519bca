# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of everything that takes bytes from outside: decoders, the account behind them, recordings, a whole server.

Four kinds of case, each drawn from its seed: damaged bytes (here), well-formed input with extreme values against a
server's parts (fuzz_lab), the same against a real server (fuzz_server), and malformed files for `ttmem import`
(fuzz_imports). `python -m tests.fuzz` runs them in turns until stopped and prints the seed of a failing case; the tests
run 60,000 cases of the first and some of the others.
"""

from __future__ import annotations

import argparse
import io
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests import fuzz_imports
from tests.fuzz_server import server_case
from tests.support import ROOT
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.state import Limits
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Freed, ResyncBegin, ResyncEnd
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, POOL_OF, Confidence, Pool
from ttmem.model.validation import InvalidValue
from ttmem.recording.blocks import RecordingError
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.recording_file import Recording
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.client_decode import NativeStream, decode
from ttmem.wire.client_encode import encode
from ttmem.wire.legacy_records import SIZES, Type, event_of, request, short_request
from ttmem.wire.legacy_stream import LegacyStream

CASES_PER_LEDGER = 40
_PID = 4242


class CaseFailed(AssertionError):
    """A case that shows a fault; its seed reproduces it."""

    def __init__(self, seed: int | str, why: str) -> None:
        super().__init__(f"case with seed {seed} failed: {why}")
        self.seed = seed


def legacy_bytes(rng: random.Random) -> bytes:
    """A few legacy records as clients write them."""
    pieces = []
    size = rng.choice(SIZES)
    for _ in range(rng.randrange(1, 6)):
        op = Type(rng.randrange(1, 13))
        device, ident = rng.choice((0, 0, 1, 3, -1, 255, 2657333)), rng.choice((0, 1, 0x1000, 0x5000300010000, 1 << 63))
        length = rng.choice((0, 1, 2048, 1 << 20, 1 << 62))
        if 8 <= op <= 11 and rng.random() < 0.3:
            pieces.append(short_request(op, device, length, ident, _PID))
        else:
            code, pid = rng.choice((0, 1, 2, 4, 9)), rng.choice((_PID, _PID, 0, 77))
            pieces.append(request(op, device, size=length, code=code, pid=pid, ident=ident, record_size=size))
    return b"".join(pieces)


def native_bytes(rng: random.Random) -> bytes:
    """A hello and a few native records."""
    events: list[Event] = [
        Allocated(
            rng.randrange(3), rng.choice(KINDS), rng.choice((0, 64, 1 << 40)), rng.randrange(1, 9999), rng.randrange(3)
        ),
        Allocated(0, rng.choice(KINDS), 64, 100, 1, 2, Extra(128, rng.getrandbits(70), 1, "tag", rng.random() < 0.5)),
        Freed(0, rng.choice((None, *KINDS)), rng.choice((0, 64, 1 << 40)), program=rng.randrange(3)),
        DeviceOpened(rng.randrange(3), ChipInfo(rng.choice("ab"))),
        ResyncBegin(rng.randrange(3)),
        ResyncEnd(rng.randrange(3)),
    ]
    rng.shuffle(events)
    hello = handshake.hello("client", Confidence.REPORTED)
    return hello + b"".join(map(encode, events[: rng.randrange(1, 7)])) + handshake.sync(rng.getrandbits(64))


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Damage bytes: cut, duplicate, overwrite, insert, or nothing."""
    out = bytearray(data)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(out) + 1)
        how = rng.randrange(5)
        if how == 0:
            del out[at : at + rng.randrange(1, 80)]
        elif how == 1:
            out[at:at] = out[at : at + rng.randrange(1, 80)]
        elif how == 2 and at < len(out):
            out[at] = rng.randrange(256)
        elif how == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 60))
        else:
            out[at:at] = bytes(rng.randrange(1, 60))
    return bytes(out)


def chunks(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4)))
    return [piece for a, b in zip([0, *cuts], [*cuts, len(data)]) if (piece := data[a:b])]


def check(ledger: Ledger) -> None:
    """The invariant: every total is the sum of live allocations, and nothing is negative."""
    for chip in ledger.chips.values():
        sums, pools = [0] * len(KINDS), [0] * len(Pool)
        for holding in chip.holdings:
            for allocation in holding.allocations():
                assert holding.leaves[allocation.kind] is not None
                if chip in counted_chips(allocation):
                    sums[allocation.kind] += allocation.counted
                    pools[POOL_OF[allocation.kind]] += allocation.counted
        assert sums == [total.used for total in chip.kinds], (sums, [total.used for total in chip.kinds])
        assert pools == [total.used for total in chip.pools]
        assert all(total.used <= total.peak.value for total in chip.totals())


def one_legacy(rng: random.Random, ledger: Ledger) -> None:
    source = ledger.source(0.0, ProcessInfo(rng.randrange(3), 1), "legacy", Confidence.REPORTED)
    stream = LegacyStream()
    pid = rng.choice((_PID, _PID, 0))
    data = mutate(rng, legacy_bytes(rng)) if rng.random() < 0.9 else rng.randbytes(rng.randrange(400))
    for piece in chunks(rng, data):
        for size, records in stream.feed(piece, pid):
            assert size in (0, *SIZES)
            for record in records:
                event = event_of(record)
                if event is not None:
                    ledger.apply(1.0, source, event)
    for _, records in stream.finish(pid):
        list(records)


def one_native(rng: random.Random, ledger: Ledger) -> None:
    source = ledger.source(0.0, ProcessInfo(rng.randrange(3), 1), "client", Confidence.REPORTED)
    stream = NativeStream()
    data = mutate(rng, native_bytes(rng)) if rng.random() < 0.9 else rng.randbytes(rng.randrange(400))
    try:
        for piece in chunks(rng, data):
            for record in stream.feed(piece):
                if record[0] == native.MAGIC:
                    handshake.read_hello(record)
                elif record[0] == native.SYNC:
                    handshake.sync_token(record)
                else:
                    ledger.apply(1.0, source, decode(record))
    except (native.NativeError, InvalidValue):
        pass  # an error with a message is expected


def one_journal(rng: random.Random, ledger: Ledger) -> None:
    file = io.BytesIO()
    writer = EventRecordingWriter(file)
    source = Ledger().source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    for _ in range(rng.randrange(4)):
        extra = rng.choice((None, Extra(stack="model.py:41 forward")))
        writer.write(rng.random(), source, Allocated(0, rng.choice(KINDS), 1, 2, extra=extra))
    writer.finish()
    try:
        Recording(io.BytesIO(mutate(rng, file.getvalue()))).replay(ledger)
    except RecordingError:
        pass


TARGETS = (one_legacy, one_legacy, one_native, one_journal)


def run(cases: int, seed: int, deadline: float | None = None) -> int:
    """Run a number of cases (0: no limit). Returns the number; raises with the seed in the message."""
    ledger = Ledger(Limits(allocations_per_process=200, devices_per_process=8, chips=16, dead_allocations=4))
    for number in count():
        if (cases and number >= cases) or (deadline is not None and time.monotonic() > deadline):
            return number
        if number % CASES_PER_LEDGER == 0:
            check(ledger)
            ledger = Ledger(Limits(allocations_per_process=200, devices_per_process=8, chips=16, dead_allocations=4))
        rng = random.Random(seed + number)
        try:
            rng.choice(TARGETS)(rng, ledger)
        except Exception as error:
            raise CaseFailed(seed + number, f"{type(error).__name__}: {error}") from error
    raise AssertionError("unreachable")


def run_grammar(cases: int, seed: int, deadline: float | None = None, *arguments: str) -> int:
    """Cases of fuzz_lab, in a separate process, because a case may hang or use up all memory."""
    command = [sys.executable, "-m", "tests.fuzz_lab", "--seed", str(seed), "--cases", str(cases), *arguments]
    with (
        tempfile.TemporaryFile("w+") as err,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True, cwd=ROOT) as child,
    ):
        assert child.stdout is not None
        done, name = 0, "none"
        for line in child.stdout:
            done, name = done + 1, line.strip()
            if deadline is not None and time.monotonic() > deadline:
                child.terminate()
                child.wait()
                return done
        if child.wait():
            err.seek(0)
            raise CaseFailed(name, err.read()[-4000:])
    return done


def run_server(cases: int, seed: int, deadline: float | None = None) -> int:
    """Cases against real servers, one for each case."""
    for number in range(cases):
        if deadline is not None and time.monotonic() > deadline:
            return number
        with tempfile.TemporaryDirectory(prefix="ttmem-") as name:
            try:
                server_case(seed + number, Path(name))
            except Exception as error:
                raise AssertionError(
                    f"case with seed {seed + number} failed: {type(error).__name__}: {error}"
                ) from error
    return cases


def run_imports(cases: int, seed: int, end: float | None) -> int:
    """Malformed files for `ttmem import`."""
    for number in range(cases):
        if end is not None and time.monotonic() > end:
            return number
        try:
            fuzz_imports.run(seed + number, cases=1)
        except fuzz_imports.Failure as failure:
            raise CaseFailed(seed + number, str(failure)) from None
    return cases


# kind -> function, and number of cases in one turn
KINDS_OF_CASE: dict[str, tuple[Callable[[int, int, float | None], int], int]] = {
    "bytes": (run, 10_000),
    "grammar": (run_grammar, 200),
    "server": (run_server, 2),
    "imports": (run_imports, 50),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; 0 runs until Ctrl-C")
    parser.add_argument("--seed", type=int, default=None, help="start from this case")
    parser.add_argument("--cases", type=int, default=0, help="stop after so many of each kind; 0: no limit")
    parser.add_argument("--kind", choices=tuple(KINDS_OF_CASE), action="append", help="only this kind of case")
    args = parser.parse_args()
    seed = random.SystemRandom().getrandbits(40) if args.seed is None else args.seed
    end = time.monotonic() + args.seconds if args.seconds else None
    kinds = args.kind or list(KINDS_OF_CASE)
    done = dict.fromkeys(kinds, 0)
    print(f"fuzzing from seed {seed}; Ctrl-C stops")
    try:
        while (end is None or time.monotonic() < end) and not (args.cases and min(done.values()) >= args.cases):
            for kind in kinds:
                work, share = KINDS_OF_CASE[kind]
                wanted = min(share, args.cases - done[kind]) if args.cases else share
                try:
                    done[kind] += work(wanted, seed + done[kind], end) if wanted else 0
                except CaseFailed as error:
                    print(f"\n{error}\nagain: python -m tests.fuzz --kind {kind} --cases 1 --seed {error.seed}")
                    return 1
                print(f"\r{_counted(done)}", end="", flush=True)
    except KeyboardInterrupt:
        pass
    print(f"\r{_counted(done)}, no failure")
    return 0


def _counted(done: dict[str, int]) -> str:
    return ", ".join(f"{number:,} cases of {kind}" for kind, number in done.items())


if __name__ == "__main__":
    sys.exit(main())
