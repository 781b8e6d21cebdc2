"""Which interfaces are tried, and in what order."""

import pytest

from orchestrator.core.service.account_interfaces import KNOWN, Interface, Noun, tried

V1, V2, GRAPHQL, AUTO = Interface.V1, Interface.V2, Interface.GRAPHQL, Interface.AUTO


@pytest.mark.parametrize("noun", Noun)
def test_the_newest_is_tried_first_and_one_that_was_chosen_alone(noun: Noun) -> None:
    assert tried(noun, AUTO, frozenset()) == KNOWN[noun]
    assert KNOWN[noun][0] is V2
    for choice in (V1, V2, GRAPHQL):
        assert tried(noun, choice, frozenset()) == ((choice,) if choice in KNOWN[noun] else ())


def test_where_addresses_were_set_no_other_one_is_tried() -> None:
    assert tried(Noun.ENDPOINTS, AUTO, {V1}) == (V1,)
    assert tried(Noun.TEMPLATES, AUTO, {V1, GRAPHQL}) == (GRAPHQL, V1)
    assert tried(Noun.SECRETS, AUTO, {V1, V2, GRAPHQL}) == (V2, GRAPHQL)
    assert tried(Noun.ENDPOINTS, V2, {V1}) == (V2,), "said is said"
