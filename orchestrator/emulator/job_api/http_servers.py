"""The HTTP servers of people's workers and pods, which are ASGI applications: they are told of their beginning and end,
get requests below a root of their own, and what they say is passed on as the faults of the wire have it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.request_body import hold_request
from orchestrator.emulator.http.wire import Cut, OutgoingAnswer
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US

Application = ASGIApp
"""The HTTP server of a worker, as its author writes it: FastAPI, Starlette, or any other ASGI application."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

BEGINNING: Final = HttpAnswer(status=HTTPStatus.OK, body=b"{}")
"""What stands for the server's answer where it is decided how it leaves."""

TIMED_OUT: Final = 524
"""The status where a server takes too long."""

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


class ServerFront(ABC):
    """What stands in front of people's servers: it tells them that they begin and end, hands them requests, and passes
    on what they say as the faults of the wire have it. `within_s` is how long an answer may take.
    """

    def __init__(self, applications: Iterable[Application], live: LiveWorld, gate: Gate, *, within_s: float) -> None:
        self._live = live
        self._gate = gate
        self._all = applications
        self._within_s = within_s
        self._lifespans = Lifespans()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tells each application that it begins, and at the end that it ends (ASGI's lifespan), until cancelled.

        Raises UsageError for one that cannot begin.
        """
        async with anyio.create_task_group() as tasks:
            await self._lifespans.begin(self._all, tasks)
            task_status.started()

    async def _execute(self, application: Application, root: str, body: bytes, scope: Scope, send: Send) -> None:
        """Hands the request to `application`, which is at `root`. Raises ConnectionCut."""
        sending = self._gate.sending(JobOperation.HTTP, BEGINNING)
        if sending.delay_us:
            await anyio.sleep(sending.delay_us / SECOND_US / self._live.scale)
        answer = Reply(sending, send)
        with anyio.move_on_after(self._within_s / self._live.scale) as in_time:
            try:
                state = self._lifespans.state_of(application)
                await application(below_root(scope, root, state), whole(body), answer.send)
            except (ConnectionCut, anyio.get_cancelled_exc_class()):
                raise
            except Exception:  # noqa: BLE001  a server answers 500, whatever was raised in it
                if answer.has_begun and not answer.is_whole:
                    raise ConnectionCut from None
                if not answer.has_begun:
                    failed = await self._failed(HTTPStatus.INTERNAL_SERVER_ERROR)
                    await failed(scope, nothing, send)
                    return
        self._gate.wire.check_connection(self._live.now())
        if in_time.cancelled_caught and not answer.has_begun:
            failed = await self._failed(TIMED_OUT)
            await failed(scope, nothing, send)
        elif in_time.cancelled_caught or answer.is_cut:
            raise ConnectionCut
        elif sending.answer is not BEGINNING:  # a fault has put something else in its place
            replaced = await self._replaced(sending)
            await replaced(scope, nothing, send)

    @abstractmethod
    async def _failed(self, status: int) -> Response:
        """What is said for a server that has failed (500), or has taken too long (524)."""

    @abstractmethod
    async def _replaced(self, sending: OutgoingAnswer) -> Response:
        """What a fault has put in the place of what the server said."""


class ForwardedAnswer(Response):
    """What a server answers, which is written while it comes, by `forward`."""

    def __init__(self, forward: Callable[[Scope, Send], Awaitable[None]]) -> None:
        super().__init__()
        self._forward = forward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut: ConnectionCut | None = None

        async def forward() -> None:
            nonlocal cut
            try:
                await self._forward(scope, send)
            except ConnectionCut as error:
                cut = error

        await hold_request(Request(scope, receive), math.inf, forward)
        if cut is not None:
            raise cut


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
