"""What brakes go by, kept: what was executed, how they stand, which rows go first, and that people went on."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.gates.failure_breaker import BreakerState, RatedExecution
from orchestrator.core.gates.gates import Hold
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.lifecycle import State as JobState
from orchestrator.ledger.jobs.history import EVENTS_LEARNED_FROM_MAX
from orchestrator.ledger.schema.job_tables import brakes, events, executions, failed_executions, jobs, outcomes
from orchestrator.ledger.schema.row_codec import is_taken_in
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Repository, shared
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.execution_writes import Place


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the brakes of a run stand, for the next process."""

    breaker: BreakerState = BreakerState()
    overruled: Mapping[str, str] = {}
    """The brakes that people went past, each with what its setting was then: another one counts again."""

    continued_at: int = 0
    """When people had it go on for the last time that a process has heeded."""

    judged_from: int = 0
    """Executions that ended before then do not count for the breaker: people went past them, or retried jobs."""


class OfRun(msgspec.Struct, frozen=True):
    """What is kept of one run."""

    kept: Kept
    canary: tuple[int, ...] | None
    """The jobs that go first; None where none were chosen yet."""

    continued_at: int
    """When people last had it go on; 0 for never."""


_kept: Final = msgspec.json.Decoder(Kept)
_hold: Final = msgspec.json.Decoder(Hold)
_canary: Final = msgspec.json.Decoder(tuple[int, ...])

_KEEP: Final = upsert(brakes, lambda new: {"kept": new.kept, "held_by": new.held_by})
_CHOOSE: Final = upsert(brakes, lambda new: {"canary": new.canary})
_HELD: Final = select(brakes.c.run_id, brakes.c.held_by).where(brakes.c.held_by.is_not(None))
_CONTINUED: Final = select(brakes.c.run_id, brakes.c.continued_at).where(brakes.c.continued_at > 0)

_in_line = (
    select(jobs.c.id, (func.row_number().over(order_by=(jobs.c.line, jobs.c.id)) - 1).label("n"))
    .where(
        jobs.c.run_id == bindparam("run"),
        jobs.c.state == literal_column(f"'{JobState.QUEUED}'"),
        is_taken_in(bindparam("run")),
    )
    .cte("in_line")
)
_number = select(func.count()).select_from(_in_line).scalar_subquery()
_SPREAD: Final = (
    select(_in_line.c.id)
    .where((_in_line.c.n * bindparam("most")) % _number < bindparam("most"))
    .order_by(_in_line.c.n)
    .limit(bindparam("most"))
)
"""So many queued jobs, spread over the input from its first row on; all where there are no more."""

_LATEST: Final = (
    select(
        events.c.event,
        events.c.trouble,
        func.coalesce(outcomes.c.error_key, failed_executions.c.error_key).label("error_key"),
        func.coalesce(outcomes.c.message, failed_executions.c.message).label("message"),
    )
    .select_from(
        events.join(jobs, jobs.c.id == events.c.job_id)
        .outerjoin(
            outcomes,
            (outcomes.c.job_id == events.c.job_id) & (events.c.event == literal_column(f"'{Event.ABANDONED}'")),
        )
        .outerjoin(
            failed_executions,
            (failed_executions.c.job_id == events.c.job_id)
            & (failed_executions.c.attempt == events.c.attempt)
            & events.c.trouble.is_not(None),
        )
    )
    .where(
        events.c.id > select(func.max(events.c.id) - EVENTS_LEARNED_FROM_MAX).scalar_subquery(),
        jobs.c.run_id == bindparam("run"),
        events.c.at > bindparam("since"),
        events.c.event.in_([Event.COMPLETED, Event.RETRIED, Event.ABANDONED, Event.CONTINUED]),
        events.c.trouble.is_(None) | events.c.trouble.in_(sorted(FAILED)),
    )
    .order_by(events.c.id.desc())
    .limit(bindparam("most"))
)


class Brakes(Repository):
    """Of the runs of a ledger."""

    async def executed(self) -> Mapping[Place, DurationTotals]:
        """The executions that have ended, added up by run, endpoint and day."""
        return {
            (row.run_id, row.endpoint_id, row.day): msgspec.convert(row, DurationTotals, from_attributes=True)
            for row in await self._access.rows(select(executions))
        }

    async def recount(self, tell: Callable[[Mapping[Place, DurationTotals]], None]) -> None:
        """Hands all of them to `tell` when the feed has told of the steps in them, and no other."""
        found: dict[Place, DurationTotals] = {}

        async def block(transaction: Transaction) -> None:
            found.clear()
            found.update(await Brakes(self._access.within(transaction.connection)).executed())

        def then(error: Exception | None) -> None:
            if error is None:
                tell(found)

        await self._access.shared.write(block, then)

    async def of(self, run: int) -> OfRun:
        """What is kept of `run`."""
        rows = await self._access.rows(select(brakes).where(brakes.c.run_id == run))
        return _of_row(rows[0]) if rows else OfRun(Kept(), None, 0)

    async def keep(self, run: int, kept: Kept, held_by: Hold | None = None) -> None:
        """Writes down how they stand, and which one holds the run, if any. Raises `StorageError`."""
        hold = None if held_by is None else msgspec.json.encode(held_by)
        await self._access.shared.execute(_KEEP, {"run_id": run, "kept": msgspec.json.encode(kept), "held_by": hold})

    async def holds(self) -> Mapping[int, Hold]:
        """The runs that a brake holds, as whoever worked on them last has found, and nobody has lifted since."""
        return {row[0]: _hold.decode(row[1]) for row in await self._access.rows(_HELD)}

    @shared
    async def choose(self, transaction: Transaction, run: int, most: int) -> tuple[int, ...]:
        """Chooses up to `most` of the queued jobs of `run` to go first, spread over its input, where it has any."""
        chosen = tuple((await transaction.connection.execute(_SPREAD, {"run": run, "most": most})).scalars())
        if chosen:
            await transaction.connection.execute(_CHOOSE, {"run_id": run, "canary": msgspec.json.encode(chosen)})
        return chosen

    async def continued(self) -> Mapping[int, int]:
        """When people last had each run go on, where they did."""
        return {row[0]: row[1] for row in await self._access.rows(_CONTINUED)}

    async def latest(self, run: int, most: int, *, since: int = 0) -> list[RatedExecution]:
        """The latest ends of executions of `run` after then, oldest first, as far as the latest events tell."""
        rows = await self._access.rows(_LATEST, {"run": run, "most": most, "since": since})
        return [
            RatedExecution(
                is_failed=row.trouble is not None, kind=row.error_key, summary=f"{row.trouble}: {row.message}"
            )
            for row in reversed(rows)
        ]


def _of_row(row: object) -> OfRun:
    """What another program wrote in words that this one does not know does not count here."""
    stored = getattr(row, "kept", None)
    try:
        kept = Kept() if stored is None else _kept.decode(stored)
    except msgspec.ValidationError:
        kept = Kept()
    chosen = getattr(row, "canary", None)
    return OfRun(kept, None if chosen is None else _canary.decode(chosen), getattr(row, "continued_at", 0))
