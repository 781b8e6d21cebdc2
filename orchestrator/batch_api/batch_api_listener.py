"""The Batch API beside the engine of a ledger: it has its address before that begins, and answers while it works."""

from collections.abc import Mapping
from typing import Self

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.api.batch_api.batch_service import batch_service
from orchestrator.api.batch_api.model_runs import check_model
from orchestrator.api.hosting.host import Host
from orchestrator.batch_api.application import batch_api_application
from orchestrator.core.service.addresses import Address, is_loopback
from orchestrator.engine.engine import Engine
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags
from orchestrator.settings.batch_api.batch_api_settings import BatchApiSettings
from orchestrator.settings.sources import Choices
from orchestrator.web.server import Listener


class _ToBeMade:
    """An application that is made once the ledger is open."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class BatchApi:
    """One that listens at `address`, which it has once it is made. Raises `UsageError` where that cannot be had, where
    a key or all models are missing, where there can be no runs of one, and where it would let anybody in. Used as a
    context manager, which frees the address.
    """

    def __init__(
        self, address: Address, settings: BatchApiSettings, models: Mapping[str, Choices], environ: Mapping[str, str]
    ) -> None:
        self._keys = {name: _key(name, variable, environ) for name, variable in settings.keys.items()}
        if not self._keys and not is_loopback(address.host):
            raise UsageError(
                f"{command_flags.BATCH_API} lets whoever reaches {address} do everything, since [batch-api] of the"
                ' configuration file has no keys; write keys = { team-a = "env:TEAM_A_KEY" } there, or listen on'
                " 127.0.0.1"
            )
        if len({*self._keys.values()}) < len(self._keys):
            raise UsageError("two of the keys of [batch-api] are the same key: nobody could be told apart by them")
        if not models:
            raise UsageError(
                f"{command_flags.BATCH_API}: the configuration file names no model that could be asked; write there"
                ' [models."org/name"] and, below it, endpoint = "abc123"'
            )
        for each in models.values():
            check_model(each)
        self._settings = settings
        self._models = models
        self._app = _ToBeMade()
        self._listener = Listener(self._app, address)

    @property
    def url(self) -> str:
        """What programs have as `base_url`."""
        return f"{self._listener.url}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def refuse_for_now(self) -> None:
        """Until `serve` whoever connects is refused at once; else he would wait for that."""
        self._listener.close()

    async def serve(self, host: Host, engine: Engine) -> None:
        """Answers, and carries batches on, until cancelled, for the ledger that `engine` works on; it may do so again.
        Raises `StorageError`, and `UsageError` where another program has the address by now.
        """
        service = batch_service(host, engine, self._settings, self._models)
        self._app.app = batch_api_application(service.store, self._models, self._keys)
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._listener.serve)
            host.console.info(f"the Batch API is at {self.url}")
            await service.serve()


def _key(name: str, variable: str, environ: Mapping[str, str]) -> str:
    """The key of that name. Raises `UsageError`."""
    key = environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"keys in [batch-api]: {name} has its key in {variable}; set it: export {variable}=...")
    return key
