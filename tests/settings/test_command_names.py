"""Commands in sentences are told which ledger they are about."""

import pytest

from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.settings.command_names import COMMANDS, command, message_with_commands, with_ledger

WORDS = ("--ledger", "b.db")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "over budget: orchestrator unpause night goes on all the same",
            "over budget: orchestrator unpause --ledger b.db night goes on all the same",
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


@pytest.mark.parametrize("step", NextStep)
def test_each_step_is_a_command_that_there_is(step: NextStep) -> None:
    words = command(Suggestion(step, "night run", "SINCE", "UNTIL"), "--x").split()
    assert words[0] == "orchestrator"
    assert words[-1] == "--x"
    assert " ".join(words[1:3]) in {*COMMANDS, "endpoints logs"} or words[1] in COMMANDS
    assert "NAME" not in words


def test_a_backfill_says_from_when_and_until_when() -> None:
    step = Suggestion(NextStep.BACKFILL, "p", "2026-11-22T06:00+01:00", "2026-11-23T06:00+01:00")
    assert command(step) == "orchestrator backfill p --from 2026-11-22T06:00+01:00 --to 2026-11-23T06:00+01:00"


def test_the_steps_of_a_message_become_commands() -> None:
    body = (
        b'{"type":"run.held","data":{"run":"a b","commands":[["show-run","a b","",""],["continue-run","a b","",""]]}}'
    )
    told = (
        b'{"type":"run.held","data":{"run":"a b","commands":["orchestrator runs show --ledger b.db \'a b\'",'
        b"\"orchestrator unpause --ledger b.db 'a b'\"]}}"
    )
    assert message_with_commands(body, WORDS) == told


def test_the_commands_of_a_message_are_told_it_too() -> None:
    body = b'{"type":"run.held","data":{"run":"n","commands":["orchestrator unpause n"]}}'
    told = b'{"type":"run.held","data":{"run":"n","commands":["orchestrator unpause --ledger b.db n"]}}'
    assert (message_with_commands(body, WORDS), message_with_commands(body, ())) == (told, body)
