"""Results of a run, read as many at a time as are there: in the order of the input, or as they ended."""

from typing import Final, Literal

from orchestrator.api.python.results import Result
from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MIB

Order = Literal["completion", "input"]

Key = tuple[int, int]
"""Where a page begins: `(line, job)`, or `(place, 0)` of the feed."""

PAGE_JOBS: Final = 500
PAGE_EVENTS: Final = 2_000
PAGE_BYTES_MAX: Final = 8 * MIB
"""Results that are read at once, by their outputs and inputs as they are stored; one that is larger comes alone."""


async def first_key(ledger: Ledger, run: Run, order: Order, after: str | None) -> Key:
    """Where the first page begins, behind the job whose `custom_id` is `after`. Raises `UsageError` for no job."""
    if after is None:
        return (-1, -1) if order == "input" else (await ledger.jobs.results.first_place(run.id), 0)
    place = await ledger.jobs.place(run.id, after)
    if place is None:
        raise UsageError(f"after={after!r}: the run {run.name!r} has no job of this custom_id")
    return (place.line, place.job) if order == "input" else (await ledger.jobs.results.place_of(place.job), 0)


async def page_from(ledger: Ledger, run: int, order: Order, key: Key) -> tuple[list[Result], Key, bool]:
    """The results behind `key`; where the next page begins, and whether these were all that there are by now."""
    if order == "input":
        jobs = await ledger.jobs.results.in_order(run, after=key, most=PAGE_JOBS, bytes_max=PAGE_BYTES_MAX, inputs=True)
        return [Result.of(job) for job in jobs], (jobs[-1].line, jobs[-1].job) if jobs else key, True
    page, place, is_latest = await results_since(ledger, run, key[0])
    return page, (place, 0), is_latest


async def results_since(ledger: Ledger, run: int, place: int) -> tuple[list[Result], int, bool]:
    """The results of a run that stand in the feed behind `place`, not too many at once; until where, and whether these
    were all.
    """
    ended = await ledger.jobs.results.ended(
        run, tuple(TERMINAL), after=place, most=PAGE_EVENTS, bytes_max=PAGE_BYTES_MAX, inputs=True
    )
    if ended.upto is None:
        return [], place, True
    return [Result.of(job) for _, job in ended.jobs], ended.upto, False
