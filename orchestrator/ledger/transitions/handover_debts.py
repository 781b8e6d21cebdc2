"""What the steps of jobs make owed, in the transaction of its last step: a row that has ended is to be handed over, and
somebody may want to hear that its run is over.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowState, after
from orchestrator.ledger.schema.flow_tables import flows, stages
from orchestrator.ledger.schema.handover_tables import groups, handovers, owed, relays
from orchestrator.ledger.schema.job_tables import jobs
from orchestrator.ledger.statements import IN_BATCH, Many, batch_of, insert_new
from orchestrator.ledger.transitions.group_counts import Way, due_add, groups_begin, open_add, ways_through
from orchestrator.ledger.transitions.run_messages_owed import ends_owe

NEVER_US: Final = 1 << 62
"""When a job is due that nobody sends: its step is called anew, and makes others of it or has it fail again."""

_FOLLOWERS: Final = select(relays.c.from_run, relays.c.to_run).where(relays.c.from_run.in_(IN_BATCH))
_OWE: Final = Many(insert_new(owed), "to_run", "job_id")
_OWED: Final = select(owed.c.to_run, owed.c.job_id).where(owed.c.job_id.in_(IN_BATCH))
_FAILED_STEPS: Final = select(handovers.c.job_id, handovers.c.to_run).where(handovers.c.failed_job.in_(IN_BATCH))
_DUE_ANEW: Final = (
    update(groups)
    .where(groups.c.failed_job.in_(IN_BATCH), groups.c.is_due == 0)
    .values(is_due=1)
    .returning(groups.c.to_run, groups.c.failed_job)
)
_SEND_NEVER: Final = update(jobs).where(jobs.c.id.in_(IN_BATCH)).values(due_at=literal_column(str(NEVER_US)))

_FLOWS_GO_ON: Final = (
    update(flows)
    .where(
        flows.c.id.in_(select(stages.c.flow_id).where(stages.c.run_id.in_(IN_BATCH))),
        flows.c.state.in_([FlowState.SUCCEEDED.value, FlowState.PARTIAL.value, FlowState.FAILED.value]),
    )
    .values(
        state=after(FlowEvent.REOPENED).value,
        started_at=bindparam("now"),
        due_at=bindparam("now"),
        ended_at=None,
        why="",
        is_cancelled=0,
    )
)

HandoverDebt = tuple[int, int]
"""A run, and a job that is owed to it."""


async def owed_write(connection: AsyncConnection, done: Sequence[Transition]) -> bool:
    """Jobs that have ended are owed to whoever follows. A failed step that is reopened is owed anew.

    Returns whether the keeper, whichever process that is, has something to do by it: a message to send, a flow that
    goes on. (Of the rows that are owed it hears by following their runs.)
    """
    are_signalled = False
    if ended := [step for step in done if is_terminal(step.after)]:
        await _ended(connection, ended)
        are_signalled = await ends_owe(connection, {step.after.run for step in ended}, now=ended[0].at)
    late = [step for step in done if is_terminal(step.before)]
    if late:
        # Flows that have ended go on: jobs of theirs were queued again, or have succeeded after all.
        of_runs = batch_of({step.after.run for step in late})
        going_on = await connection.execute(_FLOWS_GO_ON, {"now": late[0].at, **of_runs})
        are_signalled = are_signalled or going_on.rowcount > 0
    if reopened := [step for step in done if step.event is Event.REOPENED]:
        await _reopened(connection, reopened)
    return are_signalled


async def _ended(connection: AsyncConnection, ended: Sequence[Transition]) -> None:
    followers = (await connection.execute(_FOLLOWERS, batch_of({step.after.run for step in ended}))).all()
    if not followers:
        return
    ways = await ways_through(connection, {step.after.run for step in ended})
    gathering = {way.to_run: way for way in ways}
    rows = [
        (to_run, step.after.id)
        for step in ended
        for from_run, to_run in followers
        if step.after.run == from_run
        if to_run not in gathering or _ends_there(gathering[to_run], step)
    ]
    fresh = await _owe(connection, rows, is_counted=bool(ways))
    owed_to: dict[int, list[int]] = {}
    for to_run, job in fresh:
        if to_run not in gathering:
            owed_to.setdefault(job, []).append(to_run)
    for way in ways:
        on_it = [step for step in ended if step.after.run in way.runs]
        begun = {
            step.after.id: sum(
                from_run == step.after.run and to_run not in gathering and way.counts(to_run)
                for from_run, to_run in followers
            )
            for step in on_it
            if way.is_begun_by(step.after.run) and step.after.state is State.SUCCEEDED
        }
        changes = {
            step.after.id: sum(map(way.counts, owed_to.get(step.after.id, ()))) - (not is_terminal(step.before))
            for step in on_it
            if not way.is_begun_by(step.after.run)
        }
        await groups_begin(connection, way, begun)
        await open_add(connection, way, changes)


def _ends_there(way: Way, step: Transition) -> bool:
    """Whether a row that would have begun a group has failed: there will be none to be handed over with."""
    return way.is_begun_by(step.after.run) and step.after.state is not State.SUCCEEDED


async def _owe(connection: AsyncConnection, rows: Collection[HandoverDebt], *, is_counted: bool) -> list[HandoverDebt]:
    """Owes these, and returns those that were not owed already, where that is to be known."""
    if not rows:
        return []
    before: set[Any] = set()
    if is_counted:
        before = {tuple(row) for row in await connection.execute(_OWED, batch_of({job for _, job in rows}))}
    fresh = [row for row in rows if row not in before]
    await _OWE.execute(connection, [{"to_run": to_run, "job_id": job} for to_run, job in fresh])
    return fresh


async def _reopened(connection: AsyncConnection, reopened: Sequence[Transition]) -> None:
    for way in await ways_through(connection, {step.after.run for step in reopened}):
        changes = {step.after.id: 1 for step in reopened if way.counts(step.after.run)}
        await open_add(connection, way, changes)
    batch = batch_of([step.after.id for step in reopened])
    failed = [(to, job) for job, to in await connection.execute(_FAILED_STEPS, batch)]
    if failed:
        for to_run, n in (await _owed_anew(connection, failed)).items():
            await due_add(connection, to_run, n)
    due = (await connection.execute(_DUE_ANEW, batch)).all()
    for to_run, job in due:
        await due_add(connection, to_run, {job: 1})
    never = select(handovers.c.failed_job).where(handovers.c.failed_job.in_(IN_BATCH))
    never_sent = [*(await connection.execute(never, batch)).scalars(), *(job for _, job in due)]
    if never_sent:
        await connection.execute(_SEND_NEVER, batch_of(never_sent))


async def _owed_anew(connection: AsyncConnection, failed: Sequence[HandoverDebt]) -> dict[int, Counter[int]]:
    found: dict[int, Counter[int]] = {}
    for to_run, job in await _owe(connection, failed, is_counted=True):
        found.setdefault(to_run, Counter())[job] += 1
    return found
