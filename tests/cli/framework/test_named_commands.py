"""Commands that are named on the screen find the ledger that they are about."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command

from orchestrator.cli import build
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.runs.doctor import show_diagnosis
from orchestrator.core.diagnosis.causes import Cause, Diagnosis, Finding
from orchestrator.errors import UsageError
from orchestrator.settings.command_names import COMMANDS
from tests.cli.command_line import shown


def at_ledgers(command: object, path: str = "") -> Iterator[str]:
    """The commands that take a ledger."""
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from at_ledgers(each, f"{path}{name} ")
    elif any("--ledger" in parameter.opts for parameter in getattr(command, "params", ())):
        yield path.strip()


def test_each_command_that_takes_a_ledger_is_known_but_those_that_take_an_input() -> None:
    assert set(at_ledgers(get_command(build()))) - {"run", "plan", "api purge"} == set(COMMANDS)


def test_what_is_said_to_do_is_told_the_ledger_where_it_is_not_the_usual_one() -> None:
    said = "over budget: orchestrator unpause night goes on all the same"
    held = Finding(cause=Cause.RUN_BLOCKED, about="night", sentence=said, advice="x", needs_person=True)

    async def work() -> int:
        return show_diagnosis(Diagnosis(findings=(held,), runs=1), as_json=False)

    told = "over budget: orchestrator unpause --ledger b.db night goes on all the same"
    assert told in shown(partial(execute, work, ledger=Path("b.db"))).stdout
    assert said in shown(partial(execute, work, ledger=Path("orchestrator.db"))).stdout


def test_an_error_names_the_ledger_too() -> None:
    async def work() -> int:
        raise UsageError("night is held; go on with: orchestrator unpause night")

    told = shown(partial(execute, work, ledger=Path("my b.db"))).stderr
    assert "orchestrator unpause --ledger 'my b.db' night" in told
