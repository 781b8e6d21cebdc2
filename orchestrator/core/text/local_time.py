"""Times as people read them."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from orchestrator.units import EPOCH, SECOND_US


def local(at_us: int, zone: str) -> str:
    """An instant as the clock of `zone` shows it, to the second, with its offset."""
    at = EPOCH + timedelta(seconds=at_us // SECOND_US)
    return at.astimezone(ZoneInfo(zone)).isoformat()
