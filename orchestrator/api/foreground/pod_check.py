"""What a command sees to of the pods of its run: where it could have none, there is to be no such run; and that what
they cost is known once it is said.
"""

from typing import Final

import anyio

from orchestrator.engine.hosting.pod_host import check_reachable, refused_template
from orchestrator.engine.hosting.worker_scaling import END_S_MAX
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_request import RunRequest

LOOK_S: Final = 1.0


async def pods_ended(ledger: Ledger, run: Run) -> None:
    """Waits until the pods of `run`, which is over, are ended by who works, for a while at most: they are paid until
    then. Raises `StorageError`.
    """
    if run.settings.pod_template is None:
        return
    with anyio.move_on_after(END_S_MAX):
        while await ledger.runs.pod_leases.all(run=run.id, open_only=True):  # noqa: ASYNC110  another process ends them
            await anyio.sleep(LOOK_S)


async def check_pods(ledger: Ledger, request: RunRequest, dependencies: Dependencies) -> None:
    """Raises `UsageError` where the run that `request` would make could have no pods. Of a known one whoever serves it
    says so.
    """
    template = None if request.settings is None else request.settings.pod_template
    if template is None or request.source is None or await ledger.runs.named(request.name) is not None:
        return
    connection = request.connection
    check_reachable(template, connection.rest_url)
    try:
        async with dependencies.service(connection, dependencies.clock) as service:
            await dependencies.pods(service, connection.rest_url).template_id(template)
    except OrchestratorError as error:
        raise refused_template(template, error) from error
