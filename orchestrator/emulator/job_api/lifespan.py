"""Tells an ASGI application that it begins and ends, as the server of a worker would (ASGI's lifespan protocol)."""

from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Message

from orchestrator.errors import UsageError

END_GRACE_S = 5.0
"""How long an application may take to end."""

VERSION = {"version": "3.0", "spec_version": "2.0"}


class Lifespan:
    """One application's life. `state` is what it wants each of its requests to know."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self.state: dict[str, Any] = {}
        self._has_begun = anyio.Event()
        self._ends = anyio.Event()
        self._was_told = False
        self._problem: str | None = None
        self._patience = anyio.CancelScope(shield=True)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Begins it, and ends it once cancelled. Raises UsageError where it says that it cannot begin.

        One that knows nothing of lifespans is served all the same.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._live)
            await self._has_begun.wait()
            if self._problem is not None:
                raise UsageError(f"the application of a load balancing endpoint did not start: {self._problem}")
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._ends.set()
                self._patience.deadline = anyio.current_time() + END_GRACE_S

    async def _live(self) -> None:
        scope = {"type": "lifespan", "asgi": VERSION, "state": self.state}
        with self._patience:  # it is to hear of its end, for which it gets `ends` and not a cancellation
            try:
                with suppress(Exception):  # whoever knows nothing of lifespans raises whatever it likes
                    await self._application(scope, self._receive, self._send)
            finally:
                self._has_begun.set()

    async def _receive(self) -> Message:
        if not self._was_told:
            self._was_told = True
            return {"type": "lifespan.startup"}
        await self._ends.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "lifespan.startup.failed":
            self._problem = str(message.get("message") or "it does not say why")
        self._has_begun.set()
