"""The network of a simulated world: requests to the service, webhooks back, and the weather on both ways."""

import random
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import TypeVar

import anyio
import httpx
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.emulator.answers import ConnectionCut
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.fates import Say
from tests.simulation.loop import running_loop
from tests.simulation.plan import Plan, Trouble
from tests.simulation.transport import ASGIApp, SimulatedTransport
from tests.simulation.world import ENDPOINT, SimulatedService

T = TypeVar("T")

WEBHOOK_S_MAX = 10.0
"""How long the service waits for the answer of a listener that may be asleep."""

LISTENER_URL = "http://listener/in"
"""Where the service reaches the program; a proxy in front may strip the path or not."""


class Sky:
    """What the weather of a plan is at any time (microseconds by the true clock): a function of the time alone, so that
    a crash of the program does not change it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def is_up(self, trouble: Trouble, now: int) -> bool:
        """Whether there is no such trouble now."""
        seconds = _seconds(now)
        return not any(each.at_s <= seconds < each.until_s for each in self._plan.of(trouble))

    def clock_offset_us(self, now: int) -> int:
        """By how much the wall clock is wrong."""
        jumps = self._plan.of(Trouble.CLOCK_JUMP)
        return round(sum(each.size for each in jumps if each.at_s <= _seconds(now)) * SECOND_US)


def _seconds(now: int) -> float:
    return (now - EPOCH_AT) / SECOND_US


class Network(httpx.AsyncBaseTransport):
    """The ways between the program and the service. It outlives the processes of the program."""

    def __init__(
        self,
        plan: Plan,
        service: SimulatedService,
        sky: Sky,
        clock: VirtualClock,
        say: Say,
        heard: Callable[[bytes], None],
    ) -> None:
        """`heard` is called with each body about a job that has reached the program, and that names what it is about:
        the job that was asked for, or the URL that a webhook came to.
        """
        self._plan = plan
        self._heard = heard
        self._service = service
        self._sky = sky
        self._clock = clock
        self._say = say
        self._chance = random.Random(f"network {plan.seed}")
        self._to_service = SimulatedTransport(service.app, cut=ConnectionCut)
        self._listener: SimulatedListener | None = None
        self._side: Side | None = None
        service.receiver = self._deliver
        for gone in plan.of(Trouble.SERVICE_GONE):
            service.gate.outage(EPOCH_AT + round(gone.at_s * SECOND_US), EPOCH_AT + round(gone.until_s * SECOND_US))

    def outlive(self, tasks: TaskGroup) -> None:
        """In a world where the program falls asleep, requests are carried by `tasks`, which do not."""
        if self._plan.of(Trouble.ASLEEP):
            self._side = Side(tasks)

    # --- to the service

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carries one request there and its answer back."""
        what = f"{request.method} /{request.url.path.removeprefix(f'/v2/{ENDPOINT}/')}"
        subject = _subject(request)
        try:
            response = await (self._carry(request) if self._side is None else self._side.ask(self._carry, request))
        except (NotSent, Unanswered) as error:
            self._say("wire", f"{what}: {type(error).__name__}", subject)
            raise
        self._say("wire", f"{what}: {response.status_code}", subject)
        body = await response.aread() if "/status/" in what else b""
        if f'"id":"{what.rpartition("/")[2]}"'.encode() in body:
            self._heard(body)
        return response

    async def _carry(self, request: httpx.Request) -> httpx.Response:
        await self._travel()
        if not self._is_up():
            raise NotSent(f"{request.url.host} cannot be reached")
        self._hide_or_show()
        response = await self._to_service.handle_async_request(request)
        await self._travel()
        if not self._is_up():
            raise Unanswered(f"{request.url.host} did not answer")
        return response

    def _hide_or_show(self) -> None:
        if self._sky.is_up(Trouble.ENDPOINT_HIDDEN, self._clock.now()):
            self._service.gate.show(ENDPOINT)
        else:
            self._service.gate.hide(ENDPOINT)

    async def _travel(self) -> None:
        await anyio.sleep(self._chance.uniform(0, self._plan.travel_s))

    def _is_up(self) -> bool:
        return self._sky.is_up(Trouble.NETWORK_GONE, self._clock.now())

    # --- and back

    def listen(self, listener: "SimulatedListener") -> None:
        """From now on webhooks go to `listener`."""
        self._listener = listener

    def close(self) -> None:
        """Nobody listens: the process has ended, in whatever way."""
        self._listener = None

    async def _deliver(self, url: str, body: bytes) -> int:
        """One webhook, in a storm as often as the plan says. Each copy with a wrong token must be answered 404."""
        status = 0
        for _ in range(self._plan.storm):
            status = await self._call(url, body)
            if self._plan.storm > 1:
                forged = await self._call(_forged(url, self._chance), body)
                assert forged == httpx.codes.NOT_FOUND, f"a forged token was answered {forged}"
        return status

    async def _call(self, url: str, body: bytes) -> int:
        await self._travel()
        if self._listener is None or not self._is_up():
            raise NotSent("nobody listens there")
        stripped = httpx.URL(url).copy_with(path=httpx.URL(url).path.removeprefix("/in"))
        address = self._chance.choice((httpx.URL(url), stripped))
        status = await self._listener.post(address, body, may_sleep=self._side is not None)
        self._say("webhook", f"answered {status}", url.rpartition("/")[2].partition(".")[0])
        if status == httpx.codes.OK and f'"webhook":"{url}"'.encode() in body:
            self._heard(body)
        await self._travel()
        if not self._is_up():
            raise Unanswered("the listener's answer was lost")
        return status


class Side:
    """One side of the network: what it is asked is done by a task of its own, with whatever it stands still."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._context: Context = copy_context()

    async def ask(self, do: Callable[[T], Awaitable[httpx.Response]], what: T) -> httpx.Response:
        """What `do(what)` returns or raises; whoever does not wait for it any more cancels it.

        An asker that stands still has it at its socket, and hears of it once it goes on.
        """
        done, scope, asker = anyio.Event(), anyio.CancelScope(), copy_context()
        answers: list[httpx.Response | NotSent | Unanswered] = []

        async def task() -> None:
            with scope:
                try:
                    answers.append(await do(what))
                except (NotSent, Unanswered) as error:
                    answers.append(error)
                running_loop().call_soon(done.set, context=asker)

        self._context.run(self._tasks.start_soon, task)
        try:
            await done.wait()
        finally:
            scope.cancel()
        (answer,) = answers
        if isinstance(answer, httpx.Response):
            return answer
        raise answer


class SimulatedListener:
    """An `app.surroundings.Listening`: no socket, but the network knows the way."""

    url = LISTENER_URL

    def __init__(self, app: ASGIApp, network: Network) -> None:
        self._app = app
        self._network = network
        self._side: Side | None = None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as tasks:
            self._side = Side(tasks)
            self._network.listen(self)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._network.close()

    async def post(self, url: httpx.URL, body: bytes, *, may_sleep: bool) -> int:
        """The status that a webhook is answered with. A process that may sleep answers in its own time."""
        if not may_sleep or self._side is None:
            return (await self._answer(httpx.Request("POST", url, content=body))).status_code
        with anyio.move_on_after(WEBHOOK_S_MAX):
            return (await self._side.ask(self._answer, httpx.Request("POST", url, content=body))).status_code
        raise Unanswered("the listener did not answer in time")

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        async with httpx.AsyncClient(transport=SimulatedTransport(self._app)) as client:
            return await client.send(request)


def _forged(url: str, chance: random.Random) -> str:
    """`url` with another last digit, or with the number of another submission."""
    if chance.random() < 0.5:
        return url[:-1] + ("0" if url[-1] != "0" else "1")
    head, _, token = url.rpartition("/")
    number, _, mac = token.partition(".")
    return f"{head}/{int(number) + 1}.{mac}"


def _subject(request: httpx.Request) -> str:
    """What a request is about: the input of a `/run`; of others the path says it."""
    body = request.read()
    at = body.find(b'"input":')
    return "" if at < 0 else body[at + 8 : at + 20].decode(errors="replace")
