"""What serves the Batch API of a ledger, put together for the engine that works on it."""

from collections.abc import Mapping
from typing import NamedTuple

import anyio

from orchestrator.api.batch_api.batch_keeper import BatchKeeper
from orchestrator.api.batch_api.batch_runs import BatchRuns
from orchestrator.api.batch_api.batch_store import BatchStore
from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.api.batch_api.posted_upkeep import PostedUpkeep
from orchestrator.api.hosting.host import Host
from orchestrator.engine.engine import Engine
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from orchestrator.settings.sources import Choices


class BatchService(NamedTuple):
    """What programs ask, and what carries on what they have asked for."""

    store: BatchStore
    keeper: BatchKeeper
    upkeep: PostedUpkeep
    """What forgets of it what is not kept any longer."""

    async def serve(self) -> None:
        """Carries on, and forgets, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.keeper.serve)
            tasks.start_soon(self.upkeep.serve)


def batch_service(
    host: Host, engine: Engine, settings: BatchApiSettings, models: Mapping[str, Choices]
) -> BatchService:
    """That of the ledger which `engine` works on. Raises `StorageError` where there can be no folder for its files."""
    files = FileStore(ledger=engine.ledger, settings=settings)
    files.make_folder()
    runs = BatchRuns(
        files=files,
        models=models,
        connection=host.connection,
        dependencies=host.dependencies,
        console=host.console,
        webhook_bytes=lambda: engine.process.listener.url_bytes,
        wake=engine.commands.on_change,
    )
    keeper = BatchKeeper(runs=runs)
    hold = host.dependencies.holding_intakes(host.path)
    upkeep = PostedUpkeep(files=files, serving=engine.host, hold=hold, console=host.console)
    return BatchService(BatchStore(files=files, wake=keeper.nudge), keeper, upkeep)
