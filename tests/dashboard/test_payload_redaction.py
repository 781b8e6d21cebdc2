"""What of inputs and outputs may be shown."""

import pytest

from orchestrator.dashboard.payload_redaction import Payloads

INPUT = b'{"email":"a@b","faces":[{"name":"x","n":1},{"name":"y"}],"n":1}'


def test_all_is_shown_where_nothing_is_said() -> None:
    assert Payloads().shown("input", INPUT) == INPUT
    assert Payloads().may_search(["input.email", "state"])


def test_nothing_is_shown_or_found_of_what_is_hidden() -> None:
    hidden = Payloads(are_hidden=True)
    assert hidden.shown("input", INPUT) is None
    assert not hidden.may_search(["state", "output.score"])
    assert hidden.may_search(["state", "error"])


def test_what_is_redacted_is_left_out_also_of_lists() -> None:
    shows = Payloads(redacted=("input.email", "input.faces.name", "output"))
    assert shows.shown("input", INPUT) == (
        b'{"email":"[redacted]","faces":[{"name":"[redacted]","n":1},{"name":"[redacted]"}],"n":1}'
    )
    assert shows.shown("output", b"[1]") == b'"[redacted]"'
    assert shows.shown("input", b'{"email"') is None, "of what cannot be read nobody knows what it holds"
    assert Payloads(redacted=("input.email",)).shown("output", b'{"email"') == b'{"email"'


@pytest.mark.parametrize(
    ("member", "may"),
    [("input.email", False), ("input", False), ("input.email.host", False), ("input.emails", True), ("state", True)],
)
def test_nobody_can_ask_for_what_is_redacted_until_the_answer_is_yes(member: str, may: bool) -> None:
    assert Payloads(redacted=("input.email",)).may_search([member]) is may
