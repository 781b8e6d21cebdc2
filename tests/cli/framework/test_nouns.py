"""A noun with a name means that name, whether flags stand before it or behind it."""

from typing import Any

import pytest

from tests.cli.command_line import give, requested

FLOW = "captions@20260101T000000Z"
FLAGS = ("--ledger", "l.db")

SHOWN = [
    ("runs", "show", "captions"),
    ("jobs", "list", "captions"),
    ("flows", "show", FLOW),
    ("limits", "show", "captions"),
    ("brakes", "show", "captions"),
    ("schedules", "history", "captions"),
]


def asked(*words: str) -> Any:
    """What is done, with what; the ledger and whether it is told as JSON come besides."""
    return requested(*words)[:2]


@pytest.mark.parametrize(("noun", "verb", "name"), SHOWN)
def test_a_noun_with_a_name_is_about_what_is_called_so(noun: str, verb: str, name: str) -> None:
    meant = asked(noun, verb, name, *FLAGS)
    assert name in requested(noun, verb, name, *FLAGS).flags.values()
    assert asked(noun, name, *FLAGS) == asked(noun, *FLAGS, name) == asked(noun, "--ledger=l.db", name) == meant


def test_what_a_flag_is_given_is_no_name() -> None:
    assert asked("runs", "--all", *FLAGS) == asked("runs", "list", "--all", *FLAGS)
    assert asked("runs", "--ledger", "captions") == asked("runs", "list", "--ledger", "captions")
    assert asked("runs", "--json", *FLAGS, "captions") == asked("runs", "show", "captions", "--json", *FLAGS)
    assert give("runs", *FLAGS, "lst").exit_code == 2, "a verb that was mistyped is no name"
