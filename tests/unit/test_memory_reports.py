# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports: files of ttnn 0.81.1, and damaged versions of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import not_none
from ttmem.model.kinds import Kind
from ttmem.sources.memory_reports import (
    DETAILED,
    KINDS,
    L1_SUMMARY,
    SUMMARY,
    Amounts,
    Block,
    L1Space,
    Memory,
    MemoryReport,
    ReportError,
    State,
    read,
)

SAMPLES = Path(__file__).parent.parent / "data" / "memory_reports"
L1_TITLE = "This report indicates available space for interleaving L1 buffers"


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """The files of one dump, to be damaged."""
    for name in (SUMMARY, L1_SUMMARY, DETAILED):
        shutil.copyfile(SAMPLES / name, tmp_path / name)
    return tmp_path


def only(folder: Path) -> MemoryReport:
    (report,) = read(str(folder)).reports
    return report


def memory(folder: Path, kind: Kind) -> Memory:
    (state,) = only(folder).states
    return next(memory for memory in state.memories if memory.kind is kind)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_dump() -> None:
    found = read(str(SAMPLES))
    assert found.problems == ()
    assert [report.prefix for report in found.reports] == ["after_", "", "program_"]
    after = found.reports[0]
    assert {file.name for file in after.files} == {f"after_{name}" for name in (SUMMARY, L1_SUMMARY, DETAILED)}
    assert {file.modified for file in after.files} <= {path.stat().st_mtime for path in SAMPLES.iterdir()}
    (state,) = after.states
    assert (state.program, state.l1_space) == (None, L1Space(1295008, 64 * 1295008))
    dram, l1, small = state.memories
    assert [m.kind for m in state.memories] == [Kind.DRAM, Kind.L1, Kind.L1_SMALL]
    assert [m.banks for m in state.memories] == [12, 64, 64]
    assert l1.per_bank == Amounts(total=1360544, allocated=32768, free=1327776, largest_free=1295008)
    assert l1.all_banks == Amounts(64 * 1360544, 64 * 32768, 64 * 1327776, 64 * 1295008)
    assert l1.blocks == (
        Block(0, 1327776, 32768, 1, None, False),
        Block(1, 1295008, 32768, 2, 0, True),
        Block(2, 0, 1295008, None, 1, False),
    )
    assert dram.per_bank == Amounts(1072340928, 176128, 1072164800, 1072164800)
    assert small.per_bank == Amounts(32768, 0, 32768, 32768)


def test_programs_by_their_number() -> None:
    states = read(str(SAMPLES)).reports[2].states
    assert [state.program for state in states] == [0, 2, 4]
    # Each has one DRAM tensor more than the one before.
    assert [not_none(state.memories[0].per_bank).allocated for state in states] == [n * 176128 for n in (1, 2, 3)]
    assert [len(not_none(state.memories[0].blocks)) for state in states] == [2, 3, 4]
    assert all(m.banks == (12 if m.kind is Kind.DRAM else 64) for state in states for m in state.memories)
    assert {state.l1_space for state in states} == {L1Space(1295008, 64 * 1295008)}


def test_blocks_add_up_to_what_the_summary_says() -> None:
    for report in read(str(SAMPLES)).reports:
        for state in report.states:
            for m in state.memories:
                assert not_none(m.per_bank).total == sum(block.size for block in not_none(m.blocks))
                assert not_none(m.per_bank).allocated == sum(
                    block.size for block in not_none(m.blocks) if block.allocated
                )
                assert not_none(m.per_bank).largest_free == max(
                    block.size for block in not_none(m.blocks) if not block.allocated
                )


@pytest.mark.parametrize(
    ("amounts", "share"),
    [
        (Amounts(100, 50, 50, 25), 0.5),
        (Amounts(100, 50, 50, 50), 0.0),
        (Amounts(100, 100, 0, 0), None),
        (Amounts(100, 50, 50, None), None),
        (Amounts(100, 50, 50, 60), None),
    ],
)
def test_fragmentation(amounts: Amounts, share: float | None) -> None:
    assert amounts.fragmentation == share


def test_unknown_is_none(reports: Path) -> None:
    (reports / DETAILED).unlink()
    alone = memory(reports, Kind.L1)
    assert (alone.banks, alone.all_banks, alone.blocks) == (None, None, None)
    assert not_none(alone.per_bank).allocated == 32768
    shutil.copyfile(SAMPLES / DETAILED, reports / DETAILED)
    (reports / SUMMARY).unlink()
    other = memory(reports, Kind.L1)
    assert (other.banks, other.per_bank) == (None, None)
    assert other.all_banks == Amounts(87074816, 2097152, 84977664, None)
    assert len(not_none(other.blocks)) == 3
    (reports / DETAILED).unlink()
    assert only(reports).states == (State(None, (), L1Space(1295008, 82880512)),)
    (reports / L1_SUMMARY).unlink()
    with pytest.raises(ReportError, match=r"no memory reports in .*: expected files like memory_usage_summary.csv"):
        read(str(reports))


def test_no_region_for_a_kind_is_no_contradiction(reports: Path) -> None:
    replace(reports / SUMMARY, ",32768,0,32768,32768", ",0,0,0,0")
    text = (reports / DETAILED).read_text()
    head, _, _ = text.partition(",L1_SMALL\n")
    section = ",L1_SMALL\n,Total allocatable (B):,0\n,Total allocated (B):,0\n,Total free (B):,0\nBlock table:\n"
    table = " Block Address Size PrevID NextID Allocated \n 0 0 0 none none no\n"
    (reports / DETAILED).write_text(head + section + table)
    assert read(str(reports)).problems == ()
    small = memory(reports, Kind.L1_SMALL)
    assert (small.banks, small.per_bank) == (None, Amounts(0, 0, 0, 0))


@pytest.mark.parametrize("none", ["none", "-1", "18446744073709551615"])
def test_every_way_to_say_none(none: str, reports: Path) -> None:
    text = (reports / DETAILED).read_text()
    (reports / DETAILED).write_text(text.replace("none", none))
    assert read(str(reports)).problems == ()
    assert [(block.previous, block.next) for block in not_none(memory(reports, Kind.L1).blocks)] == [
        (1, None),
        (2, 0),
        (None, 1),
    ]


def test_lines_may_end_as_on_windows(reports: Path) -> None:
    expected = only(reports).states
    for path in reports.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert only(reports).states == expected


@pytest.mark.parametrize("name", [SUMMARY, DETAILED])
def test_files_that_were_not_written_together(name: str, reports: Path) -> None:
    shutil.copyfile(SAMPLES / f"program_{name}", reports / f"program_{name}")
    old, new = (
        (",32768,1327776", ",65536,1295008") if name == SUMMARY else ("allocated (B):,2097152", "allocated (B):,2")
    )
    replace(reports / name, old, new)
    first, _ = read(str(reports)).reports
    assert any("its numbers of L1 are not those of the other files" in text for text in read(str(reports)).problems)
    assert [m.banks for m in first.states[0].memories] == [12, None, 64]


def test_another_largest_block_was_not_written_together_either(reports: Path) -> None:
    replace(reports / L1_SUMMARY, ",1295008,", ",1295007,")
    (problem,) = read(str(reports)).problems
    assert "its numbers of L1 are not those" in problem


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        (SUMMARY, "", 1, "the file ends: it was cut off, or is still being written"),
        (SUMMARY, "\x7fELF\x02\x01\x01\n", 1, "expected ', Total Allocatable Size"),
        (SUMMARY, ", Total (KB), Used\n", 1, "but it is ', Total (KB), Used'"),
        (SUMMARY, "{h}", 2, "expected the row of DRAM, but the file ends"),
        (SUMMARY, "{h},1,1,0,0\n", 3, "expected the row of L1, but the file ends"),
        (SUMMARY, "{h},1,1,0,0\n,1,1,0,0\n,1,1,0,0\n,1,1,0,0\n", 5, "expected the end of the file"),
        (SUMMARY, "{h},1,1,0\n", 2, "the row of DRAM, 5 fields with commas between them, but it is ',1,1,0'"),
        (SUMMARY, "{h}7,1,1,0,0\n", 2, "expected nothing before the first comma"),
        (SUMMARY, "{h},1,-1,0,0\n", 2, "expected numbers of bytes, but it is ',1,-1,0,0'"),
        (SUMMARY, "{h},1,1,0,18446744073709551615\n", 2, "expected numbers of bytes"),
        (SUMMARY, "{h},1,1,0,\u0663\n", 2, "expected numbers of bytes"),
        (SUMMARY, "{h},1,1,0," + "9" * 5000 + "\n", 2, "expected numbers of bytes"),
        (SUMMARY, "{h},1,1,0,12", 2, "expected a complete line, but it is ',1,1,0,12'"),
        (SUMMARY, "Program ID{h},1,1,0,0\n", 2, "expected the number of a program before the first comma"),
        (L1_SUMMARY, "title\n", 1, f"expected '{L1_TITLE}', but it is 'title'"),
        (L1_SUMMARY, f"{L1_TITLE}\nx\n", 2, "expected ', Largest Contiguous Free Block"),
        (L1_SUMMARY, "{h}", 3, "expected the row of L1, but the file ends"),
        (L1_SUMMARY, "{h},1,2\n,1,2\n", 4, "expected the end of the file"),
        (DETAILED, "", 1, "expected a section such as ',DRAM', but the file ends"),
        (DETAILED, "\n", 1, "expected the section of DRAM"),
        (DETAILED, ",L1\n", 1, "expected the section of DRAM"),
        (DETAILED, ",DRAM\n,Total free (B):,1\n", 2, "expected ',Total allocatable (B):,' and a number"),
        (DETAILED, ",DRAM\n,Total allocatable (B):,x\n", 2, "expected numbers of bytes"),
        (DETAILED, "{t},L1\n", 5, "expected 'Block table:', but it is ',L1'"),
        (DETAILED, "{t}Block table:\nAddress Size\n", 6, "expected the columns Block Address Size"),
        (DETAILED, "{t}{c}", 7, "expected a row of the block table, but the file ends"),
        (DETAILED, "{t}{c}0 0 1 none 1 maybe\n", 7, "expected a row of the block table, but it is"),
        (DETAILED, "{t}{c}0 0 1 none 1 yes\n", 8, "expected block 1 in the block table, but the file ends"),
        (DETAILED, "{t}{c}0 0 1 none none yes\n", 8, "expected the section of L1, such as ',L1', but the file ends"),
        (DETAILED, "{t}{c}0 0 1 none none yes\n3,L1\n", 8, "expected nothing before the first comma"),
        (DETAILED, "{a}{t}", None, "expected the end of the file"),
        (DETAILED, "0,DRAM\n" + "x" * (2 << 20), 2, "expected a complete line, but it is 'xxx"),
    ],
)
def test_what_is_wrong_is_named_and_hurts_nothing_else(
    name: str, text: str, line: int | None, words: str, reports: Path
) -> None:
    headers = {SUMMARY: 1, L1_SUMMARY: 2, DETAILED: 4}
    whole = (SAMPLES / name).read_text()
    head = "".join(whole.splitlines(keepends=True)[: headers[name]])
    columns = "Block table:\n Block Address Size PrevID NextID Allocated \n"
    text = text.replace("{h}", head).replace("{t}", head).replace("{c}", columns).replace("{a}", whole)
    (reports / name).write_text(text)
    shutil.copyfile(SAMPLES / f"after_{name}", reports / f"after_{name}")
    found = read(str(reports))
    said = [problem for problem in found.problems if problem.startswith(f"{reports / name}: line ")]
    assert len(said) == 1
    assert words in said[0]
    assert len(said[0]) < 400
    if line is not None:
        assert f": line {line}: " in said[0]
    after, spoilt = found.reports
    assert (after.prefix, spoilt.prefix) == ("after_", "")
    assert len(after.states) == 1
    missing = {SUMMARY: "per_bank", DETAILED: "blocks"}
    for m in spoilt.states[0].memories:
        assert all(getattr(m, field) is not None for other, field in missing.items() if other != name)


def test_what_stands_before_the_trouble_is_kept(tmp_path: Path) -> None:
    for name in (SUMMARY, L1_SUMMARY, DETAILED):
        lines = (SAMPLES / f"program_{name}").read_text().splitlines(keepends=True)
        (tmp_path / f"program_{name}").write_text("".join(lines[:-1]))
    found = read(str(tmp_path))
    first, second, third = found.reports[0].states
    assert (first.program, second.program, third.program) == (0, 2, 4)
    assert second == read(str(SAMPLES)).reports[2].states[1]
    assert [m.kind for m in third.memories] == [Kind.DRAM, Kind.L1]
    assert len(found.problems) == 2, "a table of programs may end after any of them, the other two files may not"


def test_allocations_that_are_no_files(reports: Path) -> None:
    os.mkfifo(reports / f"pipe_{SUMMARY}")
    (reports / f"folder_{DETAILED}").mkdir()
    (reports / f"nowhere_{L1_SUMMARY}").symlink_to("nothing")
    found = read(str(reports))
    assert len(found.problems) == 3
    assert sum("not a regular file" in problem for problem in found.problems) == 2
    assert any("No such file or directory" in problem for problem in found.problems)
    assert [len(report.states) for report in found.reports] == [1, 0, 0, 0]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"cannot read .*/nothing: No such file or directory"):
        read(str(tmp_path / "nothing"))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[31m") + SUMMARY
    (tmp_path / name).write_text("")
    found = read(str(tmp_path))
    assert found.reports[0].prefix == "\\xff\\x1b[31m"
    assert "\x1b" not in found.problems[0]
    (found.problems[0] + found.reports[0].files[0].name).encode()


def known(found: MemoryReport) -> list[Memory]:
    return [m for state in found.states for m in state.memories]


@pytest.mark.parametrize("name", [SUMMARY, L1_SUMMARY, DETAILED])
@pytest.mark.parametrize("prefix", ["", "program_"])
def test_wherever_a_file_is_cut_no_number_is_invented(name: str, prefix: str, tmp_path: Path) -> None:
    whole = (SAMPLES / (prefix + name)).read_bytes()
    path = tmp_path / (prefix + name)
    path.write_bytes(whole)
    states = only(tmp_path).states
    step = 1 if len(whole) < 1000 else 7
    for cut in (*range(0, len(whole), step), len(whole) - 1):
        path.write_bytes(whole[:cut])
        found = read(str(tmp_path))
        for state, original in zip(found.reports[0].states, states):
            assert state.program == original.program
            assert set(state.memories) <= set(original.memories)
            assert state.l1_space in (None, original.l1_space)
        # Only if the last record is one of a program, its loss is not noticed.
        ended_well = prefix and 0 < len(found.reports[0].states) < 3 and whole[cut - 1 : cut] == b"\n"
        assert found.problems or ended_well or (prefix and name != DETAILED and not found.reports[0].states)


@settings(max_examples=150)
@given(
    name=st.sampled_from([SUMMARY, L1_SUMMARY, DETAILED]),
    at=st.integers(0, 9000),
    gone=st.integers(0, 50),
    put=st.binary(max_size=20) | st.sampled_from([b",", b"\n", b"none", b"-1", b"Block table:\n", b",L1\n", b"0"]),
)
def test_garbage_is_a_problem_or_a_report_and_never_a_surprise(
    name: str, at: int, gone: int, put: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("reports", numbered=True)
    for other in (SUMMARY, L1_SUMMARY, DETAILED):
        data = (SAMPLES / f"program_{other}").read_bytes()
        if other == name:
            at %= len(data)
            data = data[:at] + put + data[at + gone :]
        (folder / other).write_bytes(data)
    found = read(str(folder))
    shutil.rmtree(folder)
    assert all(str(folder) in problem for problem in found.problems)
    for m in known(found.reports[0]):
        assert m.kind in KINDS
        for amounts in (m.per_bank, m.all_banks):
            assert amounts is None or all(value is None or value >= 0 for value in amounts)
        assert m.banks is None or m.banks * not_none(m.per_bank).total == not_none(m.all_banks).total
