"""The jobs of a run that failed or were cancelled, in the order in which they ended: of which kind, and which is next.

An index has those alone. However many there are, a bounded number is looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Select, bindparam, func, literal_column, select, tuple_

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.schema.job_tables import GIVEN_UP, jobs, outcomes, values_check
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.views.jobs import JobRow

LOOKED_AT_MAX: Final = 3_000
"""So many of them are looked at, for how often each kind came of late, or for the next of a kind: some 6 ms."""


class KindEnds(msgspec.Struct, frozen=True, kw_only=True):
    """How often the kinds of failures came, in equal parts of a time."""

    since: int
    parts: Mapping[int, Sequence[int]]
    """By the key of the kind, oldest part first; of those that came at all."""


_PLACE: Final = (jobs.c.ended_at, jobs.c.state, jobs.c.id)
"""As the index has them, so that nothing is sorted."""

_OF_RUN: Final = select(jobs.c.id, jobs.c.ended_at, jobs.c.state).where(
    jobs.c.run_id == bindparam("run"), literal_column(values_check("jobs.state", GIVEN_UP))
)

_late: Final = (
    _OF_RUN.where(jobs.c.ended_at > bindparam("since"), jobs.c.ended_at <= bindparam("until"))
    .order_by(*(column.desc() for column in _PLACE))
    .limit(LOOKED_AT_MAX)
    .subquery()
)
_FIRST_OF_LATE: Final = select(_late.c.ended_at).limit(1).offset(LOOKED_AT_MAX - 1)
_part: Final = ((_late.c.ended_at - bindparam("since") - 1) // bindparam("width")).label("part")
_KINDS: Final = (
    select(outcomes.c.error_key, _part, func.count())
    .select_from(_late.join(outcomes, outcomes.c.job_id == _late.c.id))
    .where(outcomes.c.error_key.is_not(None))
    .group_by(outcomes.c.error_key, "part")
)

_after: Final = (
    _OF_RUN.where(tuple_(*_PLACE) > tuple_(bindparam("ended_at"), bindparam("state"), bindparam("job")))
    .order_by(*_PLACE)
    .limit(LOOKED_AT_MAX)
    .subquery()
)


def _first(query: Select[Any]) -> Select[Any]:
    return query.order_by(_after.c.ended_at, _after.c.state, _after.c.id).limit(1)


_NEXT: Final = _first(select(_after.c.id).where(_after.c.state == literal_column(f"'{State.FAILED}'")))
_NEXT_OF_KIND: Final = _first(
    select(_after.c.id)
    .select_from(_after.join(outcomes, outcomes.c.job_id == _after.c.id))
    .where(outcomes.c.error_key == bindparam("kind"))
)


class FailedJobs(Repository):
    """The jobs of runs that failed or were cancelled."""

    async def kinds_since(self, run: int, since: int, until: int, *, parts: int) -> KindEnds:
        """How often each kind of failures of `run` came between these times, in so many equal parts; of a run in which
        very many jobs fail, of the last part of that time only.
        """
        given = {"run": run, "since": since, "until": until}
        since = await self._access.value(_FIRST_OF_LATE, given) or since
        width = max(1, -(-(until - since) // parts))
        found: dict[int, list[int]] = {}
        for key, number, n in await self._access.rows(_KINDS, {**given, "since": since, "width": width}):
            found.setdefault(key, [0] * parts)[min(number, parts - 1)] += n
        return KindEnds(since=since, parts=found)

    async def next(self, run: int, after: JobRow, *, kind: int | None = None) -> int | None:
        """The number of the job of `run` that failed next after `after` ended, or that came to its end by a failure of
        that kind; None where none of the next `LOOKED_AT_MAX` has. Of a job that has not ended it is the first one.
        """
        given = {"run": run, "ended_at": after.ended_at or 0, "state": after.state, "job": after.job}
        if kind is None:
            found = await self._access.value(_NEXT, given)
        else:
            found = await self._access.value(_NEXT_OF_KIND, {**given, "kind": kind})
        return None if found is None else int(found)
