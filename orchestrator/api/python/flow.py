"""A flow in a program's hands."""

from collections.abc import AsyncGenerator, Mapping
from typing import Literal

from orchestrator.api.python.ledger_session import LedgerSession
from orchestrator.api.python.result_pages import results_since
from orchestrator.api.python.results import Result
from orchestrator.api.runs.commands import control_flow
from orchestrator.api.runs.ledger_words import with_its_ledger
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.core.text.name_match import nearest
from orchestrator.errors import StoppedError, UsageError
from orchestrator.ledger.flows.flow_rows import Flow as FlowRow
from orchestrator.ledger.flows.flow_rows import StageRow
from orchestrator.settings.requests import ControlAction

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
        return with_its_ledger(self._row.why, self._session.ledger.path)

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
            raise StoppedError(f"{self._session.ledger.path}: the flow {self.name!r} was deleted meanwhile")
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
        await control_flow(self._session.ledger, self._row, action)
        self._session.flows.changed()
        await self._look()
