"""The HTTP servers of people's workers and pods, which are ASGI applications: they are told of their beginning and end,
get requests below a root of their own, and what they say is passed on as the faults of the wire have it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer
from orchestrator.emulator.http.wire import Cut, OutgoingAnswer
from orchestrator.errors import UsageError

Application = ASGIApp
"""The HTTP server of a worker, as its author writes it: FastAPI, Starlette, or any other ASGI application."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

BEGINNING: Final = HttpAnswer(status=HTTPStatus.OK, body=b"{}")
"""What stands for the server's answer where it is decided how it leaves."""

TIMED_OUT: Final = 524

END_GRACE_S = 5.0
"""How long an application may take to end."""

LIFESPAN_VERSION = {"version": "3.0", "spec_version": "2.0"}


class Lifespan:
    """Tells an application that it begins and ends, as the server of a worker would (ASGI's lifespan protocol).

    `state` is what it wants each of its requests to know.
    """

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
                raise UsageError(f"the application did not start: {self._problem}")
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._ends.set()
                self._patience.deadline = anyio.current_time() + END_GRACE_S

    async def _live(self) -> None:
        scope = {"type": "lifespan", "asgi": LIFESPAN_VERSION, "state": self.state}
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


class Lifespans:
    """Those of several applications, each of which is told once however often it is used."""

    def __init__(self) -> None:
        self._of: dict[int, Lifespan] = {}

    async def begin(self, applications: Iterable[Application], tasks: TaskGroup) -> None:
        """Begins each of them in `tasks`. Raises UsageError for one that cannot begin."""
        for application in {id(each): each for each in applications}.values():
            lifespan = self._of[id(application)] = Lifespan(application)
            await tasks.start(lifespan.serve)

    def state_of(self, application: Application) -> Mapping[str, Any]:
        """What it wants each of its requests to know."""
        found = self._of.get(id(application))
        return {} if found is None else found.state


class Reply:
    """What a worker's server says, on its way to the sender: whole, not at all, or cut behind its first piece."""

    def __init__(self, sending: OutgoingAnswer, send: Send) -> None:
        self._sending = sending
        self._send = send
        self.has_begun = self.is_whole = False
        self.is_cut = sending.cut is not Cut.NOWHERE

    async def send(self, message: Message) -> None:
        """Passes one message of the application on."""
        if self._sending.cut is Cut.BEFORE_ANSWER or self._sending.answer is not BEGINNING:
            return
        if self.is_cut and message["type"] == "http.response.body":
            piece = bytes(message.get("body", b""))
            await self._send({**message, "body": piece[: len(piece) // 2], "more_body": True})
            raise ConnectionCut
        self.has_begun = True
        self.is_whole = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)


_FOUND_OUT: Final = frozenset({"app", "endpoint", "path_params", "route", "router", "state"})
"""What Starlette adds to a request on its way to its route."""


def below_root(scope: Scope, root: str, state: Mapping[str, Any]) -> Scope:
    """The request as the server that is at `root` gets it: below that, and without what Starlette found out of it."""
    path = str(scope["path"]).removeprefix(root) or "/"
    kept = {name: value for name, value in scope.items() if name not in _FOUND_OUT}
    return {**kept, "path": path, "raw_path": path.encode(), "root_path": "", "state": dict(state)}


def whole(body: bytes) -> Receive:
    """Gives the body in one piece, and then nothing any more: that its sender hung up is heard elsewhere."""
    is_given = False

    async def receive() -> Message:
        nonlocal is_given
        if is_given:
            await anyio.sleep_forever()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def nothing() -> Message:
    """What is heard of a sender that hung up."""
    return {"type": "http.disconnect"}
