"""Workers that a killed run has left raised: the next command of any kind says so, in a terminal."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace

from orchestrator.cli.framework.runner import at_ledger
from orchestrator.clock import SystemClock
from orchestrator.core.gates.scaling_override import Bounds, ScalingOverride
from orchestrator.ledger import Ledger, dispatcher_lock
from tests.cli.command_line import call
from tests.conformance.test_pod_leases import WISH
from tests.ledger.ledgers import a_run, write_ledger

LOAN = ScalingOverride(before=Bounds(0, 3), raised=Bounds(2, 10))


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path) -> Path:
    path = tmp_path / "l.db"

    async def made(ledger: Ledger) -> None:
        run = await a_run(ledger)
        await ledger.runs.scaling_overrides.write(run.endpoint_id, "http://rest", LOAN)

    write_ledger(path, made)
    return path


def told(path: Path, **flags: object) -> str:
    """What a command that does nothing says on a terminal."""

    @at_ledger(None)
    async def nothing(*, ledger: Path) -> None:
        assert ledger == path

    with redirect_stderr(Screen()) as screen, pytest.raises(typer.Exit) as ended:
        nothing(ledger=str(path), **flags)
    assert ended.value.exit_code == 0
    return " ".join(screen.getvalue().split())


def test_any_command_in_a_terminal_says_which_workers_are_still_paid(ledger: Path) -> None:
    said = told(ledger)
    assert "warning:" in said
    assert " ep still has 2 to 10 workers instead of 0 to 3 workers, since 20" in said
    assert said.endswith(f"to do that at once: orchestrator runs tidy --ledger {ledger}")


def test_and_which_pods(tmp_path: Path) -> None:
    path = tmp_path / "l.db"

    async def made(ledger: Ledger) -> None:
        run = await a_run(ledger)
        await ledger.runs.pod_leases.want([replace(WISH, run=run.id)])

    write_ledger(path, made)
    said = told(path)
    assert " pod captions-of-may-ff-1 of the run run is paid, since 20" in said
    assert said.endswith(f"to do that at once: orchestrator runs tidy --ledger {path}")


def test_it_is_no_news_for_programs_nor_while_somebody_is_at_work(ledger: Path, tmp_path: Path) -> None:
    assert told(ledger, json=True) == ""
    assert told(tmp_path / "none.db") == ""
    assert (
        call(["limits", "run", "--ledger", str(ledger)], environment={}).stderr
        == "ep at https://api.example, used by run\n"
    )
    with dispatcher_lock(ledger, now=SystemClock().now()):
        assert told(ledger) == ""
