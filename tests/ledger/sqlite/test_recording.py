"""What is written for all databases leaves what SQLite is sent as it was."""

from tests.ledger.sqlite.recording import unrecorded, written


def test_what_stands_in_the_ledger_is_what_sqlite_was_sent_before() -> None:
    statements = [*written()]

    assert unrecorded(statements) == []
    assert unrecorded([statements[-1] + " "]) != []
