"""The jobs of a run that a filter means, a page at a time, and how many they are where that is known at once."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.api.pages.runs.command_lines import command_line
from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, are_texts_hidden, check_filter, row_shown
from orchestrator.core.filters.filter import EVERY, ClusterIs, Filter, StateIs, pushed, required
from orchestrator.core.filters.filter_parser import FilterError, parse
from orchestrator.core.jobs.lifecycle import UNFINISHED, State
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.database import NUMBER_MAX
from orchestrator.ledger.reports.ended_jobs import FROM_LATEST, EndedPlace
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.runs.run_pages import JobsPage

JOBS_A_PAGE: Final = 50
ORDERS: Final = ("line", "ended")
_PLACE: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_GIVEN_UP: Final = frozenset({State.FAILED, State.CANCELLED})


class JobsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are asked for."""

    where: str = ""
    order: str = "line"
    after: str | None = None
    """Where the page begins, as the one before has said."""

    counted: bool = False
    """Whether they are to be counted, however long that takes."""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Sequence[SelectedJob]
    after: str | None
    looked_at: int


async def jobs_page(ledger: Ledger, run: Run, asked: JobsAsked, *, shows: PayloadPolicy) -> JobsPage:
    """The jobs of `run` that are asked for. A filter that is none is told on the page.

    Raises `UsageError` for an order that there is none of, a place that no page has said, and a filter that would tell
    what is not to be shown.
    """
    if asked.order not in ORDERS:
        raise UsageError(f"there is no order {asked.order!r:.40}; there are {' and '.join(ORDERS)}")
    place = _place_of(asked)
    try:
        chosen = parse(asked.where, now=ledger.now())
    except FilterError as error:
        return msgspec.structs.replace(_empty(ledger, run, asked, shows), problem=str(error))
    check_filter(shows, chosen)
    found = await _find(ledger, run, asked.order, chosen, place)
    counts = await ledger.runs.counts(run.id)
    count, is_exact = await _count(ledger, run, chosen, counts, even_if_slow=asked.counted)
    is_short = found.after is not None and len(found.jobs) < JOBS_A_PAGE
    return msgspec.structs.replace(
        _empty(ledger, run, asked, shows),
        jobs=[row_shown(shows, job.row) for job in found.jobs],
        count=count,
        is_exact=is_exact,
        after=found.after,
        looked_at=found.looked_at if is_short else None,
        can_retry=_may_be(chosen, counts, _GIVEN_UP),
        can_cancel=_may_be(chosen, counts, frozenset(UNFINISHED)),
    )


def _empty(ledger: Ledger, run: Run, asked: JobsAsked, shows: PayloadPolicy) -> JobsPage:
    """The page without jobs."""
    flags = ("--where", asked.where) if asked.where.strip() else ()
    return JobsPage(
        id=run.id,
        run=run.name,
        where=asked.where,
        problem=None,
        order=asked.order,
        jobs=(),
        count=None,
        is_exact=True,
        after=None,
        looked_at=None,
        can_retry=False,
        can_cancel=False,
        command=command_line(ledger.address, "jobs list", run.name, *flags),
        texts_hidden=are_texts_hidden(shows),
    )


def _place_of(asked: JobsAsked) -> tuple[int, int]:
    """The place in the list behind which the page begins."""
    if asked.after is None:
        return 0, 0
    found = _PLACE.fullmatch(asked.after)
    numbers = [] if found is None else [int(part) for part in found.groups() if part is not None]
    if len(numbers) != 1 + (asked.order == "ended") or any(number > NUMBER_MAX for number in numbers):
        raise UsageError("no page of this list begins there; begin at its first page")
    return numbers[0], numbers[-1]


async def _find(ledger: Ledger, run: Run, order: str, chosen: Filter, place: tuple[int, int]) -> _Found:
    if order == "ended":
        start = EndedPlace(*place) if any(place) else FROM_LATEST
        ended = await ledger.reports.ended_jobs.page(run.id, chosen, after=start, most=JOBS_A_PAGE)
        after = None if ended.is_last else f"{ended.after.ended_at}-{ended.after.job}"
        return _Found(jobs=ended.jobs, after=after, looked_at=ended.looked_at)
    page = await ledger.reports.job_queries.page(run.id, chosen, after=place[0], most=JOBS_A_PAGE)
    return _Found(
        jobs=page.jobs, after=None if page.is_last else str(page.after), looked_at=page.inputs_read or page.looked_at
    )


async def _count(
    ledger: Ledger, run: Run, chosen: Filter, counts: Mapping[str, int], *, even_if_slow: bool
) -> tuple[int | None, bool]:
    """How many jobs are `chosen`, and whether that is exact: of what is kept at once, of all else only if asked."""
    match chosen:
        case StateIs(state):
            return counts.get(state, 0), True
        case ClusterIs(key):
            return await ledger.reports.job_queries.cluster_size(run.id, key), True
        case _ if chosen == EVERY:
            return sum(counts.get(state, 0) for state in State), True
    if not even_if_slow:
        return None, False
    whole = await ledger.reports.job_queries.count(run.id, chosen)
    return whole.n, whole.is_exact


def _may_be(chosen: Filter, counts: Mapping[str, int], states: frozenset[State]) -> bool:
    """Whether jobs in one of these states may be among those that are `chosen`."""
    needed = {leaf.state for leaf in required(pushed(chosen)) if isinstance(leaf, StateIs)}
    return needed <= states and any(counts.get(state) for state in states)
