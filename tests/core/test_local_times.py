"""Times as people write them, those among them that a zone's clock shows twice, or never."""

import pytest

from orchestrator.core.local_times import instant, local
from orchestrator.units import HOUR_US

MIDNIGHT = 1_774_742_400_000_000  # 2026-03-29T00:00:00Z


@pytest.mark.parametrize(
    ("text", "zone", "hours"),
    [
        ("2026-03-29T01:00:00Z", "Europe/Berlin", 1),
        ("2026-03-29T03:00:00+02:00", "UTC", 1),
        ("2026-03-29T01:00", "UTC", 1),
        ("2026-03-29T01:00", "Europe/Berlin", 0),
        ("2026-03-29T04:00", "Europe/Berlin", 2),
        ("2026-03-29", "Europe/Berlin", -1),
    ],
)
def test_a_time_is_that_of_its_offset_or_of_the_zone(text: str, zone: str, hours: int) -> None:
    assert instant(text, zone) == MIDNIGHT + hours * HOUR_US


def test_a_time_that_the_clock_never_shows_is_refused() -> None:
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        instant("2026-03-29T02:30", "Europe/Berlin")


def test_a_time_that_the_clock_shows_twice_is_refused_with_both() -> None:
    with pytest.raises(ValueError, match=r"say which: 2026-10-25T02:30:00\+02:00 or 2026-10-25T02:30:00\+01:00"):
        instant("2026-10-25T02:30", "Europe/Berlin")


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match='"tomorrow" is no time'):
        instant("tomorrow", "UTC")


def test_an_instant_is_shown_as_its_zone_does() -> None:
    assert local(MIDNIGHT + 999, "Europe/Berlin") == "2026-03-29T01:00:00+01:00"
