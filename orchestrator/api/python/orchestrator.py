"""A program's face of everything: it serves a ledger, or joins the process that does, and takes runs in."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Self, Unpack, overload

import anyio
import sniffio
from anyio.abc import TaskGroup

from orchestrator.api.flows.apply import Applied, apply_in
from orchestrator.api.flows.flows import flow_named, pipeline_named
from orchestrator.api.flows.triggers import ask_for, fires_meant, make_up_for
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.python.flow import Flow
from orchestrator.api.python.inputs import Inputs, check_inputs, check_reading
from orchestrator.api.python.ledger_session import LedgerSession
from orchestrator.api.python.log_console import LogConsole
from orchestrator.api.python.pipeline import Pipeline, pipeline_reading
from orchestrator.api.python.plan import planned
from orchestrator.api.python.result_pages import Order
from orchestrator.api.python.results import Result
from orchestrator.api.python.run import Run
from orchestrator.api.python.submission import Submission
from orchestrator.api.python.submission_target import check_reachable, name_for
from orchestrator.api.runs.connection import connection_of
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.keyword_options import (
    OF_CONNECTION,
    OF_RUN,
    OF_SUBMIT,
    ConnectionOptions,
    Duration,
    Function,
    RunOptions,
    SubmitOptions,
    check_known,
    chosen,
)
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.planning.plan import Plan
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import holder
from orchestrator.settings import request_settings
from orchestrator.settings.pipeline_keys import PARALLEL_MAX
from orchestrator.settings.sources import Choices
from orchestrator.settings.values import LEDGER_DEFAULT
from orchestrator.user_code import RaisedPlainly, absolute
from orchestrator.views.status import RunStatus


class Orchestrator:
    """Serves a ledger inside of `async with`, or, where another process works on it, joins that one.

    What is None is taken from the environment (`ORCHESTRATOR_LEDGER`, ...), then from the configuration file
    (`orchestrator.toml`, or the one that `config` names), then from the defaults, as on the command line. `limits` are
    texts by operation, as in `{"run": "500/10"}`. It sends for the runs that are submitted or opened here, or handed
    over by other processes, and collects for all of the ledger.

    Leaving the block stops in order: requests in flight have up to 10 s to end. All is in the ledger, and the next one
    goes on. Raises `UsageError` where it cannot work, and on leaving `StorageError` where the ledger is lost.

        async with Orchestrator("ledger.db") as orc:
            run = await orc.submit(inputs, endpoint="abc123", name="captions")
            async for result in run.results():
                print(result.custom_id, result.output)
    """

    def __init__(
        self,
        ledger: str | PathLike[str] | None = None,
        *,
        _dependencies: Dependencies | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        check_known(options, OF_CONNECTION, "Orchestrator")
        key = options.pop("api_key", None)
        self._options: dict[str, Any] = {"ledger": ledger, **options}
        self._dependencies = _dependencies or Dependencies()
        choices = self._chosen({})
        self._connection = connection_of(choices, self._dependencies.environ, key=key)
        self._path = choices[request_settings.LEDGER] or LEDGER_DEFAULT
        self._place = absolute(self._path)
        self._session: LedgerSession | None = None
        self._group: TaskGroup

    def __repr__(self) -> str:
        return f"<Orchestrator {str(self._path)!r}>"

    async def __aenter__(self) -> Self:
        if sniffio.current_async_library() != "asyncio":
            raise UsageError("an Orchestrator works on asyncio only; with trio, use orchestrator.map in a thread")
        if self._session is not None and self._session.is_open:
            raise UsageError("this Orchestrator is open already")
        self._session = LedgerSession(self._place, self._connection, self._dependencies)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        try:
            await self._group.start(self._session.serve)
        except BaseException as error:  # noqa: BLE001  a cancellation, too: what was begun has to end
            self._session.stop()
            await self._group.__aexit__(None, None, None)
            raise leading(error) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._session
        assert session is not None
        session.stop()
        with anyio.CancelScope(shield=True):
            await session.ended.wait()
        is_ours = error is None or isinstance(error, anyio.get_cancelled_exc_class())
        try:
            await self._group.__aexit__(*((kind, error, trace) if is_ours else (None, None, None)))
        except BaseExceptionGroup as group:
            raise leading(group) from None

    def hurry(self) -> None:
        """Leaving the block waits for no request in flight any more."""
        if self._session is not None:
            self._session.hurry()

    @property
    def _open_session(self) -> LedgerSession:
        if self._session is None:
            raise UsageError("an Orchestrator works inside of `async with Orchestrator(...) as orc:`")
        self._session.check_open()
        return self._session

    @property
    def _endpoint_names(self) -> EndpointNames:
        config = self._options.get("config")
        named = None if config is None else str(config)
        return EndpointNames(connection=self._connection, dependencies=self._dependencies, config=named)

    def _chosen(self, options: Mapping[str, object]) -> Choices:
        return chosen({**self._options, **options}, self._dependencies.environ)

    # --- runs

    async def submit(
        self,
        inputs: Inputs,
        *,
        endpoint: str | Function | None = None,
        name: str | None = None,
        all_or_nothing: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> Run:
        """Takes `inputs` into the run called `name`, made if it is new, and has it served; returns once all are taken.

        `inputs` is an iterable, plain or async, of dicts (each what a line of a file would be) and `Job`s, of any
        length; or the path of a file in any format, as its name or `format` says. They are read no faster than they are
        written down, and sent as they come;
        with `all_or_nothing` none is sent before the last one was checked. A plain iterable that is no list is iterated
        in a thread of its own. `endpoint` is an endpoint's id or name, `local:FILE.py:FUNCTION`, or a function, which
        is run here: it is given a dict with `id` and `input` and returns the output. A name is looked up once, and the
        run keeps the id. The same name of a run goes on with the same run: what it has is not taken again. Without one
        it is the file's, or else the run is a new one each time.

        Raises `InputError` for an input that cannot be taken (those before it are, unless `all_or_nothing`),
        `UsageError` where nothing can be sent, and whatever the inputs raise: then give them again, and it goes on.

            run = await orc.submit(({"n": n} for n in range(1000)), endpoint="abc123", name="numbers", ttl="2h")
        """
        submission = await self._submission(
            inputs, endpoint=endpoint, name=name, all_or_nothing=all_or_nothing, options=dict(options)
        )
        with RaisedPlainly():
            return Run(self._open_session, await submission.take())

    async def append(self, name: str, inputs: Inputs, *, all_or_nothing: bool = False) -> Run:
        """Takes more `inputs` into the run called `name`, behind those that it has; otherwise as `submit`.

        An input that the run has already, by its `custom_id` or, without one, by its content, is not taken again.

            await orc.append("numbers", [{"n": 1000}])
        """
        submission = await self._submission(
            inputs, endpoint=None, name=name, all_or_nothing=all_or_nothing, options={}, appends=True
        )
        with RaisedPlainly():
            return Run(self._open_session, await submission.take())

    async def run(self, name: str) -> Run:
        """The run that `name`, or the beginning of it, means; it goes on from now on. Raises `UsageError` where there
        is none, or more than one.

            run = await orc.run("captions")
            await run.wait()
        """
        session = self._open_session
        known = await run_named(session.ledger, name)
        check_reachable(session, self._chosen({}), known)
        return Run(session, await session.attach(known))

    async def plan(
        self,
        inputs: Inputs,
        *,
        endpoint: str | None = None,
        name: str | None = None,
        execution_time: Duration | None = None,
        workers: int | None = None,
        cold_start: Duration | None = None,
        probe: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Plan:
        """How a run of `inputs` would go, before it is submitted: what `orchestrator plan --json` prints. Nothing is
        sent, but for the `probe` of so many jobs where that is given; a `name` that a run has means what is left of it.

        Raises `InputError` for inputs that are none, `UsageError` for what could not be sent.

            plan = await orc.plan("in.jsonl", endpoint="abc123", execution_time="45s", workers=10)
            print(plan.verdict)
        """
        check_known(options, OF_RUN, "plan")
        figures = {"execution_time": execution_time, "workers": workers, "cold_start": cold_start, "probe": probe}
        with RaisedPlainly():
            return await planned(
                inputs,
                self._chosen({**options, **figures, "name": name, "endpoint": endpoint}),
                options,
                connection=self._connection,
                dependencies=self._dependencies,
                console=LogConsole(),
            )

    async def status(self) -> list[RunStatus]:
        """How every run of the ledger stands, oldest first: what `orchestrator status --json` prints."""
        session = self._open_session
        return await runs_now(session.ledger, holder(session.path))

    async def map(
        self,
        endpoint: str | Function,
        inputs: Inputs,
        *,
        name: str | None = None,
        order: Order = "completion",
        progress: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> AsyncGenerator[Result, None]:
        """Takes `inputs` in as `submit` does, and meanwhile gives the results of the run as `Run.results` does, with
        its `progress`, where that is wanted.

        Whoever leaves the loop leaves off reading the inputs; the run goes on as long as this does.

            async for result in orc.map("abc123", inputs, name="night"):
                print(result.custom_id, result.output)
        """
        of_run = dict(options)
        with RaisedPlainly():
            async with aclosing(
                self.pages(endpoint, inputs, name=name, order=order, progress=progress, options=of_run)
            ) as pages:
                async for page in pages:
                    for result in page:
                        yield result

    async def pages(
        self,
        endpoint: str | Function,
        inputs: Inputs,
        *,
        name: str | None,
        order: Order,
        options: Mapping[str, object],
        progress: bool = False,
    ) -> AsyncGenerator[list[Result], None]:
        """The same, as many at a time as are there. Raises `UserCodeError` for what the inputs raise."""
        submission = await self._submission(inputs, endpoint=endpoint, name=name, all_or_nothing=False, options=options)
        reading = self._open_session.background.start(submission.take_beside)
        try:
            await submission.begun.wait()
            if submission.attached is None:
                assert submission.error is not None
                raise submission.error
            run = Run(self._open_session, submission.attached)
            async with aclosing(run.pages(order=order, after=None, progress=progress)) as pages:
                async for page in pages:
                    yield page
        finally:
            reading.cancel()

    # --- pipelines

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
        flow, _ = await ask_for(session.ledger, name, _time(at), "at=")
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
        await make_up_for(session.ledger, fires, parallel=parallel, again=again)
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
        await self._open_session.flows.fire()

    async def _submission(
        self,
        inputs: Inputs,
        *,
        endpoint: str | Function | None,
        name: str | None,
        all_or_nothing: bool,
        options: Mapping[str, object],
        appends: bool = False,
    ) -> Submission:
        session = self._open_session
        check_known(options, OF_SUBMIT, "submit")
        check_inputs(inputs)
        check_reading(inputs, options)
        given = endpoint if isinstance(endpoint, str) else None
        choices = self._chosen({**options, "name": name, "endpoint": given})
        if given is not None:
            endpoint = choices[request_settings.ENDPOINT]
        return Submission(
            session=session,
            choices=choices,
            options=options,
            inputs=inputs,
            name=(name and choices[request_settings.NAME]) or await name_for(session.ledger, inputs, endpoint),
            endpoint=endpoint,
            all_or_nothing=all_or_nothing,
            appends=appends,
        )


@overload
def _time(at: str | datetime) -> str: ...
@overload
def _time(at: None) -> None: ...
@overload
def _time(at: str | datetime | None) -> str | None: ...
def _time(at: str | datetime | None) -> str | None:
    """A time as the command line would have it."""
    return at.isoformat() if isinstance(at, datetime) else at
