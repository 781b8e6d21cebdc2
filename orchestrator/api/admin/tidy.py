"""`runs tidy`: puts right what processes which were killed have left at the service: bounds of workers that are still
raised, and pods that are still paid.
"""

from collections.abc import Sequence
from typing import Final

from orchestrator.engine.engine import open_engine
from orchestrator.engine.hosting.lent_bounds import PutBack
from orchestrator.engine.hosting.pod_host import EndedPod
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import LedgerBusyError, leading
from orchestrator.ledger import is_made, no_ledger
from orchestrator.settings.command_requests import ServeRequest

_DOES_IT_ITSELF: Final = (
    "Whoever works on a ledger ends the pods of runs that have nothing to do, and puts back their workers: pause or"
    " cancel the run (orchestrator pause, orchestrator cancel)"
)

Tidied = Sequence[PutBack | EndedPod]


async def tidy(request: ServeRequest, dependencies: Dependencies | None = None) -> Tidied:
    """Puts back the bounds of workers that were raised for runs of a ledger, and ends their pods; returns what became
    of each endpoint and each pod.

    Raises `LedgerBusyError` where a process works on the ledger, which does that itself for runs that have nothing to
    do, and `UsageError` where there is no ledger.
    """
    given = dependencies or Dependencies()
    if not await is_made(request.ledger, connect=given.connect_to(request.ledger)):
        raise no_ledger(request.ledger)
    try:
        async with (
            given.lock(request.ledger, now=given.clock.now(), doing="orchestrator runs tidy"),
            open_engine(request.ledger, request.connection, given, SilentConsole()) as engine,
        ):
            lent = await engine.ledger.runs.scaling_overrides.all()
            leases = await engine.ledger.runs.pod_leases.all(open_only=True)
            urls = {each.service_url for each in lent} | {each.service_url for each in leases}
            if len(urls) == 1:
                engine.endpoints.services.use_key_for(*urls)  # as of a `resume`
            return [*await engine.host.workers.tidy(), *await engine.host.pods.tidy()]
    except LedgerBusyError as error:
        raise LedgerBusyError(f"{error.message}. {_DOES_IT_ITSELF}") from error
    except BaseExceptionGroup as group:
        raise leading(group) from group
