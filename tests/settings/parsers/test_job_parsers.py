"""Times that are too short, refused in words that say what is not."""

import pytest

from orchestrator.settings.parsers import job_parsers


def test_a_time_in_which_nothing_can_happen_is_refused() -> None:
    assert job_parsers.check_second_or_more(1_000_000) == 1_000_000
    with pytest.raises(ValueError, match=r"^must be at least 1 s$"):
        job_parsers.check_second_or_more(999_999)


def test_no_time_at_all_is_refused() -> None:
    assert job_parsers.check_not_zero(1) == 1
    with pytest.raises(ValueError, match=r"^must be more than 0 s$"):
        job_parsers.check_not_zero(0)
