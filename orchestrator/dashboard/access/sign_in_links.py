"""Links that sign in (login), and the key of programs, made by whoever may read the folder of secrets."""

from typing import Final

import msgspec

from orchestrator.clock import Clock
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import LINK_S, Person, Tokens
from orchestrator.units import SECOND_US

NAME_CHARS_MAX: Final = 100


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was handed out."""

    link: str
    name: str
    """Whom it signs in, and what is written down of what they do."""

    may_act: bool
    until: int
    """After that it is too old; microseconds UTC."""


def sign_in_link(folder: KeyFolder, clock: Clock, base_url: str, person: Person) -> SignInLink:
    """A link to the dashboard at `base_url` that signs that person in, once. Raises `StorageError`."""
    token = Tokens(folder.key(), clock).link(person)
    folder.keep_link(token)
    return SignInLink(
        link=f"{base_url}/login?link={token}",
        name=person.name,
        may_act=person.may_act,
        until=clock.now() + LINK_S * SECOND_US,
    )
