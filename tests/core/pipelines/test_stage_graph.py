"""The order of stages, and what of it cannot be."""

from typing import Any

import pytest

from orchestrator.core.pipelines.pipeline import ALL, INPUT, Stage
from orchestrator.core.pipelines.stage_graph import (
    ancestors,
    followers,
    in_order,
    is_barrier,
    is_enough,
    on_the_way,
    problems,
)
from orchestrator.units import WHOLE


def stage(name: str, *sources: str, **fields: Any) -> Stage:
    return Stage(name=name, from_=sources or (INPUT,), **fields)


STAGES = (stage("caption"), stage("embed", "caption"), stage("report", "caption", "embed", command=("report",)))


def test_each_stage_stands_after_those_that_hand_over_to_it() -> None:
    assert in_order(STAGES) == STAGES
    assert in_order(STAGES[::-1]) == STAGES


def test_a_circle_is_named() -> None:
    with pytest.raises(ValueError, match="b and c hand over to each other"):
        in_order([stage("a"), stage("b", "c"), stage("c", "b")])


def test_ancestors_are_all_that_a_row_can_have_come_through() -> None:
    assert ancestors(STAGES, "report") == {INPUT, "caption", "embed"}
    assert ancestors(STAGES, "caption") == {INPUT}


def test_followers_are_those_that_are_handed_its_rows() -> None:
    assert [each.name for each in followers(STAGES, "caption")] == ["embed", "report"]
    assert followers(STAGES, "report") == ()


@pytest.mark.parametrize(
    ("gathered", "way"),
    [
        (ALL, {"caption", "embed", "tag"}),
        (INPUT, {"caption", "embed", "tag"}),
        ("caption", {"caption", "embed", "tag"}),
        ("embed", {"embed"}),
        (None, {"caption", "embed", "tag"}),
    ],
)
def test_on_the_way_to_a_group_is_what_comes_of_the_stage_that_it_gathers_by(
    gathered: str | None, way: set[str]
) -> None:
    summing = stage("sum", "tag", "embed", gather=gathered)
    assert on_the_way((*STAGES[:2], stage("tag", "caption"), stage("other", "caption"), summing), "sum") == way


def test_a_barrier_is_a_command_or_a_group_of_all() -> None:
    assert [is_barrier(each) for each in (*STAGES, stage("sum", "embed", gather=ALL))] == [False, False, True, True]
    assert not is_barrier(stage("sum", "embed", gather=INPUT))


@pytest.mark.parametrize(
    ("needs", "succeeded", "failed", "enough"),
    [(WHOLE, 3, 0, True), (WHOLE, 99, 1, False), (990_000, 99, 1, True), (990_000, 98, 2, False), (WHOLE, 0, 0, True)],
)
def test_what_a_stage_needs_is_a_share_of_what_should_have_come(
    needs: int, succeeded: int, failed: int, *, enough: bool
) -> None:
    assert is_enough(needs, succeeded=succeeded, failed=failed) is enough


@pytest.mark.parametrize("gathered", [ALL, INPUT, "caption"])
def test_what_fits_together_has_no_problems(gathered: str) -> None:
    gathering = stage("sum", "caption", "embed", gather=gathered, step="steps.py:sum", needs=1)
    assert list(problems((*STAGES, gathering))) == []


@pytest.mark.parametrize(
    ("wrong", "key", "why"),
    [
        (stage("x", step="steps.py:f"), "step", "first stage"),
        (stage("x", gather="all"), "gather", "first stage"),
        (stage("x", command=("cat",)), "command", "first stage"),
        (stage("x", "caption", "embed"), "from", "by gather or in a command only"),
        (stage("x", "caption", "caption", command=("cat",)), "from", "twice"),
        (stage("x", "caption", needs=1), "needs", "one by one"),
        (stage("x", "caption", step="steps.py:f", command=("cat",)), "step", "it has no step"),
        (stage("x", "caption", max_failed=0, command=("cat",)), "max-failed", "it has no max-failed"),
        (stage("x", "caption", gather="all"), "gather", "step is missing"),
        (stage("x", "caption", gather="all", command=("cat",)), "gather", "all rows anyway"),
        (
            stage("x", "caption", gather="embed", step="steps.py:f"),
            "gather",
            "embed is no ancestor of x; there are all, ",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told_with_its_key(wrong: Stage, key: str, why: str) -> None:
    [(name, found, said)] = problems((*STAGES, wrong))
    assert (name, found) == ("x", key)
    assert why in said


SPLIT = stage("split", "caption")
WHOLES = stage("whole", "split", gather=ALL, step="steps.py:f")


@pytest.mark.parametrize(
    ("more", "wrong", "why"),
    [
        ((), stage("x", "report", gather="caption", step="s.py:f"), "what the command of report prints"),
        ((SPLIT, WHOLES), stage("x", "whole", gather="split", step="s.py:f"), "a row of whole comes of several rows"),
        ((SPLIT,), stage("x", "split", "embed", gather="split", step="s.py:f"), "rows of embed do not come of split"),
        (
            (SPLIT, stage("one", "split", "embed", gather="caption", step="s.py:f")),
            stage("x", "one", gather="split", step="s.py:f"),
            "a row of one comes of several rows of split",
        ),
    ],
    ids=["command", "all between", "another way", "coarser"],
)
def test_what_cannot_be_gathered_by_is_told(more: tuple[Stage, ...], wrong: Stage, why: str) -> None:
    told = [said for name, key, said in problems((*STAGES, *more, wrong)) if (name, key) == ("x", "gather")]
    assert any(why in said for said in told)


def test_what_was_gathered_more_finely_can_be_gathered_again() -> None:
    lines = stage("lines", "split", gather="caption", step="s.py:f")
    assert list(problems((*STAGES[:2], SPLIT, lines, stage("x", "lines", gather=INPUT, step="s.py:f")))) == []
