"""How long a service wants to be left alone, by its `Retry-After`."""

import pytest

from orchestrator.client.http.transport import retry_after_s
from orchestrator.core.limits.rate_pacer import RETRY_AFTER_S_MAX
from orchestrator.units import SECOND_US


def test_a_date_to_wait_for_is_told_by_the_clock_that_stamped_the_answer() -> None:
    """Ours may go an hour behind it, and would wait for an hour and a minute."""
    header, date = "Sat, 01 Jan 2000 01:01:00 GMT", "Sat, 01 Jan 2000 01:00:00 GMT"
    assert retry_after_s(header, 946_684_800 * SECOND_US, date=date) == 60
    assert retry_after_s(header, 946_684_800 * SECOND_US, date="soon") == RETRY_AFTER_S_MAX


@pytest.mark.parametrize("header", ["999999999", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_nobody_means_to_be_asked_again_in_the_next_century(header: str) -> None:
    assert retry_after_s(header, 1_767_225_600_000_000) == RETRY_AFTER_S_MAX
