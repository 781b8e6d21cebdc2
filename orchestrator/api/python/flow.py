"""Flows in a program's hands: how they are asked for, and one of them."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from os import PathLike
from typing import Literal, overload

from orchestrator.api.flows.apply import Applied, apply_in
from orchestrator.api.flows.flows import flow_named, pipeline_named
from orchestrator.api.flows.triggers import ask_for, fires_meant, make_up_for
from orchestrator.api.python.ledger_session import LedgerSession
from orchestrator.api.python.open_ledger import OpenLedger
from orchestrator.api.python.pipeline import Pipeline, pipeline_reading
from orchestrator.api.python.results import Result, results_since
from orchestrator.api.runs.process_commands import control_flow
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.core.text.name_match import nearest
from orchestrator.errors import StoppedError, UsageError
from orchestrator.ledger.flows.flow_rows import Flow as FlowRow
from orchestrator.ledger.flows.flow_rows import StageRow
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.pipeline_keys import PARALLEL_MAX

FlowStates = Literal["waiting", "running", "held", "succeeded", "partial", "failed", "cancelled"]


class Flow:
    """One execution of a pipeline, of a ledger that an `Orchestrator` serves or follows. Made by `trigger`, `backfill`
    and `flow`, not by hand. `state`, `why` and `counts` are as they were when it was looked at last: by `look`, `wait`
    and `results`.

    Leaving it leaves the flow as it is in the ledger: the same `trigger`, with the same time, goes on with it.

        flow = await orc.trigger("captions", at="2027-03-27T02:30")
        async for result in flow.results():
            print(result.custom_id, result.output)
    """

    def __init__(self, session: LedgerSession, row: FlowRow, stages: tuple[str, ...]) -> None:
        self._session = session
        self._row = row
        self._stages = stages
        self._counts: Mapping[str, Mapping[str, int]] = {}

    @classmethod
    async def of(cls, session: LedgerSession, rows: list[FlowRow]) -> "list[Flow]":
        """Those that stand in these rows of the ledger."""
        definitions = await session.ledger.flows.pipelines.definitions(row.definition for row in rows)
        return [cls(session, row, tuple(stage.name for stage in definitions[row.definition].stages)) for row in rows]

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}: {self.state}>"

    @property
    def name(self) -> str:
        """Its name in the ledger, as in `captions@20270328T010000Z`; that of a stage's run has `/STAGE` behind it."""
        return self._row.name

    @property
    def state(self) -> FlowStates:
        """`"waiting"`, `"running"`, `"held"`; or its end: `"succeeded"`, `"partial"`, `"failed"`, `"cancelled"`."""
        return self._row.state.value

    @property
    def why(self) -> str:
        """Why it is held, or ended as it did."""
        return with_its_ledger(self._row.why, self._session.ledger.address)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Of each stage that has begun its jobs: `total`, and one number for each state, as in
        `flow.counts["caption"]["succeeded"]`.
        """
        return self._counts

    async def look(self) -> "Flow":
        """Looks how it stands by now; returns itself."""
        self._session.check_open()
        await self._look()
        counts = {}
        for name, row in (await self._begun()).items():
            of_run = {} if row.run is None else await self._session.ledger.runs.counts(row.run)
            counts[name] = {"total": sum(of_run.values()), **{state.value: of_run.get(state, 0) for state in State}}
        self._counts = counts
        return self

    async def wait(self) -> FlowStates:
        """Waits until it has ended; returns `state`. Raises `StoppedError` where it is held, or nothing comes of it
        before somebody changes something.
        """
        self._session.check_open()
        version = await self._version()
        while not await self._has_ended():
            await self._news(version)
            version = await self._version()
        await self.look()
        return self.state

    async def results(self, stage: str | None = None) -> AsyncGenerator[Result, None]:
        """Each job of a stage, or of the last one, that has ended, and each that does, until the flow has ended.

        Failed and cancelled jobs are among them. Raises as `wait`, once all that ended have come, and `StoppedError`
        where the flow ended before the stage began.
        """
        async for page in self.pages(stage):
            for result in page:
                yield result

    async def pages(self, stage: str | None) -> AsyncGenerator[list[Result], None]:
        """The same, as many at a time as are there."""
        self._session.check_open()
        of = self._stage(stage)
        ledger = self._session.ledger
        run, place = None, 0
        while True:
            version = await self._version(run)
            stopped: StoppedError | None = None
            try:
                is_over = await self._has_ended()
            except StoppedError as error:
                is_over, stopped = True, error
            if run is None and (row := (await self._begun()).get(of)) is not None and row.run is not None:
                run, place = row.run, await ledger.jobs.results.first_place(row.run)
            page, place, is_latest = ([], 0, True) if run is None else await results_since(ledger, run, place)
            if page:
                yield page
            elif is_latest and is_over:
                break
            elif is_latest:
                await self._news(version, run)
        if stopped is not None:
            raise stopped
        await self.look()
        if run is None:
            raise StoppedError(f"{self.name}: {of} has not begun, since the flow has {self.state}: {self.why}")

    def _stage(self, name: str | None) -> str:
        if name is None:
            return self._stages[-1]
        if name not in self._stages:
            near = nearest(name, self._stages)
            advice = f"did you mean {near}?" if near else f"there are {', '.join(self._stages)}"
            raise UsageError(f'{self.name} has no stage "{name:.40}"; {advice}')
        return name

    async def _begun(self) -> Mapping[str, StageRow]:
        """Its stages that have begun; one that runs anew as it was begun last."""
        return {row.stage: row for row in await self._session.ledger.flows.stages([self._row.id])}

    async def _look(self) -> None:
        found = await self._session.ledger.flows.named(self.name)
        if found is None:
            raise StoppedError(f"{self._session.ledger.address}: the flow {self.name!r} was deleted meanwhile")
        self._row = found

    async def _version(self, run: int | None = None) -> tuple[int, ...]:
        """Another value once there is news of flows, or of jobs of `run`."""
        return await self._session.flows.version(self._session.ledger, run)

    async def _news(self, version: tuple[int, ...], run: int | None = None) -> None:
        """Waits for that. Raises `UsageError` where the program has left the ledger meanwhile."""
        await self._session.flows.news(self._session.ledger, version, run)
        self._session.check_open()

    async def _has_ended(self) -> bool:
        """Looks whether it has. Raises `StoppedError` where nothing more comes of it by itself."""
        await self._look()
        if self._row.state is FlowState.ON_HOLD and not self._row.is_braked:
            raise StoppedError(f"{self.name} is held: {self.why}; go on with unpause()")
        if (why := self._session.flows.why_stuck(self.name)) is not None:
            raise StoppedError(f"nothing comes of {self.name} before somebody does something: {why}")
        return self._row.state in ENDED

    # --- what is asked of it

    async def pause(self) -> None:
        """Nothing more of it is sent; what is at the service is collected.

        Raises `UsageError` where it does not run.
        """
        await self._ask(ControlAction.PAUSE)

    async def unpause(self) -> None:
        """Goes on with it where it is held. Raises `UsageError` where it is not."""
        await self._ask(ControlAction.CONTINUE)

    async def cancel(self) -> None:
        """Cancels it with its unfinished jobs, here and at the service."""
        await self._ask(ControlAction.CANCEL)

    async def _ask(self, action: ControlAction) -> None:
        self._session.check_open()
        await self._look()
        await control_flow(self._session.ledger, self._row, action, self._session.dependencies.asked)
        self._session.flows.changed()
        await self._look()


class PipelineCalls(OpenLedger):
    """What a program asks of pipelines."""

    async def apply(self, pipeline: Pipeline | str | PathLike[str], *, check: bool = False) -> Applied:
        """Records a new version of a pipeline, or of the pipeline's file of that path: it counts from now on, and flows
        keep what they began with. With `check` it is only looked at. Returns what it comes to: its `fires`, which are
        the next five, each with its `fire`, `flow` and `paths`, its `version`, and its `outcome`.

        It fires inside of `serve`, here or by another process. Raises `UsageError` with all that is wrong with it.

            applied = await orc.apply(pipeline)
            print(applied.name, applied.outcome, applied.fires[0].fire)
        """
        session = self._open_session
        told, read = pipeline_reading(pipeline)
        applied = await apply_in(
            session.ledger, told, read, check=check, console=session.console, names=self._endpoint_names
        )
        session.flows.changed()
        return applied

    async def trigger(self, name: str, at: str | datetime | None = None) -> Flow:
        """A flow of the pipeline called `name`, for the time `at`, or for now; the same time is the same flow. It is
        carried out here, or by the process that works on the ledger.

        A time without an offset is meant in the zone of the pipeline. Raises `UsageError` for an unknown pipeline, and
        for a time that does not exist there, or comes twice.

            flow = await orc.trigger("captions", at="2027-03-27T02:30")
            print(await flow.wait())
        """
        session = self._open_session
        flow, _ = await ask_for(session.ledger, name, _time(at), "at=", session.dependencies.asked)
        await session.flows.carry_out(session.ledger)
        return await self.flow(flow)

    async def backfill(
        self, name: str, from_: str | datetime, to: str | datetime, *, parallel: int = 1, again: bool = False
    ) -> list[Flow]:
        """Flows for the fires of the pipeline called `name` from `from_` to `to`, both included: `parallel` of them at
        once, and behind all others. A fire that has a flow gets a further one only with `again`. Returns the flow of
        each of these fires, also where it was there before.

        Raises `UsageError`, as `trigger` does, and for more than 10,000 fires.

            for flow in await orc.backfill("captions", "2027-03-26", "2027-03-28", parallel=2):
                print(flow.name, await flow.wait())
        """
        session = self._open_session
        fires = await fires_meant(session.ledger, name, (_time(from_), _time(to)), ("from_=", "to="))
        if not 1 <= parallel <= PARALLEL_MAX:
            raise UsageError(f"parallel={parallel!r}: this must be a whole number from 1 to {PARALLEL_MAX}")
        await make_up_for(session.ledger, fires, session.dependencies.asked, parallel=parallel, again=again)
        await session.flows.carry_out(session.ledger)
        pipeline = await pipeline_named(session.ledger, name)
        return await Flow.of(session, await session.ledger.flows.of_fires(pipeline.id, fires.fires))

    async def flow(self, name: str) -> Flow:
        """The flow that `name`, or the beginning of it, means.

        Raises `UsageError` where there is none, or more than one.

            flow = await orc.flow("captions@20270327T013000Z")
            print(flow.state, flow.counts["caption"]["succeeded"])
        """
        session = self._open_session
        [flow] = await Flow.of(session, [await flow_named(session.ledger, name)])
        return await flow.look()

    async def serve(self) -> None:
        """Fires the schedules of the ledger, carries out flows, and serves every run, until it is cancelled. Where
        another process works on the ledger, that goes on, and this takes its place once it has ended.

            with anyio.move_on_after(1):
                await orc.serve()
        """
        await self._open_session.flows.fire(self._open_session.ledger)


@overload
def _time(at: str | datetime) -> str: ...
@overload
def _time(at: None) -> None: ...
@overload
def _time(at: str | datetime | None) -> str | None: ...
def _time(at: str | datetime | None) -> str | None:
    """A time as the command line would have it."""
    return at.isoformat() if isinstance(at, datetime) else at
