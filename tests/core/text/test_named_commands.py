"""Commands in sentences are told which ledger they are about."""

import pytest

from orchestrator.core.text.named_commands import message_with_ledger, with_ledger

WORDS = ("--ledger", "b.db")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "over budget: orchestrator continue night goes on all the same",
            "over budget: orchestrator continue --ledger b.db night goes on all the same",
        ),
        ("see: orchestrator schedules history p", "see: orchestrator schedules history --ledger b.db p"),
        ("limits of ep: run as before (orchestrator limits)", "limits of ep: run as before (orchestrator limits --ledger b.db)"),
        (
            "orchestrator pause a, or orchestrator cancel a",
            "orchestrator pause --ledger b.db a, or orchestrator cancel --ledger b.db a",
        ),
        (
            "orchestrator resume a --ledger c.db; orchestrator status",
            "orchestrator resume a --ledger c.db; orchestrator status --ledger b.db",
        ),
        ("read their logs (orchestrator endpoints logs)", "read their logs (orchestrator endpoints logs)"),
        ("it begins with the next orchestrator serve or tick", "it begins with the next orchestrator serve or tick"),
        ("the Orchestrator status of things", "the Orchestrator status of things"),
        ("give the same `orchestrator run` again", "give the same `orchestrator run` again"),
        ("orchestrator runs-deleted", "orchestrator runs-deleted"),
    ],
)  # fmt: skip
def test_each_command_that_is_about_a_ledger_is_told_which(said: str, shown: str) -> None:
    assert with_ledger(said, WORDS) == shown
    assert with_ledger(said, ()) == said


def test_the_commands_of_a_message_are_told_it_too() -> None:
    body = b'{"type":"run.held","data":{"run":"n","commands":["orchestrator continue n"]}}'
    told = b'{"type":"run.held","data":{"run":"n","commands":["orchestrator continue --ledger b.db n"]}}'
    assert (message_with_ledger(body, WORDS), message_with_ledger(body, ())) == (told, body)
