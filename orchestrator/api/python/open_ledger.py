"""A ledger as a program has it open: by an engine of its own, or beside the process that works on it."""

from collections.abc import Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import sniffio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from orchestrator.api.python.ledger_session import LedgerSession
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.keyword_options import (
    OF_CONNECTION,
    ConnectionOptions,
    check_known,
    chosen,
)
from orchestrator.api.runs.service_connection import connection_of
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError, leading
from orchestrator.ledger.actions.asker import BY_PYTHON
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.settings.sources import Choices
from orchestrator.user_code import absolute


class OpenLedger:
    """Works on a ledger, or joins who does, inside of `async with`."""

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
        self._dependencies = replace(_dependencies or Dependencies(), asked=BY_PYTHON)
        choices = self._chosen({})
        self._connection = connection_of(choices, self._dependencies.environ, key=key)
        self._path = choices.ledger
        self._place = self._path if isinstance(self._path, LedgerUrl) else absolute(self._path)
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
