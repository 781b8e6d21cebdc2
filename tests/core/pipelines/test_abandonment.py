"""When nobody works for too long, and who hears of it."""

import json

import pytest

from orchestrator.core.jobs.deadlines import EXPIRING_US
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.abandonment import (
    FORGOTTEN_US,
    GRACE_US,
    SAME_US,
    RunLeft,
    StageOf,
    Telling,
    abandoned_message,
    is_abandoned,
    is_new_episode,
    tellings,
)
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.pipeline import News, Notify
from orchestrator.core.pipelines.run_messages import FailureSample, MessageFigures
from orchestrator.units import DAY_US

NOW = 40 * DAY_US


@pytest.mark.parametrize(
    ("silent_us", "left_us", "is_so"),
    [
        (GRACE_US - 1, 0, False),
        (GRACE_US, 0, True),
        (GRACE_US, EXPIRING_US, True),
        (GRACE_US, EXPIRING_US + 1, False),
        (GRACE_US, -DAY_US, True),
        (FORGOTTEN_US, 0, True),
        (FORGOTTEN_US + 1, 0, False),
    ],
)
def test_it_is_told_between_a_minute_and_a_day_of_silence_and_shortly_before_a_result_is_gone(
    silent_us: int, left_us: int, is_so: bool
) -> None:
    assert is_abandoned(now=NOW, heard_at=NOW - silent_us, expires_at=NOW + left_us) is is_so


@pytest.mark.parametrize(
    ("told_at", "is_so"), [(None, True), (NOW, False), (NOW - SAME_US + 1, False), (NOW - SAME_US, True)]
)
def test_it_is_another_time_once_somebody_was_heard_of_long_after_it_was_told(told_at: int | None, is_so: bool) -> None:
    assert is_new_episode(told_at=told_at, heard_at=NOW) is is_so


def left(run: int, notify: str | None = None, stage: StageOf | None = None) -> RunLeft:
    return RunLeft(run=run, name=f"run {run}", notify=notify, waiting=run, stage=stage)


def test_each_is_told_once_of_all_that_concerns_him() -> None:
    hook = "https://hooks.example/1"
    notify = Notify(on=(News.ABANDONED,), to=("ops", "night"), url=hook)
    first = left(1, f"ops:failed\n{hook}")
    second = left(2, f"ops:abandoned\n{hook}\nops")
    third = left(3, stage=StageOf(flow=7, flow_name="f", pipeline=4, notify=notify))
    fourth = left(4, stage=StageOf(flow=8, flow_name="g", pipeline=4, notify=notify))
    fifth = left(5, stage=StageOf(flow=9, flow_name="h", pipeline=5))
    everything = [first, second, third, fourth, fifth]
    assert tellings(everything, {"pager"}) == [
        Telling("pager", tuple(everything)),
        Telling("", (first, second)),
        Telling("ops", (second, third, fourth)),
        Telling("", (third, fourth)),
        Telling("night", (third, fourth)),
    ]
    assert tellings([second, third], {"ops"})[0] == Telling("ops", (second, third)), "named, and asking by itself"
    assert tellings([], {"pager"}) == []
    assert tellings([left(1)], ()) == []


def test_the_message_says_how_many_of_what_until_when_and_what_to_type() -> None:
    figures = MessageFigures(spent=1.23456789, kinds=(FailureSample(3, "CUDA\nout of memory"),))
    jobs: dict[str, int] = {State.SUCCEEDED: 4, State.FAILED: 3, State.OUTSTANDING: 2, State.QUEUED: 1}
    body = abandoned_message([left(2)], jobs, why="it was\nkilled", expires_at=NOW, at=NOW, figures=figures)
    assert json.loads(body) == {
        "type": "run.abandoned",
        "timestamp": "1970-02-10T00:00:00Z",
        "data": {
            "run": "run 2", "why": "it was", "waiting": 2, "expires": "1970-02-10T00:00:00Z", "rows": 10, "succeeded": 4,
            "failed": 3, "cancelled": 0, "unfinished": 3, "spent": 1.234568, "kinds": [{"n": 3, "error": "CUDA out of memory"}],
            "commands": [["resume-run", "run 2", "", ""]],
        },
    }  # fmt: skip
    stage = StageOf(flow=7, flow_name="f@1", pipeline=4)
    of_flow = abandoned_message(
        [left(1, stage=stage), left(2)], jobs, why="x", expires_at=NOW, at=NOW, figures=MessageFigures()
    )
    told = json.loads(of_flow)
    assert (told["type"], told["data"]["flow"], told["data"]["more"], told["data"]["waiting"]) == (
        "flow.abandoned", "f@1", 1, 3,
    )  # fmt: skip
    assert told["data"]["commands"] == [["serve", "", "", ""]]
    alone = json.loads(
        abandoned_message([left(1, stage=stage)], jobs, why="x", expires_at=NOW, at=NOW, figures=MessageFigures())
    )
    assert alone["data"]["commands"] == [["serve", "", "", ""]], "a stage goes on with its flow"


def test_in_words_it_names_the_first_and_how_many_more() -> None:
    data = {"run": "night", "more": 2, "why": "killed", "waiting": 4_310, "expires": "2026-11-28T02:40:00Z", "rows": 9}
    body = {"type": "run.abandoned", "data": {**data, "commands": ["orchestrator serve"]}}
    letter = letter_of(json.dumps(body).encode())
    assert letter.title == "night and 2 more are about to lose results: nobody works on them"
    assert letter.figures[:2] == (("at the service", "4,310 jobs"), ("may be gone from", "2026-11-28T02:40:00Z"))
    assert not letter.is_good
