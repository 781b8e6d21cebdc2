"""Reads the outcomes of a run out of the ledger, in input order, page by page: no read lasts, nothing is held."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from orchestrator.core.lifecycle import State
from orchestrator.ledger import Ledger, reports
from orchestrator.ledger.reports import Finished

PAGE: Final = 500
"""Jobs of one page. Outputs are held in memory a page at a time."""

RESULTS: Final = (State.SUCCEEDED,)
FAILURES: Final = (State.FAILED, State.CANCELLED)


async def finished_jobs(ledger: Ledger, run: int, states: Sequence[State]) -> AsyncIterator[list[Finished]]:
    """Pages of the run's finished jobs in `states`, in input order. It may run while the run does."""
    after = (-1, -1)
    while page := await ledger.read(partial(reports.finished_page, run=run, states=states, after=after, most=PAGE)):
        yield page
        after = (page[-1].line, page[-1].job)
