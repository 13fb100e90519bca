# SPDX-License-Identifier: Apache-2.0
"""The state of the dashboard: snapshots, the selected chip, chips that come and go."""

from __future__ import annotations

from tests.screens import picture_of as snapshot
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.dashboard_state import Answer, Model


def chip_ids(model: Model) -> list[str]:
    return [chip["chip"] for chip in model.chips]


def test_nothing_is_known_at_first() -> None:
    model = Model()
    assert (model.chips, model.processes, model.chip(), model.selected) == ([], [], None, None)
    model.choose(1)
    assert model.selected is None


def test_the_first_chip_is_chosen_until_another_is() -> None:
    model = Model()
    model.take(snapshot("a", "b", "c"), 1.0, 1.0)
    assert model.selected == "a"
    model.choose(1)
    model.take(snapshot("a", "b", "c"), 2.0, 2.0)
    assert model.selected == "b"
    model.choose(9)
    assert model.selected == "c"
    model.choose(-9)
    assert model.selected == "a"


def test_a_chip_that_goes_and_comes_back_is_the_chosen_one_again() -> None:
    model = Model()
    model.take(snapshot("a", "b", "c"), 1.0, 1.0)
    model.choose(1)
    model.take(snapshot("a", "c"), 2.0, 2.0)
    assert model.selected == "a"
    model.take(snapshot("a", "b", "c"), 3.0, 3.0)
    assert model.selected == "b"
    model.take(snapshot("a", "c"), 4.0, 4.0)
    model.choose(1)  # the user selects another one
    model.take(snapshot("a", "b", "c"), 5.0, 5.0)
    assert model.selected == "c"


def test_no_chip_for_a_while() -> None:
    model = Model()
    model.take(snapshot("a", "b"), 1.0, 1.0)
    model.choose(1)
    model.take(snapshot(), 2.0, 2.0)
    assert model.selected is None
    model.take(snapshot("a", "b"), 3.0, 3.0)
    assert model.selected == "b"


def test_only_some_chips() -> None:
    model = Model(wanted=("b",))
    model.take(snapshot("a", "b"), 1.0, 1.0)
    assert (chip_ids(model), model.message) == (["b"], None)
    model.pick(("a", "nine"))
    assert chip_ids(model) == ["a"]
    assert model.message is not None
    assert "there is no chip 'nine'; there are chip a, chip b" in model.message
    model.pick(("nine",))
    assert chip_ids(model) == ["a", "b"], "of none of them is known, so all are shown"
    model.pick(())
    assert chip_ids(model) == ["a", "b"]


def test_a_pause_keeps_the_picture_and_not_the_past() -> None:
    model = Model()
    model.paused = True
    model.take(snapshot("a"), 1.0, 1.0)
    assert chip_ids(model) == ["a"], "a first picture is shown all the same"
    model.take(snapshot("a", "b"), 2.0, 2.0)
    assert (chip_ids(model), model.now, model.past.newest) == (["a"], 1.0, 2.0)
    model.paused = False
    model.take(snapshot("a", "b"), 3.0, 3.0)
    assert (chip_ids(model), model.now) == (["a", "b"], 3.0)


def test_a_pause_keeps_the_answers_too() -> None:
    model = Model()
    old, new = Answer({"n": 1}, None, 1.0), Answer({"n": 2}, None, 2.0)
    model.take_answers({"/cores": old}, ["/cores"], 1.0)
    model.paused = True
    model.take_answers({"/cores": new, "/allocations": new}, ["/cores", "/allocations"], 2.0)
    assert model.answers == {"/cores": old, "/allocations": new}, "what is asked for the first time is answered"
    model.take_answers({}, ["/allocations"], 900.0)
    assert "/cores" in model.answers, "however long the pause is"
    model.paused = False
    model.take_answers({"/cores": new}, ["/cores"], 900.0)
    assert model.answers["/cores"] == new


def test_what_nobody_wants_any_more_goes_after_a_while() -> None:
    """Selecting many cores one after the other does not accumulate answers."""
    model = Model()
    for number in range(1000):
        model.take_answers(
            {f"/cores?core={number}": Answer({}, None, float(number))}, [f"/cores?core={number}"], float(number)
        )
    assert 1 < len(model.answers) < 20
    model.take_answers({}, ["/cores?core=999"], 5000.0)
    assert list(model.answers) == ["/cores?core=999"], "one that took long is not asked for again soon"


def test_it_hides_itself() -> None:
    model = Model(hidden=7)
    model.take(snapshot("a", pids=(6, 7, 8)), 1.0, 1.0)
    assert [process["pid"] for process in model.processes] == [6, 8]
    unknown = Model()
    unknown.take({**snapshot("a"), "processes": [blank.process(None, "tracked")]}, 1.0, 1.0)  # type: ignore[typeddict-item]
    assert len(unknown.processes) == 1, "a process of unknown pid is somebody else"
