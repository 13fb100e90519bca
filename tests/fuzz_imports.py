# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of `ttmem import`: files of every form that it reads, with values, keys, entries, rows and bytes changed.

`python -m tests.fuzz --kind imports` runs until stopped and prints the seed of a failing case. The unit tests run some
hundred cases. A case passes if the command writes a readable recording, or refuses in one sentence.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.hostile import HOSTILE, unprintable
from ttmem.account.ledger import Ledger
from ttmem.cli import main as ttmem
from ttmem.model.geometry import BOARDS
from ttmem.recording.blocks import RecordingError
from ttmem.recording.recording_file import Recording

DATA = Path(__file__).parent / "data" / "imports"
_FORMS = ("n150_capture.json", "n150_virtual.json", "n300_report.json", "n300_db.sql")
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "-1",
        "1e999",
        "NaN",
        "0x10",
        "1 << 9",
        HOSTILE,
        "\ud800",
        "9" * 5000,
        "[1, 2]",
        "{}",
    ),
    *(-1, 0, 1, 255, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, 1 << 70, 10**30, -(1 << 63), -(10**30)),
    *(0.5, 1e308, -1e308, float("nan"), float("inf"), -float("inf")),
    *([], {}, [None], {"a": 1}, [[]], [{}], [1, "a"], {"x": {"y": [1]}}, {"device_id": 1 << 40}, ["x"] * 40),
)
_PLAIN = HOSTILE.encode("ascii", "ignore").decode()  # a database does not accept half surrogate pairs
_CELLS = (None, -1, 0, 1 << 40, (1 << 63) - 1, -(1 << 63), 1.5, 1e300, "", "x", "NaN", b"\xff\0", _PLAIN, "[]", "[{}]")
_KEYS = ("node_type", "params", "counter", "connections", "device_id", "address", "size", "name", "buffer_type", "x")


class Failure(Exception):
    """What went wrong in a case."""


def one(seed: int, folder: Path) -> str:
    """Run one case in an empty folder. Returns its result; raises Failure if it is neither of the two."""
    rng = random.Random(seed)
    path = _write(rng, folder)
    out = folder / "out.ttmem"
    arguments = ["import", str(path), "-o", str(out)]
    if rng.random() < 0.3:
        arguments += ["--board", rng.choice(sorted(BOARDS))]
    if path.suffix == ".sqlite" and rng.random() < 0.3:
        arguments += ["--rank", str(rng.choice((0, 1, 7, 1 << 70)))]
    if rng.random() < 0.5:
        arguments.append("--json")
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = ttmem(arguments)
    error = complained.getvalue()
    if code == 0:
        _check_events(out)
        if unprintable(said.getvalue()):
            raise Failure(f"unprintable: {said.getvalue()!r}")
        return "imported"
    if code != 1 or "internal error" in error or len(error.splitlines()) != 1 or unprintable(error):
        raise Failure(f"exit code {code}: {error}")
    if out.exists():
        raise Failure("refused, and wrote a file")
    return "refused"


def _check_events(out: Path) -> None:
    """Check that all readers can read the written file."""
    ledger = Ledger()
    try:
        with Recording(str(out)) as recording:
            recording.replay(ledger)
            if recording.problems:
                raise Failure(f"what was written is damaged: {recording.problems}")
    except RecordingError as error:
        raise Failure(f"what was written cannot be read: {error}") from None
    for arguments in (["replay"], ["replay", "--peaks"], ["replay", "--by", "op"], ["explain"], ["l1", "--file"]):
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = ttmem([*arguments, str(out)])
        if "internal error" in complained.getvalue() or code not in (0, 1):
            raise Failure(f"{' '.join(arguments)}: exit code {code}: {complained.getvalue()}")
        if unprintable(said.getvalue()):
            raise Failure(f"{' '.join(arguments)}: unprintable: {said.getvalue()!r}")


# -- files -------------------------------------------------------------------------------------------------------


def _write(rng: random.Random, folder: Path) -> Path:
    form = rng.choice(_FORMS)
    if form.endswith(".sql"):
        return _database(rng, folder)
    document = copy.deepcopy(_document(form))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        document = _changed(rng, document)
    path = folder / form
    path.write_bytes(_damaged(rng, _text(rng, document)))
    if form == "n300_report.json":
        beside = _document("n300_report.python_io.json")
        if rng.random() < 0.5:
            beside = _changed(rng, copy.deepcopy(beside))
        (folder / "n300_report.python_io.json").write_bytes(_damaged(rng, _text(rng, beside)))
    return path


@functools.cache
def _document(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def _text(rng: random.Random, document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=rng.random() < 0.7).encode("utf-8", "surrogatepass")


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(inner, (*path, key))


def _changed(rng: random.Random, document: Any) -> Any:
    """One value, key or entry changed, anywhere."""
    places = list(_places(document))
    if not places or rng.random() < 0.01:
        return rng.choice(_VALUES)
    *above, key = rng.choice(places)
    inside = document
    for step in above:
        inside = inside[step]
    how = rng.randrange(10)
    if how < 6:
        inside[key] = copy.deepcopy(rng.choice(_VALUES))
    elif how == 6:
        del inside[key]
    elif isinstance(inside, dict):
        inside[rng.choice(_KEYS)] = inside.pop(key) if how == 7 else copy.deepcopy(inside[key])
    elif how == 7:
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
    else:
        inside[key] = [inside[key]] if how == 8 else {"inner": inside[key]}
    return document


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Mostly unchanged; else cut off, or with bytes overwritten or inserted."""
    out = bytearray(data)
    how = rng.randrange(12)
    at = rng.randrange(len(out) + 1)
    if how == 0:
        del out[at:]
    elif how == 1:
        out[at : at + 1] = rng.randbytes(rng.randrange(1, 4))
    elif how == 2:
        out[at:at] = out[max(0, at - 200) : at]
    elif how == 3:
        out[at:at] = rng.choice((b"[" * 3000, b"\xff\xfe", b"\0", b"NaN", b"\xef\xbb\xbf", b"1e999", b'"'))
    return bytes(out)


def _database(rng: random.Random, folder: Path) -> Path:
    path = folder / "db.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "n300_db.sql").read_text())
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(rng.choice((1, 1, 2, 5))):
        table = rng.choice(tables)
        with contextlib.suppress(sqlite3.Error, OverflowError):
            _change_table(rng, connection, table)
    connection.commit()
    connection.close()
    path.write_bytes(_damaged(rng, path.read_bytes()))
    return path


def _change_table(rng: random.Random, connection: sqlite3.Connection, table: str) -> None:
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    if not columns:  # it has been dropped
        return
    column = rng.choice(columns)
    how = rng.randrange(10)
    some = f'WHERE rowid IN (SELECT rowid FROM "{table}" ORDER BY rowid LIMIT 1 OFFSET {rng.randrange(40)})'
    if how < 5:
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? {rng.choice(("", some))}', (rng.choice(_CELLS),))
    elif how == 5:
        connection.execute(f'DELETE FROM "{table}" {rng.choice(("", some))}')
    elif how == 6:
        connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" {some}')
    elif how == 7:
        connection.execute(rng.choice((f'DROP TABLE "{table}"', f'ALTER TABLE "{table}" DROP COLUMN "{column}"')))
    elif "captured_graph" in columns:
        for number, text in connection.execute("SELECT rowid, captured_graph FROM captured_graph").fetchall():
            if rng.random() < 0.5:
                changed = json.dumps(_changed(rng, json.loads(text)))
                connection.execute("UPDATE captured_graph SET captured_graph = ? WHERE rowid = ?", (changed, number))
    else:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')


# -- many cases --------------------------------------------------------------------------------------------------


def run(seed: int, cases: int | None = None, seconds: float = 0.0) -> dict[str, int]:
    """Run a number of cases, or until the time is over. Returns the number of cases with each result."""
    began, found = time.monotonic(), {"imported": 0, "refused": 0}
    for number in count() if cases is None else range(cases):
        if seconds and time.monotonic() - began > seconds:
            break
        with tempfile.TemporaryDirectory(prefix="ttmem-fuzz-") as folder:
            try:
                found[one(seed + number, Path(folder))] += 1
            except Failure as failure:
                raise Failure(f"seed {seed + number}: {failure}") from None
    return found
