# SPDX-License-Identifier: Apache-2.0
"""Well-formed input with extreme values against a server's parts; `make fuzz` runs more cases."""

from __future__ import annotations

import pytest

from tests import fuzz
from tests.fuzz_grammar import Numbers, event_file, native_records
from tests.fuzz_known import KNOWN
from ttmem.recording.event_file import EventFileReader
from ttmem.wire.client_decode import NativeStream

CASES = 50


@pytest.mark.parametrize("start", range(0, 600, CASES))
def test_no_well_formed_input_hurts_another_client(start: int) -> None:
    assert fuzz.run_grammar(CASES, start) == CASES


@pytest.mark.parametrize("name", KNOWN)
def test_an_attack_that_once_worked_does_no_harm(name: str) -> None:
    assert fuzz.run_grammar(1, 0, None, "--known", name) == 1


def test_a_case_that_fails_is_named_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here because it may take no time at all."""
    with pytest.raises(AssertionError, match=r"case with seed 12 failed: Timeout"):
        fuzz.run_grammar(1, 12, None, "--case-seconds", "0.001")


@pytest.mark.parametrize("seed", range(50))
def test_the_grammar_is_well_formed(seed: int) -> None:
    """What it makes can be cut into records to the last byte, and the same seed makes the same."""
    data = native_records(Numbers(seed))
    assert data == native_records(Numbers(seed))
    assert sum(map(len, NativeStream().feed(data))) == len(data)


@pytest.mark.parametrize("seed", range(20))
def test_event_files_of_the_grammar_have_whole_entries(seed: int) -> None:
    import io

    data = event_file(Numbers(seed))
    reader = EventFileReader(io.BytesIO(data))
    assert len(list(reader.entries())) > 4
    assert not reader.cut
