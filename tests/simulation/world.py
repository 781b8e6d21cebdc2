"""The service of a simulated world: it lives on when the program crashes.

The emulator's own workers and webhooks are tasks, and a crash of the loop takes all tasks away. Here the same world,
gate and routes stand on plain data: what is executed until when, and which webhook is due when, is kept in heaps that
a new loop goes on with. So one service outlives any number of crashed programs, as the real one does.
"""

import heapq
import itertools
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import httpx
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.clock import Clock
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS, JobOperation, OperationLimit, OperationMeters
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.http.gate import Gate, KnownEndpoints
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.job_api.job_interfaces import JobInterfaces
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.routes import RouteTable
from orchestrator.emulator.jobs.endpoint_table import batch_pool
from orchestrator.emulator.jobs.jobs import ExecutionKey, JobExecution, WorkerResult
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall
from orchestrator.emulator.jobs.world import World
from orchestrator.errors import OrchestratorError
from orchestrator.units import SECOND_US
from tests.emulator.execution_counts import ExecutionCounts
from tests.simulation.long_work import Act, LongWork
from tests.simulation.transport import SimulatedTransport

SERVER_PATH = "/v1/embeddings"

ENDPOINT = "ep"
SECOND_ENDPOINT = "ep-2"
THIRD_ENDPOINT = "ep-3"
POOL_ENDPOINTS = (ENDPOINT, SECOND_ENDPOINT, THIRD_ENDPOINT)
"""Those that a pool is made of, in the order of its members."""

URL = "http://service"
HERE = httpx.URL(URL).host
WEBHOOK_PAUSE_US = 10 * SECOND_US
WEBHOOK_TRIES = 3
"""Three tries, ten seconds apart (contract, Events)."""

Receiver = Callable[[str, bytes], Awaitable[int]]
"""Takes a webhook's URL and body; returns the HTTP status, or raises."""

Work = Callable[[bytes, int], WorkerResult]
"""What a worker makes of an input in its so manieth execution of the job (from 1)."""


BROKEN_S = 0.001
BROKEN = WorkerResult(error="CUDA error: no kernel image is available for execution on the device")
"""How soon, and with what, executions end at an endpoint whose workers can do nothing."""


def echo(raw_input: bytes, _number: int) -> WorkerResult:
    return WorkerResult(output=raw_input)


def without_resume(raw_input: bytes) -> bytes:
    """The input of a job without what its segment was given."""
    text, resume, _ = raw_input.partition(b',"resume":')
    return text + b"}" if resume else text


class _Asked(msgspec.Struct):
    openai_input: msgspec.Raw = msgspec.Raw()


def bare(raw_input: bytes) -> bytes:
    """The input of a job as its row has it: without what its segment was given, or its way past the queue."""
    asked = bytes(msgspec.json.decode(raw_input, type=_Asked).openai_input) if b'"openai_input":' in raw_input else b""
    return asked or without_resume(raw_input)


class _Body(msgspec.Struct):
    input: msgspec.Raw


def input_in(body: bytes) -> bytes:
    """The input of a job as its row has it, in the body of a `/run` or `/runsync`."""
    return bare(bytes(msgspec.json.decode(body, type=_Body).input))


def at_urls(app: ASGIApp) -> ASGIApp:
    """`app`, whose `/openai/*` is a server at a URL as well: such a one tells its health beside what it is asked for, and
    has no `/ping`.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, _, question = str(scope["path"]).partition("/openai/")
        if question == "ping":
            await Response(status_code=404)(scope, receive, send)
            return
        if question == "health":
            scope = {**scope, "path": f"{endpoint}/health", "raw_path": f"{endpoint}/health".encode()}
        await app(scope, receive, send)

    return call


class PassingEndpoints(KnownEndpoints):
    """Those that are always there, and others that come and go."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self._open: set[str] = set()

    def open(self, endpoint: str) -> None:
        self._open.add(endpoint)

    def shut(self, endpoint: str) -> None:
        self._open.discard(endpoint)

    def is_open(self, endpoint: str) -> bool:
        return endpoint in self._open

    def serves(self, endpoint: str, now: int) -> bool:
        return self.is_open(endpoint) or super().serves(endpoint, now)


class Delivery(msgspec.Struct):
    """A webhook that has not been answered yet."""

    webhook: WebhookCall
    tries: int = 0


class SimulatedService:
    """One service.

    Args:
        seed: of all its chances.
        endpoints: their ids; each has so many `workers`, but for those that scale as `scaling` says.
        speeds: executions at the endpoints named take so many times as long.
        seconds: how long an execution takes, drawn from the generator given.
        work: what comes of an execution.
        receiver: to whom webhooks go; may be changed at any time, None lets them fail.
        counts: hears what becomes of jobs.
        make_world: the class of its world.
        batch: what its own batches are like; their workers are beside those of the endpoints.
        long_work: how the inputs that have a `resume` are worked on, instead of by `work`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        endpoints: Sequence[str] = (ENDPOINT,),
        workers: int = 8,
        scaling: Mapping[str, Scaling] | None = None,
        speeds: Mapping[str, float] | None = None,
        seconds: Callable[[random.Random], float] = lambda _: 1.0,
        work: Work = echo,
        retention_s: float = 1800.0,
        faults: Faults | None = None,
        limits: Mapping[JobOperation, OperationLimit] = CONTRACT_LIMITS,
        algorithm: Algorithm = Algorithm.SLIDING_LOG,
        receiver: Receiver | None = None,
        counts: ExecutionCounts | None = None,
        make_world: Callable[..., World] = World,
        long_work: LongWork | None = None,
        yields: bool = False,
        batch: BatchRules | None = None,
    ) -> None:
        self._clock = clock
        self._rng = random.Random(seed)
        self.endpoints = endpoints
        rules = batch or BatchRules()
        self._scaling = {each: (scaling or {}).get(each, fixed(workers)) for each in endpoints}
        self._scaling |= {batch_pool(each): fixed(rules.workers) for each in endpoints}
        self._speeds = speeds or {}
        self._seconds = seconds
        self._work = work
        self.long_work = long_work
        self._yields = yields
        self.broken: set[str] = set()  # the endpoints where executions fail at once
        self.is_gone = False
        """Whether nobody reaches it."""

        self.receiver = receiver
        self.counts = counts or ExecutionCounts(bare)
        self.dice = FaultDice(faults or Faults(), self._rng, since=clock.now())
        self.world = make_world(
            scaling=lambda endpoint: (self._scaling.get(endpoint, fixed(workers)), False),
            retention_us=round(retention_s * SECOND_US),
            dice=self.dice,
            rng=self._rng,
            observer=self.counts,
        )
        self._known = PassingEndpoints(endpoints)
        self.gate = Gate(
            endpoints=self._known,
            access=CallerAccess(None),
            meters=OperationMeters(limits, algorithm),
            wire=Wire(self.dice),
        )
        self.told: Callable[[bytes], bytes] = bytes
        """What becomes of a webhook's body on its way."""

        self._live = LiveWorld(self.world, clock)
        interfaces = JobInterfaces(self._live, self.gate, rules, changed=self._operated, body_bytes_max=1 << 24)
        self.batches = interfaces.batches
        self.app: ASGIApp = at_urls(RouteTable(interfaces.routes))
        self._numbers = itertools.count()
        self._busy: dict[str, dict[ExecutionKey, JobExecution]] = {name: {} for name in self._scaling}
        self._ends: list[tuple[int, int, str, JobExecution]] = []
        self._acts: list[tuple[int, int, str, JobExecution, int, Iterator[Act], Act]] = []
        self._deliveries: dict[int, Delivery] = {}
        self._tries: list[tuple[int, int]] = []
        self._wakeup = anyio.Event()

    def transport(
        self, *, travel_s: Callable[[], float] = lambda: 0.0, down: Callable[[], bool] = lambda: False
    ) -> httpx.AsyncBaseTransport:
        """A new way to the service, for one process."""
        return SimulatedTransport(self.app, travel_s=travel_s, down=lambda: self.is_gone or down(), cut=ConnectionCut)

    def staff(self, workers: int) -> None:
        """Each endpoint has so many workers from now on; who is at work ends that first."""
        for endpoint in self.endpoints:
            self._scaling[endpoint] = fixed(workers)
            self.world.endpoints.deploy(endpoint, fixed(workers), announced=False)
        self._wakeup.set()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Lets time pass at the service, until cancelled or crashed; may then be called again in another loop."""
        async with anyio.create_task_group() as deliveries:
            task_status.started()
            while True:
                self._wakeup = anyio.Event()
                now = self._clock.now()
                self._finish(now)
                self._step(now)
                self._take(now)
                self._try(now, deliveries)
                with anyio.move_on_after((self._next_at() - now) / SECOND_US):
                    await self._wakeup.wait()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves while the block runs, and stops after it."""
        async with anyio.create_task_group() as world:
            await world.start(self.serve)
            yield
            world.cancel_scope.cancel()

    def open(self, endpoint: str, workers: int) -> None:
        """From now on there is that endpoint, too, with so many workers."""
        if not self._known.is_open(endpoint):
            self._known.open(endpoint)
            self._busy[endpoint] = {}
            self.scale(endpoint, fixed(workers))

    def shut(self, endpoint: str) -> None:
        """There is no such endpoint any more, and nothing of what it had."""
        if self._known.is_open(endpoint):
            self._known.shut(endpoint)
            del self._busy[endpoint]
            self.world.forget_all(endpoint, self._clock.now())

    def scale(self, endpoint: str, scaling: Scaling) -> None:
        """From now on the endpoint has other workers; those at work end what they do."""
        self._scaling[endpoint] = scaling
        self.world.endpoints.fleet(endpoint).scale(scaling)
        self._wakeup.set()

    @property
    def paid(self) -> int:
        """Executions that a worker began."""
        return self.counts.executed.total()

    def _operated(self, _endpoint: str) -> None:
        self._wakeup.set()

    def _finish(self, now: int) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, _, endpoint, execution = heapq.heappop(self._ends)
            if self._busy.get(endpoint, {}).pop(ExecutionKey(execution.job_id, execution.number), None) is not None:
                is_broken = endpoint in self.broken
                self._done(execution, BROKEN if is_broken else self._work(bare(execution.input), execution.number), now)

        while self._acts and self._acts[0][0] <= now:
            _, _, endpoint, execution, begun_at, acts, act = heapq.heappop(self._acts)
            if ExecutionKey(execution.job_id, execution.number) not in self._busy[endpoint]:
                continue
            if act.report is not None:
                self.world.executions.progress(execution, act.report, now)
            if act.result is not None:
                del self._busy[endpoint][ExecutionKey(execution.job_id, execution.number)]
                result = self._work(without_resume(execution.input), execution.number) if act.is_done else act.result
                self.world.executions.done(execution, result, now)
            self._next_act(endpoint, execution, begun_at, acts)

    def _done(self, execution: JobExecution, result: WorkerResult, now: int) -> None:
        """An ordinary execution has come to this; what a worker that yields has made, a list, stands in its stream."""
        if self._yields and result.output is not None:
            for chunk in msgspec.json.decode(result.output, type=list[msgspec.Raw]):
                self.world.executions.put_chunk(execution, bytes(chunk), now)
            result = WorkerResult()
        self.world.executions.done(execution, result, now)

    def _next_act(self, endpoint: str, execution: JobExecution, begun_at: int, acts: Iterator[Act]) -> None:
        if (act := next(acts, None)) is not None:
            number = next(self._numbers)
            heapq.heappush(self._acts, (begun_at + act.after_us, number, endpoint, execution, begun_at, acts, act))

    def _step(self, now: int) -> None:
        due = self.world.step(now)
        self._live.notify(due.changed)
        for key in due.stopped:
            for busy in self._busy.values():
                busy.pop(key, None)
        for webhook in due.webhooks:
            number = next(self._numbers)
            self._deliveries[number] = Delivery(webhook)
            heapq.heappush(self._tries, (now, number))

    def _take(self, now: int) -> None:
        for endpoint, busy in self._busy.items():
            scaling = self._scaling[endpoint]
            while len(busy) < scaling.most:
                execution = self.world.executions.take(endpoint, f"worker-{len(busy)}", now)
                if execution is None:
                    break
                busy[ExecutionKey(execution.job_id, execution.number)] = execution
                if self.long_work is not None and not execution.silent and b'"resume":' in execution.input:
                    self._next_act(endpoint, execution, now, self.long_work.acts(execution.input))
                elif not execution.silent:
                    seconds = self._seconds(self._rng) * self._speeds.get(endpoint, 1.0)
                    ends_at = now + round((BROKEN_S if endpoint in self.broken else seconds) * SECOND_US)
                    heapq.heappush(self._ends, (ends_at, next(self._numbers), endpoint, execution))

    def _try(self, now: int, deliveries: TaskGroup) -> None:
        """The next try is planned before this one begins: a crash counts as a failure."""
        while self._tries and self._tries[0][0] <= now:
            _, number = heapq.heappop(self._tries)
            delivery = self._deliveries.get(number)
            if delivery is None:
                continue
            if delivery.tries == WEBHOOK_TRIES:
                del self._deliveries[number]
                continue
            delivery.tries += 1
            heapq.heappush(self._tries, (now + WEBHOOK_PAUSE_US, number))
            deliveries.start_soon(self._deliver, number, delivery.webhook)

    async def _deliver(self, number: int, webhook: WebhookCall) -> None:
        if self.receiver is None:
            return
        try:
            if await self.receiver(webhook.url, self.told(webhook.body)) == httpx.codes.OK:
                self._deliveries.pop(number, None)
        except (httpx.HTTPError, OrchestratorError):  # refused, cut, or answered by nobody
            return

    def _next_at(self) -> float:
        due = self.world.next_due()
        return min(
            math.inf if due is None else due,
            self._ends[0][0] if self._ends else math.inf,
            self._tries[0][0] if self._tries else math.inf,
            self._acts[0][0] if self._acts else math.inf,
        )
