"""The jobs of a run that a filter (`core.filters`) means, how many they are, and the kinds of its failures.

What the columns of `jobs` tell is asked there, in the order in which jobs were taken in: a million of them are gone
through in a tenth of a second, while an index by state or class would be paid by every step. Only clusters have one.
Messages are read of failures only. Inputs are read, unpacked and compared here, so that such a filter looks at fewer
jobs in one go. No read lasts long: each looks at a window of numbers, and says how far it has come.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.filters.filter import (
    EVERY,
    And,
    ClusterIs,
    Comparison,
    Filter,
    Leaf,
    Text,
    asks_input,
    asks_message,
    asks_metadata,
    asks_retried,
    matches,
    pushed,
    required,
)
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.reports.job_conditions import ATTEMPTS, condition, first_job_of
from orchestrator.ledger.reports.selected_jobs import INPUT_BYTES_MAX, SelectedJob, selected, with_facts
from orchestrator.ledger.schema.job_tables import clusters, jobs, outcomes, payloads, runs
from orchestrator.ledger.schema.row_codec import fitting
from orchestrator.ledger.statements import NUMBERS, batch_of
from orchestrator.ledger.transactions.repository import Repository, asked_again

WINDOW: Final = 250_000
"""So many numbers of jobs one read goes through by the columns of `jobs`: some 20 ms."""

WINDOW_INDEXED: Final = 1_000_000
"""The same, where an index leads to those that are meant."""

WINDOW_MESSAGES: Final = 50_000
"""The same, where messages are read, or what executions said before the last one."""

INPUTS_MAX: Final = 2_000

SCAN_MAX: Final = 200_000
"""After so many inputs that were read a count stops with "at least"."""


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the jobs that a filter means, in the order in which they were taken in."""

    jobs: Sequence[SelectedJob]
    after: int
    """The number of the last job that was looked at: the next page begins behind it."""

    is_last: bool
    inputs_read: int = 0
    looked_at: int = 0
    """Through how many numbers of jobs it went."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a filter means."""

    n: int
    is_exact: bool = True
    """Else there are at least so many."""

    looked_at: int = 0
    """How many inputs were read for that."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The failures of one kind that a run has now. Times are microseconds UTC."""

    error_key: int
    n: int
    first_at: int
    last_at: int
    """When there was one first and last, those that were tried again included."""

    sample_job: int
    trouble: str | None
    message: str | None


class JobName(NamedTuple):
    """A job by its number, and by what its line calls it."""

    job: int
    custom_id: str


_of_kind: Final = jobs.alias("of_kind")
_FIRST_OF_KINDS: Final = (
    select(NUMBERS.c.value, jobs.c.id, jobs.c.custom_id)
    .select_from(
        NUMBERS.join(
            jobs,
            jobs.c.id.in_(
                select(outcomes.c.job_id)
                .join(_of_kind, _of_kind.c.id == outcomes.c.job_id)
                .where(
                    outcomes.c.error_key == NUMBERS.c.value,
                    outcomes.c.job_id >= first_job_of(bindparam("run")),
                    unindexed(_of_kind.c.run_id) == bindparam("run"),
                )
                .order_by(outcomes.c.job_id)
                .limit(bindparam("most"))
                .correlate(NUMBERS)
            ),
        )
    )
    .order_by(jobs.c.id)
)


class _Range(msgspec.Struct, frozen=True):
    """The numbers of the jobs of a run: above `below`, and up to `last`; of intakes up to `accepted`."""

    below: int
    last: int
    accepted: int


class JobQueries(Repository):
    """The jobs of a run, chosen by filters."""

    @asked_again
    async def page(self, run: int, chosen: Filter, *, after: int = 0, most: int) -> JobPage:
        """Up to `most` jobs of `run` that `chosen` means, behind the one numbered `after`.

        It looks at a bounded number of jobs, and so may bring fewer, or none, and not be the last one all the same.
        """
        query = _Query(pushed(chosen))
        async with self._access.reading() as connection:
            bounds = await _range(connection, run)
            begin = max(after, bounds.below)
            end = min(begin + query.window, bounds.last)
            found, read, looked = await query.page(connection, run, bounds, (begin, end), most)
        is_last = looked >= bounds.last
        number = max(0, looked - begin)
        return JobPage(jobs=found, after=max(after, looked), is_last=is_last, inputs_read=read, looked_at=number)

    @asked_again
    async def numbered(self, run: int, job: int) -> SelectedJob | None:
        """The job of `run` that has this number; None where there is none."""
        async with self._access.reading() as connection:
            bounds = await _range(connection, run)
            query = select(*JOB_COLUMNS).where(
                jobs.c.id == job, unindexed(jobs.c.run_id) == run, jobs.c.intake_id <= bounds.accepted
            )
            return next(iter(await selected(connection, (await connection.execute(query)).all())), None)

    @asked_again
    async def count(self, run: int, chosen: Filter, *, inputs_max: int | None = SCAN_MAX) -> Counted:
        """How many jobs `chosen` means; at least so many, once `inputs_max` inputs were read (None: never)."""
        query = _Query(pushed(chosen))
        n = read = 0
        begin: int | None = 0
        while begin is not None:
            async with self._access.reading() as connection:
                bounds = await _range(connection, run)
                begin = max(begin, bounds.below)
                window = (begin, min(begin + query.window, bounds.last))
                if query.asks_input:
                    found, more, looked = await query.page(connection, run, bounds, window, INPUTS_MAX)
                    n, read = n + len(found), read + more
                else:
                    looked = window[1]
                    n += await query.count(connection, run, bounds, window)
            begin = looked if looked < bounds.last else None
            if begin is not None and inputs_max is not None and read >= inputs_max:
                return Counted(n=n, is_exact=False, looked_at=read)
        return Counted(n=n, looked_at=read)

    async def clusters(self, run: int, *, most: int) -> list[Cluster]:
        """The `most` largest kinds of failures of `run`, the largest first, and those of a size by their latest."""
        sample = (
            select(outcomes.c.job_id)
            .join(jobs, jobs.c.id == outcomes.c.job_id)
            .where(
                outcomes.c.error_key == clusters.c.error_key,
                outcomes.c.job_id >= first_job_of(run),
                unindexed(jobs.c.run_id) == run,
            )
            .order_by(outcomes.c.job_id)
            .limit(1)
            .scalar_subquery()
        )
        largest = (
            select(clusters.c.error_key, clusters.c.n, clusters.c.first_at, clusters.c.last_at, sample.label("job"))
            .where(clusters.c.run_id == run, clusters.c.n > 0)
            .order_by(clusters.c.n.desc(), clusters.c.last_at.desc(), clusters.c.error_key)
            .limit(most)
            .subquery()
        )
        query = (
            select(largest, outcomes.c.trouble, outcomes.c.message)
            .join(outcomes, outcomes.c.job_id == largest.c.job)
            .order_by(largest.c.n.desc(), largest.c.last_at.desc(), largest.c.error_key)
        )
        return await self._access.structs(Cluster, query)

    async def first_of_kinds(self, run: int, kinds: Sequence[int], *, most: int) -> Mapping[int, Sequence[JobName]]:
        """The first `most` jobs of `run`, by their numbers, that came to their end by a failure of each of `kinds`."""
        given = {"run": run, "most": most, **batch_of(kinds)}
        found: dict[int, list[JobName]] = {}
        for kind, job, custom_id in await self._access.rows(_FIRST_OF_KINDS, given):
            found.setdefault(kind, []).append(JobName(job, custom_id))
        return found

    async def cluster_size(self, run: int, error_key: int) -> int:
        """How many failures of that kind `run` has now."""
        query = select(clusters.c.n).where(clusters.c.run_id == run, clusters.c.error_key == error_key)
        return int(await self._access.value(query) or 0)

    async def clustered(self, run: int) -> tuple[int, int]:
        """How many kinds of failures `run` has now, and how many failures and cancellations of them all."""
        query = select(func.count(), func.coalesce(func.sum(clusters.c.n), 0))
        [row] = await self._access.rows(query.where(clusters.c.run_id == run, clusters.c.n > 0))
        return row[0], row[1]


async def _range(connection: AsyncConnection, run: int) -> _Range:
    last = select(func.max(jobs.c.id)).scalar_subquery()
    accepted = select(runs.c.intake_accepted).where(runs.c.id == run).scalar_subquery()
    row = (await connection.execute(select(first_job_of(run), last, accepted))).one()
    return _Range(below=(row[0] or 1) - 1, last=row[1] or 0, accepted=row[2] or 0)


JOB_COLUMNS: Final = (
    jobs.c.id, jobs.c.custom_id, jobs.c.line, jobs.c.state, ATTEMPTS, jobs.c.attempt, jobs.c.trouble, jobs.c.ended_at,
)  # fmt: skip
_ONCE: Final[dict[str, Any]] = {"compiled_cache": None}
"""A filter is asked seldom, and each is another statement: they are not kept."""


class _Query:
    """What one filter asks. `chosen` has `Not` directly before terms only."""

    def __init__(self, chosen: Filter) -> None:
        self._chosen = chosen
        needs = list(required(chosen))
        self._cluster = next((leaf for leaf in needs if isinstance(leaf, ClusterIs)), None)
        self._is_named = any(_names_one(leaf) for leaf in needs)
        self.condition = condition(chosen if self._cluster is None else _without(chosen, self._cluster))
        self._number = jobs.c.id if self._cluster is None else outcomes.c.job_id
        self.asks_input = asks_input(chosen) or asks_metadata(chosen)
        if self._cluster is not None or self._is_named:
            self.window = WINDOW_INDEXED
        else:
            self.window = WINDOW_MESSAGES if asks_message(chosen) or asks_retried(chosen) else WINDOW

    async def count(self, connection: AsyncConnection, run: int, bounds: _Range, window: tuple[int, int]) -> int:
        """How many are in `window`."""
        query = self._narrowed(select(func.count()), run, bounds, window)
        return int((await connection.execute(query, execution_options=_ONCE)).scalar_one())

    async def page(
        self, connection: AsyncConnection, run: int, bounds: _Range, window: tuple[int, int], most: int
    ) -> tuple[list[SelectedJob], int, int]:
        """Up to `most` of those in `window`, how many inputs were read, and the number that was looked at last."""
        if self.asks_input:
            return await self._page_by_input(connection, run, bounds, window, most)
        query = self._narrowed(select(*JOB_COLUMNS), run, bounds, window).order_by(self._number).limit(most)
        rows = (await connection.execute(query, execution_options=_ONCE)).all()
        return await selected(connection, rows), 0, rows[-1][0] if len(rows) == most else window[1]

    async def _page_by_input(
        self, connection: AsyncConnection, run: int, bounds: _Range, window: tuple[int, int], most: int
    ) -> tuple[list[SelectedJob], int, int]:
        size = select(func.length(payloads.c.input)).where(payloads.c.job_id == jobs.c.id).scalar_subquery()
        sizes = self._narrowed(select(*JOB_COLUMNS, size), run, bounds, window)
        sizes = sizes.order_by(self._number).limit(INPUTS_MAX)
        rows = (await connection.execute(sizes, execution_options=_ONCE)).all()
        fits = rows[: fitting((row[-1] for row in rows), INPUT_BYTES_MAX)]
        looked_at = await selected(connection, fits)
        found: list[SelectedJob] = []
        for n, (job, facts) in enumerate(
            zip(looked_at, await with_facts(connection, self._chosen, looked_at), strict=True), 1
        ):
            if matches(self._chosen, facts):
                found.append(job)
            if len(found) == most:
                return found, n, job.job
        is_all = len(fits) == len(rows) < INPUTS_MAX
        return found, len(fits), window[1] if is_all else fits[-1][0]

    def _narrowed(self, query: Select[Any], run: int, bounds: _Range, window: tuple[int, int]) -> Select[Any]:
        begin, end = window
        of_run = jobs.c.run_id if self._is_named else unindexed(jobs.c.run_id)
        if self._cluster is not None:
            query = query.join(outcomes, outcomes.c.job_id == jobs.c.id)
            query = query.where(outcomes.c.error_key == self._cluster.key)
        else:
            query = query.select_from(jobs)
        return query.where(
            self._number > begin,
            self._number <= end,
            self.condition,
            of_run == run,
            jobs.c.intake_id <= bounds.accepted,
        )


def _names_one(leaf: Leaf) -> bool:
    return isinstance(leaf, Text) and leaf.of == "id" and leaf.comparison is Comparison.EQUAL


def _without(chosen: Filter, met: Leaf) -> Filter:
    """`chosen` for jobs that are known to have `met`."""
    match chosen:
        case And(parts):
            return And(tuple(_without(part, met) for part in parts))
        case _:
            return EVERY if chosen == met else chosen


# --- the tree as SQL
