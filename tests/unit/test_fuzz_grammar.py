# SPDX-License-Identifier: Apache-2.0
"""Well-formed input with extreme values against a server's parts; `make fuzz` runs more cases."""

from __future__ import annotations

import io

import pytest

from tests import fuzz
from tests.fuzz_grammar import Numbers, native_records, recording
from tests.fuzz_known import KNOWN
from ttmem.recording.recording_file import Recording
from ttmem.wire.client_decode import NativeStream

CASES = 20
PROCESSES = 4


@pytest.mark.parametrize("start", range(0, 4 * CASES, CASES))
def test_no_well_formed_input_hurts_another_client(start: int) -> None:
    assert fuzz.run_grammar(CASES, start) == CASES


@pytest.mark.parametrize("number", range(PROCESSES))
def test_an_attack_that_once_worked_does_no_harm(number: int) -> None:
    """All in a few processes, whose start takes longer than most attacks; an error contains the name of the attack."""
    names = list(KNOWN)[number::PROCESSES]
    assert fuzz.run_grammar(1, 0, None, "--known", *names) == len(names)


def test_a_case_that_fails_is_named_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case fails because its time limit is nearly 0."""
    with pytest.raises(AssertionError, match=r"case with seed 12 failed: Timeout"):
        fuzz.run_grammar(1, 12, None, "--case-seconds", "0.001")


@pytest.mark.parametrize("seed", range(50))
def test_the_grammar_is_well_formed(seed: int) -> None:
    """The output consists of whole records to the last byte, and the same seed gives the same output."""
    data = native_records(Numbers(seed))
    assert data == native_records(Numbers(seed))
    assert sum(map(len, NativeStream().feed(data))) == len(data)


@pytest.mark.parametrize("seed", range(20))
def test_recordings_of_the_grammar_have_whole_blocks(seed: int) -> None:
    found = Recording(io.BytesIO(recording(Numbers(seed))))
    assert not found.problems
