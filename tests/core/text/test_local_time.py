"""Times as people read them."""

from orchestrator.core.text.local_time import local


def test_an_instant_is_shown_as_its_zone_does() -> None:
    assert local(1_774_742_400_000_999, "Europe/Berlin") == "2026-03-29T01:00:00+01:00"
