"""What people ask of a run while it goes on: to pause, to continue, to be cancelled."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, exists, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.cancel_reason import BY_PEOPLE, CancelWhy
from orchestrator.core.jobs.lifecycle import UNFINISHED, State
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.schema.job_tables import brakes, commands, counts, jobs, runs, submissions
from orchestrator.ledger.statements import upsert
from orchestrator.settings.command_requests import ControlAction

_VALUES: Final[Mapping[ControlAction, Mapping[str, int]]] = {
    ControlAction.PAUSE: {"pause_requested": 1},
    ControlAction.CONTINUE: {"pause_requested": 0, "cancel_requested": 0},
    ControlAction.CANCEL: {"cancel_requested": 1},
}

_CONTINUE: Final = upsert(brakes, lambda new: {"continued_at": new.continued_at, "held_by": new.held_by})
_LIFT: Final = update(brakes).where(brakes.c.run_id == bindparam("run")).values(held_by=None)


class RunControls(msgspec.Struct, frozen=True, kw_only=True):
    """What people have asked of a run, and not taken back."""

    pause: bool = False
    cancel: bool = False


class ControlledRun(msgspec.Struct, frozen=True):
    """A run of which people have asked something, and what."""

    name: str
    controls: RunControls


HAS_UNFINISHED: Final = (
    select(literal_column("1"))
    .where(counts.c.run_id == runs.c.id, counts.c.n > 0, counts.c.name.in_(UNFINISHED))
    .exists()
)
"""Whether a run has unfinished jobs."""

TO_CANCEL: Final = select(runs.c.id).where(runs.c.cancel_requested == 1, HAS_UNFINISHED).order_by(runs.c.id)
"""The runs that are cancelled and have unfinished jobs."""

_TAKE_BACK: Final = (
    update(submissions)
    .values(cancel_at=None, cancel_why=None)
    .where(
        submissions.c.cancel_at.is_not(None),
        submissions.c.cancel_why == literal_column(f"'{CancelWhy.ASKED}'"),
        # Else SQLite goes through all jobs of the run.
        exists().where(jobs.c.id == submissions.c.job_id, unindexed(jobs.c.run_id) == bindparam("run")),
    )
)


async def control_set(connection: AsyncConnection, run: int, action: ControlAction) -> None:
    """Asks something of `run`. To continue lifts both of the others, and takes back every `/cancel` still owed, but for
    jobs that were chosen.
    """
    await connection.execute(update(runs).where(runs.c.id == run).values(**_VALUES[action]))
    if action is ControlAction.CONTINUE:
        await connection.execute(_TAKE_BACK, {"run": run})


_of_run = exists().where(jobs.c.submission_id == submissions.c.id, unindexed(jobs.c.run_id) == bindparam("run"))
_PUT_OFF: Final = (
    update(submissions)
    .values(cancel_at=bindparam("until"), cancel_why=CancelWhy.ASKED.value)
    .where(
        submissions.c.id.in_(
            select(jobs.c.submission_id).where(
                jobs.c.run_id == bindparam("run"),
                jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"),
                jobs.c.segment > 0,
            )
        ),
        or_(submissions.c.cancel_why.is_(None), submissions.c.cancel_why.not_in(sorted(BY_PEOPLE))),
    )
)
_NO_LATER: Final = (
    update(submissions)
    .values(cancel_at=bindparam("until"))
    .where(
        submissions.c.cancel_at > bindparam("until"),
        submissions.c.cancel_why == literal_column(f"'{CancelWhy.ASKED}'"),
        _of_run,
    )
)


async def grace_set(connection: AsyncConnection, run: int, *, until: int, is_given: bool) -> None:
    """The `/cancel` of each segment of `run` at the service is owed by `until`, or once it has a newer checkpoint.

    Where no grace `is_given`, those that had one are owed it now.
    """
    if is_given:
        await connection.execute(_PUT_OFF, {"run": run, "until": until})
    await connection.execute(_NO_LATER, {"run": run, "until": until})


async def progress_add(connection: AsyncConnection, command: int, changed: int) -> None:
    """A command has changed so many more jobs."""
    more = update(commands).where(commands.c.id == command).values(progress=commands.c.progress + changed)
    await connection.execute(more)


async def continue_write(connection: AsyncConnection, run: int, *, at: int) -> None:
    """People have `run` go on."""
    await connection.execute(_CONTINUE, {"run_id": run, "continued_at": at, "held_by": None})


async def lift_write(connection: AsyncConnection, run: int) -> None:
    """People have changed what a brake of `run` goes by: who works on it next finds out whether it still holds it."""
    await connection.execute(_LIFT, {"run": run})
