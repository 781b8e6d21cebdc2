"""What people are told of single runs."""

import json

import pytest

from orchestrator.core.pipelines.run_messages import RunNews, run_end, run_message
from tests.factories import S


@pytest.mark.parametrize(
    ("jobs", "news"),
    [
        ({}, None),
        ({"queued": 1, "succeeded": 3}, None),
        ({"uncertain": 1}, None),
        ({"succeeded": 3, "queued": 0, "uncertain_seen": 7}, RunNews.DONE),
        ({"succeeded": 3, "failed": 1}, RunNews.PARTIAL),
        ({"succeeded": 3, "cancelled": 1}, RunNews.PARTIAL),
        ({"failed": 2, "cancelled": 1}, RunNews.FAILED),
    ],
)
def test_which_end_it_is(jobs: dict[str, int], news: RunNews | None) -> None:
    assert run_end(jobs) is news


def steps(run: str, *names: str) -> list[list[str]]:
    """Suggestions as they are stored."""
    return [[name, run, "", ""] for name in names]


def test_a_message_names_counts_and_suggests_what_to_do() -> None:
    told = json.loads(
        run_message(RunNews.PARTIAL, run="night", jobs={"succeeded": 3, "failed": 1}, at=1_767_225_600 * S)
    )
    assert told == {
        "type": "run.partial",
        "timestamp": "2026-01-01T00:00:00Z",
        "data": {
            "run": "night", "rows": 4, "succeeded": 3, "failed": 1, "cancelled": 0,
            "commands": steps("night", "show-run", "show-failures", "retry-run"),
        },
    }  # fmt: skip


def test_who_has_to_do_something_is_told_why_in_a_line_and_how_it_goes_on() -> None:
    def data(news: RunNews, **jobs: int) -> dict[str, object]:
        found: dict[str, object] = json.loads(run_message(news, run="r", jobs=jobs, at=0, why="over budget\nmore"))[
            "data"
        ]
        return found

    held = data(RunNews.ON_HOLD, queued=3)
    assert (held["why"], held["unfinished"]) == ("over budget", 3)
    assert held["commands"] == steps("r", "show-run", "show-brakes", "continue-run")
    stopped = data(RunNews.STOPPED, queued=3)["commands"]
    assert stopped == steps("r", "show-run", "diagnose-run", "resume-run")
    assert data(RunNews.DONE, succeeded=1)["commands"] == steps("r", "show-run")
