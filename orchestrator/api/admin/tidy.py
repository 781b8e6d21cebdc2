"""`runs tidy`: puts back the bounds of workers that processes which were killed have left raised at the service."""

from orchestrator.engine.engine import open_engine
from orchestrator.engine.hosting.lent_bounds import PutBack
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import leading
from orchestrator.ledger import is_made, no_ledger
from orchestrator.settings.command_requests import ServeRequest


async def tidy(request: ServeRequest, dependencies: Dependencies | None = None) -> list[PutBack]:
    """Puts back the bounds of workers that were raised for runs of a ledger; returns what became of each endpoint.

    Raises `LedgerBusyError` where a process works on the ledger, which does that itself, and `UsageError` where there
    is no ledger.
    """
    given = dependencies or Dependencies()
    if not is_made(request.ledger):
        raise no_ledger(request.ledger)
    try:
        with given.lock(request.ledger, now=given.clock.now(), doing="orchestrator runs tidy"):
            async with open_engine(request.ledger, request.connection, given, SilentConsole()) as engine:
                lent = await engine.ledger.runs.scaling_overrides.all()
                if len(urls := {each.service_url for each in lent}) == 1:
                    engine.endpoints.services.use_key_for(*urls)  # as of a `resume`
                return await engine.host.workers.tidy()
    except BaseExceptionGroup as group:
        raise leading(group) from group
