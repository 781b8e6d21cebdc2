"""Moments as people write them."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from orchestrator.core.text.time_of_day import format_moment, parse_moment

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 22, 19, 30, tzinfo=UTC)


def meant(text: str, *, now: datetime = NOW, zone: tzinfo = BERLIN) -> datetime:
    at = parse_moment(text, now=int(now.timestamp()) * 1_000_000, zone=zone)
    return datetime.fromtimestamp(at / 1_000_000, UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("06:00", datetime(2026, 11, 23, 6, tzinfo=BERLIN)),
        ("21:15", datetime(2026, 11, 22, 21, 15, tzinfo=BERLIN)),
        ("20:30", datetime(2026, 11, 23, 20, 30, tzinfo=BERLIN)),  # that is now
        ("6:00Z", datetime(2026, 11, 23, 6, tzinfo=UTC)),
        ("06:00 UTC", datetime(2026, 11, 23, 6, tzinfo=UTC)),
        ("06:00+01:00", datetime(2026, 11, 23, 5, tzinfo=UTC)),
        ("06:00 America/New_York", datetime(2026, 11, 23, 11, tzinfo=UTC)),
        ("2026-11-23T06:00+01:00", datetime(2026, 11, 23, 5, tzinfo=UTC)),
        ("2026-11-23T06:00:00Z", datetime(2026, 11, 23, 6, tzinfo=UTC)),
    ],
)
def test_a_moment_is_the_next_one_of_its_zone(text: str, moment: datetime) -> None:
    assert meant(text) == moment


def test_clocks_that_are_put_back_or_forward_meanwhile_show_it_all_the_same() -> None:
    evening = datetime(2026, 10, 24, 20, tzinfo=UTC)
    assert meant("06:00", now=evening) == datetime(2026, 10, 25, 5, tzinfo=UTC)
    assert meant("06:00", now=datetime(2026, 3, 28, 20, tzinfo=UTC)) == datetime(2026, 3, 29, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("soon", "is no time"),
        ("24:00", "is no time of day"),
        ("06:60", "is no time of day"),
        ("06:00Z Europe/Berlin", "is no time of day"),
        ("06:00 Mars/Olympus", 'no time zone "Mars/Olympus"'),
        ("06:00+99:00", "has no zone"),
        ("2026-11-23T06:00", "names no zone"),
        ("2026-11-21T06:00Z", "is over"),
        ("", "is no time"),
    ],
)
def test_what_is_no_moment_is_refused_in_words(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        meant(text)


def test_a_moment_is_written_as_a_stamp_that_means_the_same() -> None:
    at = parse_moment("06:00", now=int(NOW.timestamp()) * 1_000_000, zone=BERLIN)
    assert format_moment(at) == "2026-11-23T05:00:00Z"
    assert parse_moment(format_moment(at), now=0, zone=UTC) == at
