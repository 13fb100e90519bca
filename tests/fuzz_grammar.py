# SPDX-License-Identifier: Apache-2.0
"""Well-formed input with extreme values: native and legacy records, agents' memory, recordings, API requests.

Every record has the format of docs/protocol.md. Only its values are such that no
runtime would report them. Ordinary values are mixed in, so that records reach deep into the account: an allocation must
be there for its extreme reserved size to be added up. All of it is drawn from one seed.
"""

from __future__ import annotations

import io
import json
import random
from struct import pack
from typing import Any, NamedTuple

from tests.ring_memory import RingMemory
from ttmem.model.kinds import KINDS, Confidence
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.agent_ring import BANK_COUNT, RingEvent
from ttmem.wire.legacy_records import SIZES, Type, request, short_request

WITNESS_UID = "77"  # of the chip that the witness uses; an attacker may name it too

_EDGES = (
    0, 1, 2, 63, 64, 65, 255, 256, 1023, 1024, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, 1 << 20, 1 << 30, 0x7FFFFFFF, 1 << 31,
    0xFFFFFFFF, 1 << 32, 100 << 30, (100 << 30) + 1, 1 << 40, 1 << 48, 1 << 53, 1 << 62, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1,
)  # fmt: skip
_TEXTS = (
    b"", b"\0", b"\n\n\n", b"\x1b[31m\x1b]0;title\x07\r", "\u202eevil\u2066\u200f".encode(), b"../../etc/passwd",
    b"\xff\xfe\x80\xc3", b"x" * 1024, b"y" * 8192, b'{"a":"b",\\"}', b"a\tb\tc", b"a\tb", b"\t\t\t\t",
    b'x{chip="a"} 1\n# TYPE', "\U0001f600".encode() * 300, b"None", b" " * 200, b"1e300", "\u0661".encode(),
)  # fmt: skip
_WORDS = (b"ttnn.add", b"weights", b"model.py:41 forward", b"[1, 1, 32, 32] bfloat16 tile", b"reader\tbrisc\t100,200")
_JSON_TEXTS = ("", "\ud800", "\udfff\ud800", "\0", "\n", "assumed:0", "assumed:99999999999", "0000:01:00.0", "x" * 5000,
               "\u202e", "../x", '"', "{}", WITNESS_UID, "9", "kmd:0", "\x1b[2J", "a,b", "'", "%00", "NaN")  # fmt: skip
_JSON_ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1 << 31, 1 << 63, 1 << 64, 1 << 200, 10**400, 1e300, -1e300, float("nan"), float("inf"),
    "", "1", [], {}, [[]], 0.5,
)  # fmt: skip
TIMES = (float("nan"), float("inf"), float("-inf"), 1e300, -1e300, -1.0, 0.0, 5e-324, 253402300800.0, 1e18, 2.0**63)


class Numbers:
    """Draws values: ordinary ones, and extreme ones as often as the case is wild."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.wild = self.rng.choice((0.02, 0.08, 0.25, 0.7))

    def extreme(self) -> bool:
        return self.rng.random() < self.wild

    def one(self, bits: int, *ordinary: int) -> int:
        """An unsigned number with this number of bits."""
        if not self.extreme():
            return self.rng.choice(ordinary)
        return self.rng.choice([edge for edge in _EDGES if edge < 1 << bits])

    def device(self) -> int:
        if not self.extreme():
            return self.rng.choice((0, 0, 0, 1, 2))
        return self.rng.choice((-1, -(1 << 31), (1 << 31) - 1, 255, 256, 1023, 1024, 65535))

    def text(self) -> bytes:
        return self.rng.choice(_TEXTS) if self.extreme() else self.rng.choice(_WORDS)

    def json_text(self) -> str | None:
        if self.extreme():
            return self.rng.choice(_JSON_TEXTS)
        return self.rng.choice(("ttnn.add", None, "ttnn.matmul"))

    def json_number(self, *ordinary: int) -> Any:
        if not self.extreme():
            return self.rng.choice(ordinary)
        return self.rng.choice(_EDGES) if self.rng.random() < 0.8 else self.rng.choice(_JSON_ODD)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability


# -- native records -------------------------------------------------------------------------------------------------


def _ranges(draw: Numbers) -> bytes:
    """Core ranges as the protocol allows them: inside 64 by 64, the end not before the start."""
    rng = draw.rng
    how = rng.random()
    if how < 0.3:
        return b""
    if how < 0.8:
        x, y = rng.randrange(8), rng.randrange(8)
        return pack("<4H", 0, 0, x, y)
    if how < 0.9:
        return pack("<4H", 0, 0, 63, 63)
    found = []
    for _ in range(rng.choice((1, 2, 64, 500))):
        x, y = rng.randrange(64), rng.randrange(64)
        found.append(pack("<4H", x, y, min(63, x + rng.randrange(4)), min(63, y + rng.randrange(4))))
    return b"".join(found)


def allocated(draw: Numbers, op: int = native.ALLOCATED) -> bytes:
    rng = draw.rng
    kind = rng.randrange(len(KINDS))
    part = kind >= 5
    ranges = _ranges(draw) if part or draw.chance(0.2) else b""
    flags = native.HAS_EXTRA if draw.chance(0.8) else 0
    for flag, share in ((native.SHARED, 0.1), (native.RESERVED_KNOWN, 0.6), (native.BINARY, 0.1), (native.SYSTEM, 0.1),
                        (native.KEPT, 0.1)):  # fmt: skip
        flags |= flag if draw.chance(share) else 0
    tag = draw.text() if draw.chance(0.5) else None
    lines = b""
    if draw.chance(0.2):
        flags |= native.LINES
        for _ in range(2):
            text = draw.text() if draw.chance(0.7) else None
            lines += pack("<H", native.NO_TEXT) if text is None else pack("<H", len(text)) + text
    length = native.padded(native.ALLOCATED_FORM.size + len(ranges) + len(tag or b"") + len(lines))
    head = native.ALLOCATED_FORM.pack(
        op, kind, length, draw.device(),
        draw.one(64, 0, 64, 0x1000, 0x2000, 120000, 1300000, 1 << 20, 1 << 28),
        draw.one(64, 32, 64, 2048, 4096, 1 << 20),
        draw.one(64, 0, 64, 4096, 1 << 20),
        draw.one(64, 1, 2, 3) if part or draw.chance(0.05) else 0,
        draw.one(32, 0, 1, 2),
        draw.one(32, 0, 0, 1, 2),
        flags, len(ranges) // 8, native.NO_TEXT if tag is None else len(tag), draw.one(16, 0, 1, 0x402, 0x23),
    )  # fmt: skip
    return (head + ranges + (tag or b"") + lines).ljust(length, b"\0")


def freed(draw: Numbers) -> bytes:
    ranges = _ranges(draw) if draw.chance(0.2) else b""
    kind = draw.rng.choice((native.NO_KIND, *range(len(KINDS))))
    return (
        native.FREED_FORM.pack(
            native.FREED, kind, native.FREED_FORM.size + len(ranges), draw.device(),
            draw.one(64, 0, 64, 0x1000, 0x2000, 120000), draw.one(64, 0, 64, 4096), draw.one(64, 0, 1, 2),
            draw.one(32, 0, 1, 2), len(ranges) // 8, 0,
        )
        + ranges
    )  # fmt: skip


def run(draw: Numbers) -> bytes:
    ranges = _ranges(draw)
    length = native.RUN_FORM.size + len(ranges)
    head = native.RUN_FORM.pack(
        native.PROGRAM_RUN, 0, length, draw.device(), draw.one(64, 1, 2, 3), len(ranges) // 8, 0, 0
    )
    return head + ranges


def chip(draw: Numbers) -> dict[str, Any]:
    rng = draw.rng
    chip_id = rng.choice(_JSON_TEXTS) if draw.extreme() else rng.choice(("1", "2", "3"))
    geometry: Any = None
    if draw.chance(0.85):
        # arch, grid x, grid y, L1 of a core, L1 base, end of the map, banks, bank, L1_SMALL, trace, live
        sizes = [
            draw.json_number(8, 8, 64), draw.json_number(8, 9, 64), draw.json_number(1499136, 1572864),
            draw.json_number(104928), draw.json_number(35168), draw.json_number(12, 8), draw.json_number(1 << 30),
            draw.json_number(0, 32768), draw.json_number(0, 1 << 20),
        ]  # fmt: skip
        geometry = [rng.randrange(5), *sizes, draw.chance(0.8)]
    fields: dict[str, Any] = {"chip": chip_id, "geometry": geometry, "arch": rng.randrange(5)}
    if draw.chance(0.3):
        fields["pci"] = rng.choice((*_JSON_TEXTS, "0000:03:00.0", None))
    if draw.chance(0.3):
        fields["kmd"] = draw.json_number(0, 1)
    if draw.chance(0.3):
        fields["board"] = rng.choice((*_JSON_TEXTS, "n150", "p150a", None))
    if draw.chance(0.3):
        fields["remote"] = rng.choice((True, False, None, 1))
    if draw.chance(0.02):
        fields["more"] = json.loads("[" * 500 + "]" * 500)
    return fields


def opened(draw: Numbers, op: int = native.DEVICE_OPENED) -> bytes:
    if draw.extreme() and draw.chance(0.05):
        body = b'{"chip":"1","geometry":' + b"[" * 30000 + b"]" * 30000 + b"}"
    else:
        body = json.dumps(chip(draw)).encode()
    return _body(op, draw.device(), body)


def _body(op: int, device: int, body: bytes) -> bytes:
    return native.body_record(op, device, body[: native.MAX_RECORD_BYTES - 16])


def compiled(draw: Numbers) -> bytes:
    numbers = [draw.json_number(1, 2, 3), draw.json_number(0, 4096), draw.json_number(1, 7)]
    stack = draw.rng.choice((None, draw.text().decode("utf-8", "replace")))
    return _body(native.PROGRAM_COMPILED, draw.device(), json.dumps([*numbers, draw.json_text(), stack]).encode())


def viewed(draw: Numbers) -> bytes:
    return native.VIEWED_FORM.pack(
        native.VIEWED, draw.rng.randrange(len(KINDS)), native.VIEWED_FORM.size, draw.device(), draw.one(32, 0, 1, 2),
        draw.one(32, 0, 12, 64), draw.one(64, 1 << 30, 1360544), draw.one(64, 0, 4096), draw.one(64, 4096, 1 << 20),
    )  # fmt: skip


def phase(draw: Numbers) -> bytes:
    if draw.chance(0.4):
        return native.number_record(native.PHASE_ENDED, 0, draw.one(64, 1, 2, 3))
    body = native.PHASE_FORM.pack(draw.one(64, 1, 2, 3), draw.one(64, 0, 1, 2)) + draw.text()
    return _body(native.PHASE_BEGAN, 0, body)


def number(draw: Numbers) -> bytes:
    op = draw.rng.choice(
        (
            native.PROGRAM_DESTROYED,
            native.DEVICE_CLOSED,
            native.RESYNC_BEGIN,
            native.RESYNC_END,
            native.LOST,
            native.SYNC,
        )
    )
    return native.number_record(op, draw.device() if op < native.RESYNC_BEGIN else 0, draw.one(64, 0, 1, 2, 3))


def mark(draw: Numbers) -> bytes:
    return _body(native.MARK, 0, draw.text())


def hello(draw: Numbers) -> bytes:
    if draw.extreme():
        name = draw.rng.choice(("agent", "sim", "\u202e", "x" * 64, "client\n", "a b", "\0", "Agent"))
    else:
        name = draw.rng.choice(("client", "client", "sim", "hook"))
    return handshake.hello(name, draw.rng.choice(list(Confidence)))


def on_mesh(draw: Numbers) -> bytes:
    """A record about several devices; if it is extreme, with wrong numbers, a wrong count, or any record inside."""
    inner = draw.rng.choice(_RECORDS if draw.extreme() and draw.chance(0.2) else (allocated, freed, run, compiled))(
        draw
    )
    numbers = [draw.device() for _ in range(draw.rng.randrange(2, 9))] if draw.extreme() else [0, 1, 2]
    listed = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    start = native.padded(native.PREFIX_FORM.size + len(listed))
    if start + len(inner) > native.MAX_RECORD_BYTES:
        return inner
    count = draw.one(31, len(numbers)) if draw.extreme() and draw.chance(0.1) else len(numbers)
    head = native.PREFIX_FORM.pack(native.ON_MESH, 0, start + len(inner), count)
    return (head + listed).ljust(start, b"\0") + inner


_RECORDS = (*[allocated] * 8, *[on_mesh] * 4, *[freed] * 3, *[run] * 2, *[opened] * 3, compiled, compiled,
            viewed, viewed, phase, phase, number, number, mark)  # fmt: skip


def native_records(draw: Numbers, most: int = 40) -> bytes:
    """A connection's bytes: a hello, a device, then anything."""
    first = [hello(draw), opened(draw)] if draw.chance(0.8) else [hello(draw)]
    return b"".join([*first, *(draw.rng.choice(_RECORDS)(draw) for _ in range(draw.rng.randrange(1, most)))])


def legacy_records(draw: Numbers) -> bytes:
    rng, size, pieces = draw.rng, draw.rng.choice(SIZES), []
    for _ in range(rng.randrange(1, 12)):
        op = rng.choice(list(Type))
        device, length, ident = (
            draw.device(),
            draw.one(64, 64, 4096, 1 << 20),
            draw.one(64, 64, 0x1000, 0x5000300010000),
        )
        if 8 <= op <= 11 and draw.chance(0.3):
            pieces.append(short_request(op, device, length, ident, 1))
        else:
            code = rng.choice((0, 1, 2, 3, 4, 4, 9))
            pieces.append(
                request(op, device, size=length, code=code, pid=rng.choice((0, 77)), ident=ident, record_size=size)
            )
    return b"".join(pieces)


# -- agents' memory -------------------------------------------------------------------------------------------------


def ring_memory(draw: Numbers) -> RingMemory:
    """A memory with an open mesh; every number may be extreme."""
    rng = draw.rng
    slots = rng.choice((2, 8, 64, 256))
    memory = RingMemory(
        slots=slots, table=rng.choice((8, 64, 256)), meshes=4, chips=rng.choice((1, 4, 40)), blobs=1 << 17
    )
    memory.put(
        coverage=draw.one(64, (1 << 12) - 1),
        trouble=draw.text()[:512] if draw.chance(0.2) else b"",
        table_full=draw.one(64, 0) if draw.chance(0.2) else 0,
        replaced=draw.one(64, 0),
        failures=draw.one(64, 0),
    )
    for index in range(memory.chips):
        memory.put_chip(
            index, unique_id=draw.one(64, 0, 11, 12), number=draw.one(32, index, 0, 1), arch=draw.one(32, 2, 3),
            board=draw.one(32, 3, 4), remote=draw.one(32, 0, 1),
        )  # fmt: skip
    masks = [memory.blob(_mask(draw)) for _ in range(3)]
    for mesh in range(rng.choice((1, 1, 2, 4))):
        _put_mesh(draw, memory, mesh, masks)
    return memory


def _mask(draw: Numbers) -> bytes:
    if draw.extreme():
        length = draw.rng.choice((0, 1, 512, 4096))
        return draw.rng.choice((b"\xff" * length, draw.rng.randbytes(length), bytes(length)))
    wide, high = draw.rng.randrange(1, 9), draw.rng.randrange(1, 9)
    return sum(1 << 64 * y + x for y in range(high) for x in range(wide)).to_bytes(512, "little")


def _put_mesh(draw: Numbers, memory: RingMemory, mesh: int, masks: list[int]) -> None:
    rng = draw.rng
    if draw.extreme():
        listed = [rng.randrange(memory.chips) for _ in range(rng.choice((0, 1, 300, 2000)))]
    else:
        listed = list(range(min(memory.chips, rng.choice((1, 2, 4)))))
    chips = memory.chip_list(listed) if not draw.chance(0.02) else draw.one(32, 8)
    banks = [
        {
            "size": draw.one(64, 1 << 30, 1360544), "ours": draw.one(64, 0, 4096), "theirs": draw.one(64, 0, 4096),
            "largest_free": draw.one(64, 0, 1 << 20), "banks": draw.one(32, 12, 64), "unit": draw.one(32, 32, 64),
        }
        for _ in range(BANK_COUNT)
    ]  # fmt: skip
    memory.put_mesh(
        mesh, banks, turn=draw.one(32, 2, 4), state=draw.one(32, 1, 1, 1, 2), mesh_id=draw.one(32, 0, 0xFFFFFFFF),
        parent=draw.one(32, mesh, 0), chips=chips, chip_count=draw.one(32, len(listed)), arch=draw.one(32, 2, 3),
        cores=rng.choice(masks), l1_size=draw.one(64, 1499136), l1_base=draw.one(64, 104928),
        map_end=draw.one(64, 35168, 0), dram_base=draw.one(64, 64), buffers_ours=draw.one(64, 0, 3),
        buffers_theirs=draw.one(64, 0, 3), audits=draw.one(64, 0, 1), mismatches=draw.one(64, 0),
        audited=draw.one(64, 1000),
    )  # fmt: skip


def write_ring(draw: Numbers, memory: RingMemory, records: int) -> None:
    """Append records as an agent does, and update the table."""
    rng = draw.rng
    masks = [memory.blob(_mask(draw)) for _ in range(2)]
    names = [0, *(memory.blob(draw.text()) for _ in range(4))]
    if draw.chance(0.9) and not memory.get("head"):
        memory.append(RingEvent.OPENED, mesh=0)
    weights = {RingEvent.ALLOCATED: 8, RingEvent.FREED: 4, RingEvent.PROGRAM: 2, RingEvent.RUN: 2}
    events = [event for event in RingEvent for _ in range(weights.get(event, 1))]
    for _ in range(records):
        event = rng.choice(events)
        program = draw.one(32, 0, 0, 1, 2)
        memory.append(
            event if not (draw.extreme() and draw.chance(0.1)) else draw.one(8, 4),
            slot=draw.one(32, *range(memory.table_slots)), time=draw.one(64, 10**9, 2 * 10**9),
            kind=rng.randrange(5, len(KINDS)) if program else rng.randrange(5), layout=draw.one(8, 0, 2, 255),
            flags=draw.one(8, 0, 0, 1, 16), thread=draw.one(32, 1), address=draw.one(64, 64, 0x1000, 120000, 1300000),
            size=draw.one(64, 64, 4096, 1 << 20), per_bank=draw.one(32, 1, 2, 64, 4096), mesh=draw.one(16, 0, 0, 1),
            core_count=draw.one(16, 0, 4), cores=rng.choice(masks) if not draw.extreme() else draw.one(32, 8),
            program=program, name=rng.choice(names) if not draw.extreme() else draw.one(32, 8),
        )  # fmt: skip
    if draw.extreme() and draw.chance(0.1):
        memory.put(head=draw.one(64, memory.get("head")))


# -- recordings -----------------------------------------------------------------------------------------------------


def _server_record(draw: Numbers) -> bytes:
    """A record that only a server writes, as in a recording from elsewhere."""
    what = draw.rng.randrange(7)
    if what == 0:
        return _body(native.SEES, 0, json.dumps([draw.json_number(4095), draw.json_text()]).encode())
    if what == 1:
        pairs = [[draw.json_number(0, 4096), draw.json_number(0, 4096)] for _ in range(4)]
        return _body(
            native.AUDITED, draw.device(), json.dumps([draw.json_number(1), *pairs, draw.json_number(0)]).encode()
        )
    if what == 2:
        body = json.dumps(["Out of Memory: Not enough space to allocate", draw.json_text(), draw.json_text()])
        return _body(native.FAILED, draw.device(), body.encode())
    if what == 3:
        return allocated(draw, native.DESCRIBED)
    if what == 4:
        return opened(draw, native.CHIP_FOUND)
    if what == 5:
        op = draw.rng.choice((native.REJECTED, native.PROCESS_EXITED, native.PEAKS_RESET))
        return native.number_record(op, 0, draw.one(64, 1))
    return native.number_record(native.CLAIMED, draw.device(), 0)


def recording(draw: Numbers) -> bytes:
    """A recording of events with correct checksums and lengths."""
    rng = draw.rng
    out = io.BytesIO()
    entries: list[bytes] = []

    def entry(time: float, source: int, record: bytes) -> None:
        entries.append(pack("<IdI", 12 + len(record), time, source) + record)

    time = 1_794_790_000.0
    for source in (1, 2):
        process = [draw.json_number(100 + source), draw.json_number(1), draw.json_number(0), draw.json_text(),
                   draw.json_text(), draw.json_number(0)]  # fmt: skip
        name = rng.choice(("client", "agent", "legacy", "sim", *(_JSON_TEXTS if draw.extreme() else ())))
        about = {"process": process, "name": name, "confidence": rng.choice((1, 2, 3))}
        entry(time, source, b"\xb0" + json.dumps(about).encode())
        entry(time, source, opened(draw))
    if draw.chance(0.3):
        entry(time, 0, b"\xb1" + draw.text())
    for _ in range(rng.randrange(1, 40)):
        time = rng.choice(TIMES) if draw.extreme() else time + 0.25
        record = rng.choice(_RECORDS)(draw) if draw.chance(0.8) else _server_record(draw)
        if record[0] != native.SYNC:
            entry(time, rng.choice((1, 2)) if not draw.chance(0.01) else 0, record)
    file = BlockWriter(out)
    file.write(BlockType.FACTS, json.dumps({"start": draw.json_number(1)}).encode())
    file.write(BlockType.EVENTS, b"".join(entries), last=len(entries), time=rng.choice((time, *TIMES)))
    if draw.chance(0.5):
        file.finish()
    return out.getvalue()


# -- requests -------------------------------------------------------------------------------------------------------

_ORDINARY = {
    "machine": ("0", "1"), "state": ("tracked", "exited", "stale"), "chip": (WITNESS_UID, "1", "2", "assumed:0"),
    "core": ("0,0", "3,2", "7,7"), "pids": ("0", "1"), "since": ("start", "reset", "0", "1794790000", "phase:a"),
    "pid": ("1", "501", "1,501"), "op": ("", "ttnn.add"), "line": ("", "a.py:1 f"), "shape": ("", "[1] bfloat16 tile"),
    "program": ("", "pid 1 program 1"),
    "step": ("1", "10"), "until": ("1794790000", "0"), "kind": ("dram", "l1", "cb", "dram,cb"), "device": ("0", "1"),
    "min_size": ("0", "4096"), "text": ("ttnn", "a"), "sort": ("size", "newest", "oldest"),
    "limit": ("0", "1", "10000"), "offset": ("0", "5", "100000"),
    "by": ("op", "line", "stack", "shape", "program", "kind"),
    "format": ("json", "text"), "what": ("all", "kernels"), "ignore": ("ttnn", "a*\n[b"),
}  # fmt: skip
_STRANGE = (
    "", "-1", "0", "1e300", "-1e300", "nan", "inf", "-inf", "1e18", str(1 << 31), str(1 << 63), str(1 << 64),
    "9" * 5000, "0x" + "f" * 16, "\ud800", "\0", "\u202e", "../..", "1,2,3", "63,63", "64,64", "9999,9999", "-1,-1",
    "0_0", "\u0661", "assumed:" + "9" * 30, "253402300800", "x" * 4000, "5e-324", "1,", ",", " 1",
)  # fmt: skip


class Ask(NamedTuple):
    path: str
    query: dict[str, str]


def asks(draw: Numbers, routes: list[tuple[str, tuple[str, ...]]]) -> list[Ask]:
    """A usual request of each route, and one with one or two random parameters."""
    rng, found = draw.rng, []
    for path, parameters in routes:
        path = path.replace("{pid}", rng.choice(("1", "501", "0", "-1", "99999999999999999999", "x", "0x1")))
        required = {"chip": rng.choice((WITNESS_UID, "1", "2", "11"))} if path == "/cores" else {}
        found.append(Ask(path, required))
        query = dict(required)
        for name in parameters:
            if draw.chance(0.4):
                query[name] = rng.choice(_STRANGE) if draw.chance(0.5) else rng.choice(_ORDINARY[name])
        found.append(Ask(path, query))
    return found
