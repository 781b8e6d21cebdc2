"""Schedules in words: what can be said short is, and nothing is said that is not so."""

import pytest

from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_words import cron_in_words, schedule_in_words
from orchestrator.units import HOUR_US


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("45 4 * * *", "daily at 04:45"),
        ("0 6,18 * * *", "daily at 06:00 and 18:00"),
        ("15 3 * * 1-5", "Mon to Fri at 03:15"),
        ("0 9 * * 1,wed,7", "Mon, Wed and Sun at 09:00"),
        ("30 2 1,15 * *", "on day 1 and 15 of each month at 02:30"),
        ("*/15 * * * *", "every 15 min"),
        ("20 * * * *", "each hour at minute 20"),
        ("20 * * * 6", "Sat each hour at minute 20"),
    ],
)
def test_what_most_say_is_said_in_words(expression: str, words: str) -> None:
    assert cron_in_words(expression) == words


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 1 1 *",
        "0 0 13 * 5",
        "0,30 6 * * *",
        "0 */6 * * *",
        "0 1-5 * * *",
        "0 1,2,3,4,5 * * *",
        "0 0 L * *",
        "0 0 * * 5#3",
        "0 0 * * mon-6/2",
        "5-10 * * * *",
    ],
)
def test_what_says_more_stands_as_it_is(expression: str) -> None:
    assert cron_in_words(expression) == expression


def test_the_zone_is_named_and_what_has_no_cron_says_what_it_has() -> None:
    crons = ("30 2 * * *", "0 9 * * 1")
    assert schedule_in_words(Schedule(cron=crons, zone="Asia/Tokyo")) == "daily at 02:30 and Mon at 09:00 in Asia/Tokyo"
    assert schedule_in_words(Schedule(cron=crons[:1], zone="UTC")) == "daily at 02:30 UTC"
    assert schedule_in_words(Schedule(every_us=6 * HOUR_US)) == "every 6 h"
    assert schedule_in_words(None) == "when it is triggered"
