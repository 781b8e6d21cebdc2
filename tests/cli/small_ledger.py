"""A small ledger for commands to work on: a run whose jobs are in the states that a test says."""

from pathlib import Path

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from tests.factories import S, a_row
from tests.ledger.ledgers import a_run, brought_to, write_ledger

AT = 1_767_225_600 * S


def a_ledger_of_runs(number: int, path: Path = Path("orchestrator.db")) -> Path:
    """A ledger with so many runs, from `run-0` on, each of one job that waits."""

    async def made(ledger: Ledger) -> None:
        for n in range(number):
            await a_run(ledger, name=f"run-{n}")

    write_ledger(path, made)
    return path


def a_ledger(
    path: Path = Path("orchestrator.db"),
    *,
    name: str = "captions",
    service_url: str = "https://api.example",
    endpoint: str = "ep",
    **jobs: int,
) -> Path:
    """A ledger with one more run, of so many jobs in each state."""

    async def made(ledger: Ledger) -> None:
        states = [State(state) for state, count in jobs.items() for _ in range(count)]
        rows = [a_row(n, f"n-{n}") for n in range(1, len(states) + 1)]
        first = await ledger.reports.audit.jobs_number() + 1
        await a_run(ledger, rows, name=name, service_url=service_url, endpoint=endpoint)
        for n, state in enumerate(states, first):
            if state is not State.QUEUED:
                await brought_to(ledger, state, AT + 60 * n * S, job=n)

    write_ledger(path, made)
    return path
