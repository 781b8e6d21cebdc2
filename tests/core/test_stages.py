"""The order of stages, and what of it cannot be."""

from typing import Any

import pytest

from orchestrator.core.pipelines import ALL, INPUT, Stage
from orchestrator.core.stages import ancestors, followers, in_order, problems


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
        (stage("x", "caption", needs=1), "needs", "one by one"),
        (stage("x", "caption", step="steps.py:f", command=("cat",)), "step", "it has no step"),
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
