"""The engine without a run of its own: serves every run of a ledger, and fires its schedules, until it is stopped."""

import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

from orchestrator.api.flows.apply import apply
from orchestrator.api.foreground.run_log import log_of, written
from orchestrator.api.hosting.host import Host, host_of
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.wording import counted
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import DeposedError, leading
from orchestrator.ledger import accept_lost_commits, read_ledger, refuse_other_webhook_key
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.views.status import RunStatus

Alongside = Callable[[Host, Engine], Coroutine[Any, Any, None]]
"""What works with the engine for as long as it does."""

ACCEPTED: Final = (
    "its server has lost what it had confirmed; the work goes on with what it has, and what was sent meanwhile may be"
    " sent, and paid, again"
)
LOOK_S = 1.0
"""How often to look whether a run has been taken on or has ended, to tell of it."""


async def serve(
    request: ServeRequest,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
    *,
    alongside: Alongside | None = None,
) -> list[RunStatus]:
    """Sends and collects for all runs of a ledger, those included that other processes take in meanwhile, until `stop`
    is set, and has what is `alongside` work with the engine. Returns how every run stands then.

    Where another process works on a ledger on a server, it stands by, and takes the place of that one once it is gone;
    should another one take its own, it stands by again.

    Raises `UsageError` where another process works on a ledger in a file, or on one whose webhooks are signed by a key
    that this one has not, `StorageError` where it cannot be written.
    """
    dependencies = dependencies or Dependencies()
    console = console or SilentConsole()
    log = log_of(request, console, dependencies.clock, dependencies.environ)
    if request.apply:
        await apply(
            request.apply,
            request.ledger,
            check=False,
            console=console,
            dependencies=dependencies,
            connection=request.connection,
        )
    connect = dependencies.connect_to(request.ledger)
    if request.connection.listen is not None:
        await refuse_other_webhook_key(request.ledger, dependencies.environ, connect=connect)
    if request.accept_lost_commits and await accept_lost_commits(request.ledger, connect=connect):
        console.warn(f"{request.ledger}: {ACCEPTED}")
    host = host_of(request, log or console, dependencies, stop, doing="orchestrator serve", patience_s=math.inf)
    try:
        with written(log, f"serve {request.ledger}", lambda: "stopped, as asked"):
            while True:
                async with host.place() as is_ours:
                    if not is_ours:
                        break
                    try:
                        return await _serve(host, alongside)
                    except (DeposedError, BaseExceptionGroup) as error:
                        cause = leading(error)
                        if not isinstance(cause, DeposedError):
                            raise
                        host.console.warn(f"{cause}")
    except BaseExceptionGroup as group:
        raise leading(group) from group
    async with read_ledger(request.ledger, clock=dependencies.clock, connect=connect) as ledger:
        return await runs_now(ledger, None)


async def _serve(host: Host, alongside: Alongside | None) -> list[RunStatus]:
    """Serves until that is stopped. The ledger's lock is held."""
    async with host.opened() as engine:
        async with host.working(engine):
            recovered, _ = await host.begin(engine, Firing.ALWAYS)
            start_and_stop_texts.say_recovered(host.console, recovered)
            await engine.host.serve_all()
            host.console.info(f"serving {host.path}; stop with Ctrl-C")
            if alongside is not None:
                engine.groups.taking.start_soon(alongside, host, engine)
            host.ready(engine)
            await ServedRunsNews(engine, host.console).serve()
        return await runs_now(engine.ledger, None)


class ServedRunsNews:
    """Tells which runs an engine serves, cannot serve, and has finished."""

    def __init__(self, engine: Engine, console: Console) -> None:
        self._engine = engine
        self._console = console
        self._latest: dict[int, str] = {}
        """What was said last of each run."""

    async def serve(self) -> None:
        """Tells of each change, until cancelled."""
        while True:
            self._tell()
            await anyio.sleep(LOOK_S)

    def _tell(self) -> None:
        for held in self._engine.runs.unservable.values():
            self._say(held.run, f"held: {held.why}")
        for session in self._engine.runs.sessions.values():
            total, left = session.progress.total, session.progress.unfinished
            if session.is_released:
                self._say(session.run, "stopped, as somebody asked")
            elif left:
                self._say(session.run, "served", f"{left:,} of {counted(total, 'job')} to go")
            elif total and not session.is_saving:  # of a stage that has not begun there is nothing to say
                succeeded = session.progress.count(State.SUCCEEDED.value)
                self._say(session.run, "finished", f"{succeeded:,} of {counted(total, 'job')} succeeded")

    def _say(self, run: Run, what: str, figures: str = "") -> None:
        if self._latest.get(run.id) != what:
            self._latest[run.id] = what
            self._console.info(f"{run.name}: {what}{figures and '; '}{figures}")
