"""A noun with a name means that name, whether flags stand before it or behind it."""

import pytest

from tests.cli.fake_api import FakeApp, invoke, run_status
from tests.cli.fake_flows import FLOW
from tests.cli.runs.test_brakes import BRAKES

FLAGS = ("--ledger", "l.db")

SHOWN = [
    ("runs", "show", "captions"),
    ("jobs", "list", "captions"),
    ("flows", "show", FLOW),
    ("limits", "show", "captions"),
    ("brakes", "show", "captions"),
    ("schedules", "history", "captions"),
]


def told(*words: str) -> tuple[int, str, list[object]]:
    app = FakeApp(runs=[run_status(queued=3)], braked=BRAKES)
    result = invoke(app, *words, COLUMNS="120")
    return result.exit_code, result.output, list(app.asked)


@pytest.mark.parametrize(("noun", "verb", "name"), SHOWN)
def test_a_noun_with_a_name_is_about_what_is_called_so(noun: str, verb: str, name: str) -> None:
    meant = told(noun, verb, name, *FLAGS)
    assert meant[0] == 0, meant
    assert name in str(meant[2])
    assert told(noun, name, *FLAGS) == told(noun, *FLAGS, name) == told(noun, "--ledger=l.db", name) == meant


def test_what_a_flag_is_given_is_no_name() -> None:
    assert told("runs", "--all", *FLAGS) == told("runs", "list", "--all", *FLAGS)
    assert told("runs", "--ledger", "captions") == told("runs", "list", "--ledger", "captions")
    assert told("runs", "--json", *FLAGS, "captions") == told("runs", "show", "captions", "--json", *FLAGS)
    assert told("runs", *FLAGS, "lst")[0] == 2, "a verb that was mistyped is no name"
