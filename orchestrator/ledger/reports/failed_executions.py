"""Executions that failed and were followed by another one: what each said, and the kinds of them that a run had."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from orchestrator.core.filters.filter_parser import cluster_name
from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.ledger.reports.job_conditions import first_job_of
from orchestrator.ledger.schema.job_tables import (
    clusters,
    failed_executions,
    jobs,
    retried_kinds,
    values_check,
)
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.transactions.repository import Repository

KINDS_MAX: Final = 1_000
"""So many kinds of a run are counted; there are rarely more than a few dozen."""


class FailedExecution(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An execution that failed, and that another one has followed or is to follow."""

    attempt: int
    at: int
    class_: str
    error_key: int
    error: str
    execution_ms: int | None

    @property
    def cluster(self) -> str:
        """The name of its kind."""
        return cluster_name(self.error_key)


class RetriedKindRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Such executions of one kind that a run had. Times are microseconds UTC."""

    error_key: int
    trouble: str
    sample: str
    n: int
    total_ms: int
    untold: int
    """Those whose time the service has not told."""

    first_at: int
    last_at: int
    failed_jobs: int
    """How many jobs have ended with a failure of that kind."""


_OF_JOB: Final = (
    select(
        *columns(
            FailedExecution,
            failed_executions,
            class_=failed_executions.c.trouble,
            error=failed_executions.c.message,
        )
    )
    .where(failed_executions.c.job_id == bindparam("job"))
    .order_by(failed_executions.c.attempt)
)
_FAILED: Final = func.coalesce(clusters.c.n, 0)
_KINDS: Final = (
    select(*columns(RetriedKindRow, retried_kinds, failed_jobs=_FAILED))
    .select_from(
        retried_kinds.outerjoin(
            clusters,
            (clusters.c.run_id == retried_kinds.c.run_id) & (clusters.c.error_key == retried_kinds.c.error_key),
        )
    )
    .where(retried_kinds.c.run_id == bindparam("run"))
    .order_by(retried_kinds.c.n.desc(), retried_kinds.c.last_at.desc(), retried_kinds.c.error_key)
    .limit(bindparam("most"))
)
_OPEN: Final = (
    select(failed_executions.c.error_key, func.count(failed_executions.c.job_id.distinct()))
    .select_from(failed_executions.join(jobs, jobs.c.id == failed_executions.c.job_id))
    .where(
        failed_executions.c.job_id >= first_job_of(bindparam("run")),
        jobs.c.run_id == bindparam("run"),
        ~literal_column(values_check("jobs.state", TERMINAL)).self_group(),
    )
    .group_by(failed_executions.c.error_key)
)

_BY_JOB: Final = (
    select(failed_executions.c.job_id, failed_executions.c.error_key)
    .select_from(failed_executions.join(jobs, jobs.c.id == failed_executions.c.job_id))
    .where(failed_executions.c.job_id >= first_job_of(bindparam("run")), jobs.c.run_id == bindparam("run"))
)


class FailedExecutions(Repository):
    """Of the jobs of a ledger."""

    async def of_job(self, job: int) -> list[FailedExecution]:
        """Those of `job`, oldest first; of one that ended long ago they may be gone."""
        return await self._access.structs(FailedExecution, _OF_JOB, {"job": job})

    async def kinds(self, run: int, *, most: int = KINDS_MAX) -> list[RetriedKindRow]:
        """The `most` largest kinds of them that `run` had, the largest first."""
        return await self._access.structs(RetriedKindRow, _KINDS, {"run": run, "most": most})

    async def kinds_by_job(self, run: int) -> Mapping[int, frozenset[int]]:
        """The kinds of them that the jobs of `run` had, by the numbers of these."""
        found: dict[int, set[int]] = {}
        for job, kind in await self._access.rows(_BY_JOB, {"run": run}):
            found.setdefault(job, set()).add(kind)
        return {job: frozenset(kinds) for job, kinds in found.items()}

    async def open(self, run: int) -> dict[int, int]:
        """By kind, how many jobs of `run` had such an execution, and have not ended."""
        return {row[0]: row[1] for row in await self._access.rows(_OPEN, {"run": run})}
