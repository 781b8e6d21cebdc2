"""The network of a simulated world: requests to the service, webhooks back, and the weather on both ways."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

import anyio
import httpx
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.fates import Say
from tests.simulation.loop import PART, running_loop
from tests.simulation.plan import FailureClass, Plan
from tests.simulation.pods import SimulatedPods
from tests.simulation.pool_plan import MemberTrouble
from tests.simulation.transport import ASGIApp, SimulatedTransport
from tests.simulation.world import HERE, POOL_ENDPOINTS, SimulatedService

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

    def is_up(self, trouble: FailureClass, now: int) -> bool:
        """Whether there is no such trouble now."""
        seconds = _seconds(now)
        return not any(each.at_s <= seconds < each.until_s for each in self._plan.of(trouble))

    def is_reachable(self, endpoint: str, now: int) -> bool:
        """Whether requests get through to that endpoint of the first service, as far as it is a member of a pool."""
        pool = self._plan.pool
        if pool is None or endpoint not in POOL_ENDPOINTS:
            return True
        return MemberTrouble.REFUSED not in pool.troubles(POOL_ENDPOINTS.index(endpoint), _seconds(now))

    def clock_offset_us(self, now: int) -> int:
        """By how much the wall clock is wrong."""
        jumps = self._plan.of(FailureClass.CLOCK_JUMP)
        return round(sum(each.size for each in jumps if each.at_s <= _seconds(now)) * SECOND_US)


def _seconds(now: int) -> float:
    return (now - EPOCH_AT) / SECOND_US


class Network:
    """The ways between the program and the services, whose hosts are given. It outlives the processes of the program."""

    def __init__(
        self,
        plan: Plan,
        services: Mapping[str, SimulatedService],
        sky: Sky,
        clock: VirtualClock,
        say: Say,
        *,
        left: Callable[[httpx.Request], None],
        heard: Callable[[bytes], None],
        pods: SimulatedPods | None = None,
    ) -> None:
        """`left` is called with each request that a process sends, and `heard` with each body about a job that has
        reached one, and that names what it is about: the job that was asked for, or the URL that a webhook came to.
        """
        self._plan = plan
        self._pods = pods
        self._left = left
        self._heard = heard
        self.own_webhooks: dict[int, int] = {}
        """When a webhook first brought the own record of which submission."""
        self.unanswered: list[int] = []
        """When a question to `/status` came to nothing that may have reached the service."""

        self.pauses: list[tuple[int, int]] = []
        """From when until when the service wanted none."""

        self._services = services
        self._sky = sky
        self._clock = clock
        self._say = say
        self._chance = random.Random(f"network {plan.seed}")
        self._to_service = {
            host: SimulatedTransport(service.app, cut=ConnectionCut) for host, service in services.items()
        }
        self._listeners: list[SimulatedListener] = []
        self._cut: set[object] = set()
        """The processes that are cut off from all services."""

        self._tasks: TaskGroup
        for service in services.values():
            service.receiver = self._deliver
            for gone in plan.of(FailureClass.SERVICE_GONE):
                service.gate.wire.outage(
                    EPOCH_AT + round(gone.at_s * SECOND_US), EPOCH_AT + round(gone.until_s * SECOND_US)
                )

    def begin(self, tasks: TaskGroup) -> None:
        """What is under way is carried by `tasks`, which neither sleep nor die with a process."""
        self._tasks = tasks
        self._outside = copy_context()

    # --- to the service

    def wire(self) -> "Wire":
        """A new way to the services, for one process."""
        return Wire(self, self._tasks, self._outside)

    async def carry(self, wire: "Wire", request: httpx.Request) -> httpx.Response:
        """Carries one request there and its answer back."""
        path = request.url.path.removeprefix("/v2/")
        what = f"{request.method} /{path if path.startswith(('pods', 'templates')) else path.partition('/')[2]}"
        subject = _subject(request)
        self._left(request)
        try:
            response = await wire.side.ask(partial(self._carry, wire), request)
        except (NotSent, Unanswered) as error:
            self._say("wire", f"{what}: {type(error).__name__}", subject)
            if "/status/" in what and isinstance(error, Unanswered):
                self.unanswered.append(self._clock.now())
            raise
        self._say("wire", f"{what}: {response.status_code}", subject)
        if "/status/" in what and "retry-after" in response.headers:
            now = self._clock.now()
            self.pauses.append((now, now + round(float(response.headers["retry-after"]) * SECOND_US)))
        is_read = "/status/" in what and "content-encoding" not in response.headers  # which only bombs have
        body = await response.aread() if is_read else b""
        if f'"id":"{what.rpartition("/")[2]}"'.encode() in body:
            self._heard(body)
        return response

    async def _carry(self, wire: "Wire", request: httpx.Request) -> httpx.Response:
        endpoint, _, operation = request.url.path.removeprefix("/v2/").partition("/")
        await self._travel()
        if not self._gets_through(wire, request.url.host, endpoint):
            raise NotSent(f"{request.url.host} cannot be reached")
        self._hide_or_show()
        response = await self._answer(wire, endpoint, operation.partition("/")[0], request)
        await self._travel()
        if not self._gets_through(wire, request.url.host, endpoint):
            raise Unanswered(f"{request.url.host} did not answer")
        return response

    async def _answer(self, wire: "Wire", endpoint: str, operation: str, request: httpx.Request) -> httpx.Response:
        pods = self._pods
        if pods is not None and pods.is_account(request):
            return await pods.answer(request)
        if pods is not None and request.url.host == HERE and (instead := pods.instead(endpoint)) is not None:
            return instead
        with wire.at_service((request.url.host, endpoint, JobOperation(operation))), ExitStack() as stack:
            if pods is not None:
                stack.enter_context(pods.while_up(endpoint))
            return await self._to_service[request.url.host].handle_async_request(request)

    def _gets_through(self, wire: "Wire", host: str, endpoint: str) -> bool:
        return (
            self._is_up() and not wire.is_cut and (host != HERE or self._sky.is_reachable(endpoint, self._clock.now()))
        )

    def _hide_or_show(self) -> None:
        is_shown = self._sky.is_up(FailureClass.ENDPOINT_HIDDEN, self._clock.now())
        for service in self._services.values():
            for endpoint in service.endpoints:
                (service.gate.show if is_shown else service.gate.hide)(endpoint)

    async def _travel(self) -> None:
        await anyio.sleep(self._chance.uniform(0, self._plan.travel_s))

    def _is_up(self) -> bool:
        return self._sky.is_up(FailureClass.NETWORK_GONE, self._clock.now())

    def kill(self, part: object, wire: "Wire") -> None:
        """The process `part` is killed, and nobody listens there any more.

        What it has sent is gone, wherever it was, or, as often, gets there still. The service notices a round trip
        later, but a /run may hold its slot for as long as the limits look back.
        """
        self._listeners = [each for each in self._listeners if each.part is not part]
        gets_there = self._chance.random() < 1 / 2
        if not gets_there:
            running_loop().kill(wire)
        self._outside.run(self._tasks.start_soon, self._notice, wire, 2 * self._plan.travel_s if gets_there else 0)

    async def _notice(self, wire: "Wire", after_s: float) -> None:
        await anyio.sleep(after_s)
        running_loop().kill(wire)
        late = {under: n for under, n in wire.under_way.items() if under[2] is JobOperation.RUN}
        self._hang_up({under: n for under, n in wire.under_way.items() if under not in late})
        await anyio.sleep(self._chance.uniform(0, 0.9) * self._plan.run_rate.window_s)
        self._hang_up(late)

    def _hang_up(self, cut: Mapping["Under", int]) -> None:
        for (host, endpoint, operation), n in cut.items():
            gate = self._services[host].gate
            for _ in range(min(n, gate.meters.figures(endpoint, operation).concurrent)):
                gate.meters.of(endpoint, operation).leave()

    def cut_off(self, part: object, wire: "Wire") -> None:
        """The process `part` reaches nobody any more, and nobody reaches it."""
        self._cut.add(part)
        wire.is_cut = True

    def reconnect(self, part: object, wire: "Wire") -> None:
        """It does again."""
        self._cut.discard(part)
        wire.is_cut = False

    # --- and back

    def listen(self, listener: "SimulatedListener") -> None:
        """From now on webhooks go to `listener`. Two processes cannot listen at one address, unless they are engines of
        one ledger: in front of these somebody chooses.
        """
        assert self._plan.engines is not None or not self._listeners, "another process listens there"
        self._listeners.append(listener)

    def close(self, listener: "SimulatedListener") -> None:
        """`listener` has ended."""
        if listener in self._listeners:
            self._listeners.remove(listener)

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
        if not self._listeners or not self._is_up():
            raise NotSent("nobody listens there")
        listener = self._listeners[0] if len(self._listeners) == 1 else self._chance.choice(self._listeners)
        if listener.part in self._cut:
            raise NotSent("whoever listens there is cut off")
        stripped = httpx.URL(url).copy_with(path=httpx.URL(url).path.removeprefix("/in"))
        address = self._chance.choice((httpx.URL(url), stripped))
        status = await listener.post(address, body)
        submission = url.rpartition("/")[2].partition(".")[0]
        self._say("webhook", f"answered {status}", submission)
        if status == httpx.codes.OK and f'"webhook":"{url}"'.encode() in body:
            self._heard(body)
            self.own_webhooks.setdefault(int(submission), self._clock.now())
        await self._travel()
        if not self._is_up():
            raise Unanswered("the listener's answer was lost")
        return status


class Side:
    """One side of the network: what it is asked is done by a task of its own, with whatever it stands still or dies.

    That is the caller, or `part` in the given context.
    """

    def __init__(self, tasks: TaskGroup, context: Context | None = None, *, part: object = None) -> None:
        self._tasks = tasks
        self._context: Context = copy_context() if context is None else context.copy()
        if part is not None:
            self._context.run(PART.set, part)

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
        finally:  # where it belongs: who stands still, or is dead, cannot be cancelled
            running_loop().call_soon(scope.cancel, context=self._context)
        (answer,) = answers
        if isinstance(answer, httpx.Response):
            return answer
        raise answer


Under = tuple[str, str, JobOperation]
"""Host, endpoint and operation of a request that is under way there."""


class Wire(httpx.AsyncBaseTransport):
    """The way of one process to the services; a part of the world of its own."""

    def __init__(self, network: Network, tasks: TaskGroup, outside: Context) -> None:
        self._network = network
        self.side = Side(tasks, outside, part=self)
        self.under_way: Counter[Under] = Counter()
        self.is_cut = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._network.carry(self, request)

    @contextmanager
    def at_service(self, under: Under) -> Iterator[None]:
        """While the block runs, a request is under way there."""
        self.under_way[under] += 1
        try:
            yield
        finally:
            self.under_way[under] -= 1


class SimulatedListener:
    """An `app.surroundings.Listening`: no socket, but the network knows the way."""

    url = LISTENER_URL

    def __init__(self, app: ASGIApp, network: Network) -> None:
        self._app = app
        self._network = network
        self._side: Side
        self.part = PART.get()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as tasks:
            self._side = Side(tasks)
            self._network.listen(self)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._network.close(self)

    async def post(self, url: httpx.URL, body: bytes) -> int:
        """The status that a webhook is answered with, in the process's own time, which may be never."""
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
