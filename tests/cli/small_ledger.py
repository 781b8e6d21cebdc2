"""A small ledger for commands to work on: a run whose jobs are in the states that a test says."""

from pathlib import Path

import anyio

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import open_ledger
from tests.factories import S, a_row
from tests.ledger.ledgers import a_run, brought_to

AT = 1_767_225_600 * S


def a_ledger(path: Path = Path("orchestrator.db"), *, name: str = "captions", **jobs: int) -> Path:
    """A ledger with one run, of so many jobs in each state."""

    async def made() -> None:
        async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            states = [State(state) for state, count in jobs.items() for _ in range(count)]
            await a_run(ledger, [a_row(n, f"n-{n}") for n in range(1, len(states) + 1)], name=name)
            for n, state in enumerate(states, 1):
                if state is not State.QUEUED:
                    await brought_to(ledger, state, AT + 60 * n * S, job=n)
            tasks.cancel_scope.cancel()

    anyio.run(made)
    return path
