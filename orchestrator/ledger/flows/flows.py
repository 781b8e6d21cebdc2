"""Flows: which there are, what they wait for, and how they end."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, func, insert, literal_column, select, update

from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import News, flow_name
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb, action_add
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.flows.flow_actions import (
    AT_ONCE,
    CONTROLLED,
    MadeUp,
    fire_options,
    flow_action_add,
    made_sentence,
)
from orchestrator.ledger.flows.flow_events import (
    BRAKED,
    FLOW_STEPS,
    PAUSED,
    WHY_BRAKED,
    flow_control_runs,
    flow_happens,
    followers_leave,
    schedule_pause,
)
from orchestrator.ledger.flows.flow_rows import FLOWS, PART, Flow, PartOfFlow, StageRow
from orchestrator.ledger.schema.flow_tables import LIVE_ONLY, flows, stages
from orchestrator.ledger.statements import IN_BATCH, batch_of, upsert
from orchestrator.ledger.transactions.repository import Repository, alone
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.flow_messages_owed import flow_owe
from orchestrator.settings.command_requests import ControlAction

_SHORT: Final = (
    update(stages).where(stages.c.flow_id == bindparam("flow"), stages.c.run_id == bindparam("run")).values(is_short=1)
)

_other: Final = flows.alias("other")
_OF_BACKFILL_LATE: Final = (
    select(_other.c.id)
    .select_from(flows.join(_other, _other.c.pipeline_id == flows.c.pipeline_id))
    .where(
        flows.c.id == bindparam("flow"),
        flows.c.kind == FlowKind.BACKFILL.value,
        _other.c.kind == flows.c.kind,
        _other.c.recorded_at == flows.c.recorded_at,
        _other.c.is_late == 1,
    )
    .limit(1)
)
"""Whether it was told that one is late which was asked for together with this one."""

_BEGIN_STAGE: Final = upsert(stages, lambda new: {name: new[name] for name in ("run_id", "source", "sha256")})


class Flows(Repository):
    """The flows of a ledger."""

    # --- what there is

    async def live(self) -> list[Flow]:
        """Those that have not ended, in the order of their fires."""
        query = FLOWS.where(literal_column(LIVE_ONLY)).order_by(flows.c.fire_at, flows.c.id)
        return await self._access.structs(Flow, query)

    async def named(self, name: str) -> Flow | None:
        """The one of that name, or None."""
        return await self._access.first(Flow, FLOWS.where(flows.c.name == name))

    async def numbered(self, number: int) -> Flow | None:
        """The one of that number, or None."""
        return await self._access.first(Flow, FLOWS.where(flows.c.id == number))

    async def of_fire(self, pipeline: int, fire_at: int) -> Flow | None:
        """The first one for that fire, or None."""
        first = (flows.c.pipeline_id == pipeline) & (flows.c.fire_at == fire_at) & (flows.c.again == 1)
        return await self._access.first(Flow, FLOWS.where(first))

    async def of_fires(self, pipeline: int, fire_times: Sequence[int]) -> list[Flow]:
        """The latest one for each of these fires, in the order of the fires."""
        query = FLOWS.where(flows.c.fire_at.in_(IN_BATCH), flows.c.pipeline_id == pipeline)
        found = await self._access.structs(Flow, query.order_by(flows.c.again), batch_of(fire_times))
        return sorted({flow.fire_at: flow for flow in found}.values(), key=lambda flow: flow.fire_at)

    async def names(self) -> list[str]:
        """The names of all, oldest first."""
        return [row[0] for row in await self._access.rows(select(flows.c.name).order_by(flows.c.id))]

    async def latest(
        self, most: int | None, *, pipeline: int | None = None, states: Collection[FlowState] = ()
    ) -> list[Flow]:
        """The latest ones, newest fires first; those of one pipeline, or in some states, where that is said."""
        query = FLOWS.order_by(flows.c.fire_at.desc(), flows.c.id.desc()).limit(most)
        if pipeline is not None:
            query = query.where(flows.c.pipeline_id == pipeline)
        if states:
            query = query.where(flows.c.state.in_([state.value for state in states]))
        return await self._access.structs(Flow, query)

    async def touched(self, since: int) -> list[Flow]:
        """Those that have not ended, or have since then, in the order of their fires."""
        recent = (flows.c.ended_at >= since) | literal_column(LIVE_ONLY)
        return await self._access.structs(Flow, FLOWS.where(recent).order_by(flows.c.fire_at, flows.c.id))

    async def part(self, run: int) -> PartOfFlow | None:
        """Which part of a flow that run is, or None."""
        return await self._access.first(PartOfFlow, PART, {"run": run})

    async def stages(self, among: Collection[int]) -> list[StageRow]:
        """The stages of these flows that have begun, in the order in which they did."""
        query = select(stages).where(stages.c.flow_id.in_(IN_BATCH))
        query = query.order_by(stages.c.began_at, stages.c.again, stages.c.stage)
        return await self._access.structs(StageRow, query, batch_of(among))

    # --- asked for

    @alone
    async def add(
        self,
        transaction: Transaction,
        pipeline: int,
        name: str,
        definition: int,
        fire_times: Sequence[int],
        kind: FlowKind,
        *,
        made_up: MadeUp = AT_ONCE,
        asked: Asker | None = None,
    ) -> list[str]:
        """Flows of the pipeline for these fires, unless there are. Who `asked` for them leaves an action.

        Returns the names of those that were made. Raises `AskedBefore`.
        """
        now = self._access.now()
        connection = transaction.connection
        counted = (
            select(flows.c.fire_at, func.max(flows.c.again))
            .where(flows.c.pipeline_id == pipeline, flows.c.fire_at.in_(IN_BATCH))
            .group_by(flows.c.fire_at)
        )
        known: dict[int, int] = {row[0]: row[1] for row in await connection.execute(counted, batch_of(fire_times))}
        rows = [
            {
                "pipeline_id": pipeline,
                "definition_id": definition,
                "fire_at": fire_at,
                "again": known.get(fire_at, 0) + 1,
                "name": flow_name(name, fire_at, known.get(fire_at, 0) + 1),
                "kind": kind.value,
                "parallel": made_up.parallel,
                "recorded_at": now,
            }
            for fire_at in fire_times
            if made_up.again or fire_at not in known
        ]
        if rows:
            await connection.execute(insert(flows), rows)
        made = [str(row["name"]) for row in rows]
        if asked is not None:
            options = fire_options(name, fire_times, made_up)
            verb = Verb.BACKFILL if kind is FlowKind.BACKFILL else Verb.FIRE
            act = Act(
                verb=verb,
                subject=SubjectKind.PIPELINE,
                number=pipeline,
                name=name,
                options=options,
                count=len(fire_times),
            )
            await action_add(connection, asked, act, now=now, ended=Ended(made_sentence(made), done=len(made)))
        return made

    # --- their lives

    @alone
    async def step(self, transaction: Transaction, flow: int, event: FlowEvent, why: str = "") -> bool:
        """`event` happens to a flow; False where it cannot any more."""
        return await flow_happens(transaction.connection, flow, event, why, self._access.now())

    @alone
    async def start(self, transaction: Transaction, numbers: Sequence[int]) -> None:
        """These begin, those of them that still wait."""
        now = self._access.now()
        rows = [{"of": number, "because": "", "now": now} for number in numbers]
        waiting = select(flows.c.id).where(flows.c.id.in_(IN_BATCH), flows.c.state == FlowState.WAITING.value)
        begun = [row[0] for row in await transaction.connection.execute(waiting, batch_of(numbers))]
        await transaction.connection.execute(FLOW_STEPS[FlowEvent.STARTED], rows)
        for number in begun:
            await flow_owe(transaction.connection, number, News.STARTED, "", now)

    async def begin_stage(self, flow: int, stage: str, *, run: int, source: str, sha256: str, again: int = 1) -> None:
        """`run` carries out a stage, the so manieth time, with this input: before any of it is taken in, and once more
        where that did not come to its end.
        """
        row = {
            "flow_id": flow,
            "stage": stage,
            "again": again,
            "run_id": run,
            "source": source,
            "sha256": sha256,
            "began_at": self._access.now(),
        }
        await self._access.alone.execute(_BEGIN_STAGE, row)

    @alone
    async def rerun(
        self,
        transaction: Transaction,
        flow: int,
        again: Sequence[str],
        *,
        only_failed: bool,
        asked: Asker | None = None,
    ) -> bool:
        """A flow that has ended goes on with new runs of these stages, and the ones before are handed nothing more;
        False where it has not ended. Who `asked` for it leaves an action. Raises `AskedBefore`.
        """
        now = self._access.now()
        connection = transaction.connection
        if not await flow_happens(connection, flow, FlowEvent.REOPENED, "", now):
            return False
        await flow_control_runs(connection, flow, ControlAction.CONTINUE)
        await connection.execute(update(flows).where(flows.c.id == flow).values(is_overruled=0))
        known = select(stages.c.stage, func.max(stages.c.again)).where(stages.c.flow_id == flow)
        latest = {row[0]: row[1] for row in await connection.execute(known.group_by(stages.c.stage))}
        await followers_leave(connection, flow, again)
        rows = [
            {
                "flow_id": flow,
                "stage": stage,
                "again": latest.get(stage, 0) + 1,
                "source": "",
                "sha256": "",
                "began_at": now,
                "only_failed": int(only_failed),
            }
            for stage in again
        ]
        await connection.execute(insert(stages), rows)
        options = {"stages": ", ".join(again)} | ({"only": "what has failed"} if only_failed else {})
        told = f"it goes on with new runs of {options['stages']}"
        await flow_action_add(connection, asked, flow, Verb.RERUN, now=now, outcome=told, options=options)
        return True

    async def pause(self, flow: int, why: str, *, short: int | None = None, asked: Asker | None = None) -> bool:
        """Holds a flow, and pauses its runs, since there are too few rows for the run `short`, where that is why; False
        where it does not run, and no brake holds it. Who `asked` for it leaves an action. Raises `AskedBefore`.
        """
        return await self._control(flow, FlowEvent.ON_HOLD, ControlAction.PAUSE, why, short=short, asked=asked)

    @alone
    async def brake(self, transaction: Transaction, flow: int, why: str) -> bool:
        """A brake of one of its runs holds the flow, until that lets it go on; False where it is held already, if now
        for another reason, or does not run.
        """
        done = await flow_happens(transaction.connection, flow, FlowEvent.ON_HOLD, why, self._access.now())
        await transaction.connection.execute(BRAKED if done else WHY_BRAKED, {"of": flow, "because": why})
        return done

    async def release(self, flow: int) -> bool:
        """No brake holds it any more; False where none did."""
        if not (await self._access.rows(select(flows.c.id).where(flows.c.id == flow, flows.c.is_braked == 1))):
            return False
        return await self.step(flow, FlowEvent.RELEASED)

    async def proceed(self, flow: int, *, asked: Asker | None = None) -> bool:
        """A held flow and its runs go on; False where it is not held. Who `asked` for it leaves an action. Raises
        `AskedBefore`.
        """
        return await self._control(flow, FlowEvent.CONTINUED, ControlAction.CONTINUE, "", asked=asked)

    @alone
    async def _control(
        self,
        transaction: Transaction,
        flow: int,
        event: FlowEvent,
        action: ControlAction,
        why: str,
        *,
        short: int | None = None,
        asked: Asker | None,
    ) -> bool:
        connection = transaction.connection
        now = self._access.now()
        done = await flow_happens(connection, flow, event, why, now)
        if not done and action is ControlAction.PAUSE:
            done = (await connection.execute(PAUSED, {"of": flow, "because": why})).rowcount > 0
        if done:
            await flow_control_runs(connection, flow, action, at=now)
            await connection.execute(_SHORT, {"flow": flow, "run": short})
            await flow_action_add(connection, asked, flow, Verb(action), now=now, outcome=CONTROLLED[action])
        return done

    @alone
    async def cancel(self, transaction: Transaction, flow: int, why: str, *, asked: Asker | None = None) -> bool:
        """Cancels a flow with its runs: one that waits ends at once, another one once its runs have. False where it
        has ended. Who `asked` for it leaves an action. Raises `AskedBefore`.
        """
        connection = transaction.connection
        now = self._access.now()
        waits = flows.c.state == FlowState.WAITING.value
        state = (await connection.execute(select(flows.c.id).where(flows.c.id == flow, waits))).first()
        if state is not None:
            done, told = await flow_happens(connection, flow, FlowEvent.CANCELLED, why, now), "it had not begun"
        else:
            change = update(flows).where(flows.c.id == flow, flows.c.ended_at.is_(None))
            done = (await connection.execute(change.values(is_cancelled=1, why=why))).rowcount > 0
            told = CONTROLLED[ControlAction.CANCEL]
            if done:
                await flow_control_runs(connection, flow, ControlAction.CANCEL)
        if done:
            await flow_action_add(connection, asked, flow, Verb.CANCEL, now=now, outcome=told)
        return done

    @alone
    async def cancel_runs(self, transaction: Transaction, flow: int) -> None:
        """Cancels the runs of a flow that is to end."""
        await flow_control_runs(transaction.connection, flow, ControlAction.CANCEL)

    @alone
    async def tell_late(self, transaction: Transaction, flow: int, why: str) -> bool:
        """It is told that a flow is late; False where it had been, of it or of another one of the same backfill."""
        change = update(flows).where(flows.c.id == flow, flows.c.is_late == 0).values(is_late=1)
        connection = transaction.connection
        told = (await connection.execute(_OF_BACKFILL_LATE, {"flow": flow})).first()
        is_news = (await connection.execute(change)).rowcount > 0 and told is None
        if is_news:
            await flow_owe(connection, flow, News.LATE, why, self._access.now())
        return is_news

    @alone
    async def end(
        self, transaction: Transaction, flow: int, event: FlowEvent, why: str = "", *, pause_after: int | None = None
    ) -> bool:
        """A flow ends. Where it is the last of `pause_after` failed ones in a row, its schedule is paused with it; then
        True.
        """
        connection, now = transaction.connection, self._access.now()
        if not await flow_happens(connection, flow, event, why, now) or pause_after is None:
            return False
        return event is FlowEvent.FAILED and await schedule_pause(connection, flow, pause_after, now)
