"""How far two clocks are apart, by the date that an answer carries. Times are microseconds UTC."""

from email.utils import parsedate_to_datetime

from orchestrator.units import SECOND_US


def ahead_us(date: str | None, *, sent_at: int, answered_at: int) -> int | None:
    """How far our clock is ahead of the one that stamped an answer with `date`, at least; negative where it is behind,
    0 where the two may agree, None for no date or what is none.

    It was stamped between our sending and the answer, in whole seconds.
    """
    if date is None:
        return None
    try:
        stamped_at = round(parsedate_to_datetime(date).timestamp()) * SECOND_US
    except (ValueError, OverflowError):
        return None
    return max(0, sent_at - stamped_at - SECOND_US) + min(0, answered_at - stamped_at)
