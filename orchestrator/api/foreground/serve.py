"""The engine without a run of its own: serves every run of a ledger, and fires its schedules, until it is stopped."""

import anyio

from orchestrator.api.flows.apply import apply
from orchestrator.api.flows.flow_files import files_of
from orchestrator.api.foreground.run_log import log_of, written
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs import messages
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.wording import counted
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.view import Silent, View
from orchestrator.errors import leading
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.structs import ServeRequest
from orchestrator.views.status import RunStatus

LOOK_S = 1.0
"""How often to look whether a run has been taken on or has ended, to tell of it."""


async def serve(
    request: ServeRequest,
    view: View | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> list[RunStatus]:
    """Sends and collects for all runs of a ledger, those included that other processes take in meanwhile, until `stop`
    is set. Returns how every run stands then.

    Raises `UsageError` where another process works on the ledger, `StorageError` where it cannot be written.
    """
    dependencies = dependencies or Dependencies()
    view = view or Silent()
    log = log_of(request, view, dependencies.clock, dependencies.environ)
    if request.apply:
        await apply(
            request.apply,
            request.ledger,
            check=False,
            view=view,
            dependencies=dependencies,
            connection=request.connection,
        )
    serving = Serving(request, log or view, dependencies, stop or anyio.Event())
    try:
        with (
            written(log, f"serve {request.ledger}", lambda: "stopped, as asked"),
            dependencies.lock(request.ledger, now=dependencies.clock.now(), doing="orchestrator serve"),
        ):
            return await serving.run()
    except BaseExceptionGroup as group:
        raise leading(group) from group


class Serving:
    """One process that serves a ledger."""

    def __init__(self, request: ServeRequest, view: View, dependencies: Dependencies, stop: anyio.Event) -> None:
        self._request = request
        self._view = view
        self._dependencies = dependencies
        self._stop = stop
        self._told: dict[int, str] = {}
        """What was said last of each run."""

    async def run(self) -> list[RunStatus]:
        """From its beginning to its end."""
        request = self._request
        async with open_engine(request.ledger, request.connection, self._dependencies, self._view) as engine:
            async with rescuing(engine.ledger):
                await self._serve(engine)
            return await runs_now(engine.ledger, None)

    async def _serve(self, engine: Engine) -> None:
        messages.say_opened(self._view, engine.ledger)
        await engine.runs.learn_settings()
        await engine.listen()
        engine.stops_when_asked(self._stop)
        async with anyio.create_task_group() as around:
            around.start_soon(self._stop_when_asked, engine)
            async with engine.working():
                messages.say_recovered(self._view, await engine.collect())
                await engine.keep_up()
                engine.taking.start_soon(tell_standstills, engine)
                await engine.serving.serve_all()
                files = files_of(engine, self._request.connection, self._dependencies, self._view)
                await engine.carry_out_flows(files, Firing.ALWAYS)
                self._view.say(f"serving {self._request.ledger}; stop with Ctrl-C")
                self._view.ready()
                await self._follow(engine)
            around.cancel_scope.cancel()

    async def _stop_when_asked(self, engine: Engine) -> None:
        await self._stop.wait()
        self._view.say(messages.STOPPING)
        engine.stop()

    async def _follow(self, engine: Engine) -> None:
        while True:
            self._tell(engine)
            await anyio.sleep(LOOK_S)

    def _tell(self, engine: Engine) -> None:
        """Says which runs are served, held and finished, each time that changes."""
        for held in engine.runs.held.values():
            self._say(held.run, f"held: {held.why}")
        for session in engine.runs.sessions.values():
            total, left = session.progress.total, session.progress.unfinished
            if session.is_released:
                self._say(session.run, "stopped, as somebody asked")
            elif left:
                self._say(session.run, "served", f"{left:,} of {counted(total, 'job')} to go")
            elif total:  # of a stage that has not begun there is nothing to say
                succeeded = session.progress.count(State.SUCCEEDED.value)
                self._say(session.run, "finished", f"{succeeded:,} of {counted(total, 'job')} succeeded")

    def _say(self, run: Run, what: str, figures: str = "") -> None:
        if self._told.get(run.id) != what:
            self._told[run.id] = what
            self._view.say(f"{run.name}: {what}{figures and '; '}{figures}")
