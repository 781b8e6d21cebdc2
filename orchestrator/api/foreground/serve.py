"""The engine without a run of its own: serves every run of a ledger, and fires its schedules, until it is stopped."""

import math
from typing import Final

import anyio

from orchestrator.api.flows.apply import apply
from orchestrator.api.foreground.run_log import log_of, written
from orchestrator.api.hosting.host import Alongside, Host, host_of
from orchestrator.api.hosting.served_runs_news import ServedRunsNews
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import accept_lost_commits, read_ledger, refuse_other_webhook_key
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.views.status import RunStatus

ACCEPTED: Final = (
    "its server has lost what it had confirmed; the work goes on with what it has, and what was sent meanwhile may be"
    " sent, and paid, again"
)


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

    A ledger on a server is shared with whoever else serves it: each has a part, and takes those of the ones that are
    gone. Where another process has all of it, it stands by until that one is gone.

    Raises `UsageError` where another process works on a ledger in a file, or on one whose webhooks are signed by a key
    that this one has not, `StorageError` where it cannot be written.
    """
    dependencies = dependencies or Dependencies()
    console = console or SilentConsole()
    if not (request.takes_pipelines or isinstance(request.ledger, LedgerUrl)):
        raise UsageError(
            f"{request.ledger}: one process does all of a ledger in a file; <setting no-pipelines> is for one on a"
            " server, which several share"
        )
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
            if not isinstance(request.ledger, LedgerUrl):
                async with host.lock():
                    return await _serve(host, alongside)
            from orchestrator.api.hosting.shared_host import serve_shared  # noqa: PLC0415  with it comes what few need

            await serve_shared(host, alongside, takes_pipelines=request.takes_pipelines)
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
