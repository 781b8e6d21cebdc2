"""A program's face of everything: it serves a ledger, or joins the process that does, and takes runs in."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Unpack

from orchestrator.api.inspect.status import runs_now
from orchestrator.api.python.flow import PipelineCalls
from orchestrator.api.python.inputs import Inputs, check_inputs, check_reading
from orchestrator.api.python.log_console import LogConsole
from orchestrator.api.python.program_plan import planned
from orchestrator.api.python.results import Order, Result
from orchestrator.api.python.run import Run
from orchestrator.api.python.submission import Submission
from orchestrator.api.python.submission_target import check_reachable, name_for
from orchestrator.api.runs.keyword_options import (
    OF_RUN,
    OF_SUBMIT,
    Duration,
    Endpoints,
    Function,
    RunOptions,
    SubmitOptions,
    check_known,
)
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.planning.plan_types import Plan
from orchestrator.settings import run_request
from orchestrator.user_code import RaisedPlainly
from orchestrator.views.status import RunStatus


class Orchestrator(PipelineCalls):
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

    async def submit(
        self,
        inputs: Inputs,
        *,
        endpoint: Endpoints | None = None,
        name: str | None = None,
        all_or_nothing: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> Run:
        """Takes `inputs` into the run called `name`, made if it is new, and has it served; returns once all are taken.

        `inputs` is an iterable, plain or async, of dicts (each what a line of a file would be) and `Job`s, of any
        length; or the path of a file in any format, as its name or `format` says. They are read no faster than they are
        written down, and sent as they come;
        with `all_or_nothing` none is sent before the last one was checked. A plain iterable that is no list is iterated
        in a thread of its own. `endpoint` is an endpoint's id or name, several of them or `pool:NAME` for
        a pool, `local:FILE.py:FUNCTION`, or a function, which is run here: it is given a dict with `id` and `input` and
        returns the output. A name is looked up once, and the
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
        endpoint: str | Sequence[str] | None = None,
        name: str | None = None,
        execution_time: Duration | None = None,
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
        figures = {"execution_time": execution_time, "cold_start": cold_start, "probe": probe}
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
        return await runs_now(session.ledger, await session.ledger.holder_or_next())

    async def map(
        self,
        endpoint: Endpoints,
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
        endpoint: Endpoints,
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

    async def _submission(
        self,
        inputs: Inputs,
        *,
        endpoint: Endpoints | None,
        name: str | None,
        all_or_nothing: bool,
        options: Mapping[str, object],
        appends: bool = False,
    ) -> Submission:
        session = self._open_session
        check_known(options, OF_SUBMIT, "submit")
        check_inputs(inputs)
        check_reading(inputs, options)
        given = None if endpoint is None or callable(endpoint) else endpoint
        choices = self._chosen({**options, "name": name, "endpoint": given})
        worker: str | Function | None = choices[run_request.ENDPOINT] if given is not None else None
        if callable(endpoint):
            worker = endpoint
        return Submission(
            session=session,
            choices=choices,
            options=options,
            inputs=inputs,
            name=(name and choices[run_request.NAME]) or await name_for(session.ledger, inputs, worker),
            endpoint=worker,
            all_or_nothing=all_or_nothing,
            appends=appends,
        )
