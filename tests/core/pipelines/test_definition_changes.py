"""What has changed between two versions of a pipeline."""

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.definition_changes import definition_changes
from orchestrator.core.pipelines.pipeline import INPUT, Notify, Pipeline, Schedule, Stage

STAGE = Stage(name="caption", from_=(INPUT,), settings={"endpoint": ("ep1",)})
BEFORE = Pipeline(name="p", folder="/data", input="in.jsonl", schedule=Schedule(cron=("0 1 * * *",)), stages=(STAGE,))


def test_what_is_the_same_has_no_changes() -> None:
    assert definition_changes(BEFORE, BEFORE) == ()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"input": "new.jsonl"}, "input: in.jsonl → new.jsonl"),
        ({"input": None}, "input taken away: was in.jsonl"),
        ({"keep_us": 5}, "keep_us added: 5"),
        ({"schedule": Schedule(cron=("0 2 * * *",))}, "schedule.cron: 0 1 * * * → 0 2 * * *"),
        ({"schedule": None}, "schedule taken away: was cron"),
        ({"stages": (replace(STAGE, settings={"endpoint": ("ep2",)}),)}, "stages.caption.settings.endpoint: ep1 → ep2"),
    ],
)
def test_each_field_that_is_another_one(changed: dict[str, Any], told: str) -> None:
    assert definition_changes(BEFORE, replace(BEFORE, **changed)) == (told,)


def test_whom_messages_go_to_is_never_shown() -> None:
    with_address = replace(BEFORE, notify=Notify(url="https://hooks.example/secret"))
    [added] = definition_changes(BEFORE, with_address)
    other = replace(BEFORE, notify=Notify(url="https://hooks.example/other"))
    [changed] = definition_changes(with_address, other)
    assert (added, changed) == ("notify changed", "notify.url changed")


def test_long_values_are_cut() -> None:
    [change] = definition_changes(BEFORE, replace(BEFORE, input="x" * 1_000))
    assert len(change) < 150
