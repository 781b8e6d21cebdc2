"""Whose a run is, as part of where it is."""

import pytest

from orchestrator.core.service.profiles import (
    address_of,
    endpoint_at,
    is_same_account,
    parse_profile,
    place,
    profile_of,
)

URL = "https://api.example"


@pytest.mark.parametrize("profile", ["work", "work-2", "a.b_c", None])
def test_a_place_has_the_address_and_the_profile(profile: str | None) -> None:
    there = place(URL, profile)
    assert (address_of(there), profile_of(there)) == (URL, profile)
    assert endpoint_at("abc123", there) == f"abc123 at {URL}" + ("" if profile is None else f" (profile {profile})")
    assert is_same_account(there, place("https://elsewhere.example", profile))
    assert not is_same_account(there, place(URL, "other"))


def test_a_profile_has_a_name_that_can_stand_in_a_url() -> None:
    assert parse_profile("work-2") == "work-2"
    for wrong in ("", "a b", "a#b", "-a", "x" * 65):
        with pytest.raises(ValueError, match="is no name of a profile"):
            parse_profile(wrong)
