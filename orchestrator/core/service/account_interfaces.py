"""The service's interfaces to an account: which there are, which of them has what, and in what order they are tried."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final


class Interface(StrEnum):
    """A way to speak to an account, or the choice to find out which the service has."""

    AUTO = "auto"
    V1 = "v1"
    V2 = "v2"
    GRAPHQL = "graphql"


class Noun(StrEnum):
    """What an account has that more than one interface knows of; pods are in REST v2 only."""

    ENDPOINTS = "endpoints"
    TEMPLATES = "templates"
    SECRETS = "secrets"


_V2_FIRST: Final = (Interface.V2, Interface.GRAPHQL)

TITLES: Final[Mapping[Interface, str]] = {
    Interface.V1: "REST v1",
    Interface.V2: "REST v2",
    Interface.GRAPHQL: "GraphQL",
}

KNOWN: Final[Mapping[Noun, tuple[Interface, ...]]] = {
    Noun.ENDPOINTS: (Interface.V2, Interface.V1, Interface.GRAPHQL),
    Noun.TEMPLATES: (*_V2_FIRST, Interface.V1),
    Noun.SECRETS: _V2_FIRST,
}
"""The interfaces that know each, in the order in which they are tried: the newest, then the contract's own."""


def tried(noun: Noun, choice: Interface, elsewhere: AbstractSet[Interface]) -> tuple[Interface, ...]:
    """The interfaces to try for `noun`, in order; none where the one that was chosen does not know it.

    `elsewhere` are those whose address somebody has set. Where there are any, only these are tried: they belong to
    another service than the public one, which must not get what is meant for it.
    """
    known = KNOWN[noun]
    if choice is not Interface.AUTO:
        return (choice,) if choice in known else ()
    return tuple(each for each in known if each in elsewhere) or known
