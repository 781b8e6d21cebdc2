"""Several accounts at one service: whose a run is, is part of where it is.

A profile is a name that a person gives to an account (its key and its addresses stand in the configuration file). The
ledger keeps it behind the URL of the service, as in `https://api.example#work`: endpoints of the same id in two
accounts are two endpoints, and a key is only ever found for the account that it is for. Nothing behind the `#` is ever
sent.
"""

import re
from typing import Final

from orchestrator.core.service.url_endpoints import BY_URL

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MARK: Final = "#"


def parse_profile(text: str) -> str:
    """The name of a profile. Raises `ValueError`."""
    if not _NAME.fullmatch(text):
        raise ValueError(f'"{text:.80}" is no name of a profile; it has letters, digits, dots, dashes and underscores')
    return text


def place(url: str, profile: str | None) -> str:
    """Where the runs of `profile` are whose service is at `url`; None: those of no profile."""
    return url if profile is None else f"{url.rstrip('/')}{_MARK}{profile}"


def address_of(place: str) -> str:
    """The URL of the service alone."""
    return place.partition(_MARK)[0]


def is_by_url(place: str) -> bool:
    """Whether what is there is no service, but endpoints that are URLs themselves."""
    return address_of(place) == BY_URL


def profile_of(place: str) -> str | None:
    """Whose it is; None where it was begun without a profile."""
    return place.partition(_MARK)[2] or None


def endpoint_at(endpoint: str, place: str) -> str:
    """What people know an endpoint at `place` by."""
    return with_profile(endpoint if is_by_url(place) else f"{endpoint} at {address_of(place)}", place)


def with_profile(what: str, place: str) -> str:
    """`what`, which is at `place`, for people: with the profile, if any, as another account may have its like."""
    profile = profile_of(place)
    return what if profile is None else f"{what} (profile {profile})"


def is_same_account(one: str, other: str) -> bool:
    """Whether both places are of the same profile, or of none."""
    return profile_of(one) == profile_of(other)
