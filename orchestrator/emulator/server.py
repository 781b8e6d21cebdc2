"""The emulator as a whole: its settings, and the parts joined together.

`Emulator.app` can be called in-process or served with `listen`; `Emulator.serve` must run beside it, for it moves time
on: workers, time-outs, retention and webhooks.

    emulator = Emulator(EmulatorSettings(endpoints={"*": load_handler("handler.py:handler")}), clock=clock, rng=rng)
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulator.serve)
        await tasks.start(listen, emulator.app, bind("127.0.0.1", 8000))
        emulator.dice.faults = Faults(lost_answer=0.02)  # at any time
"""

import math
import random
import subprocess
from collections.abc import Collection, Container, Mapping, Sequence

import anyio
import msgspec
from anyio.abc import TaskStatus
from starlette.routing import Route
from starlette.types import ASGIApp

from orchestrator.clock import Clock
from orchestrator.emulator.account.endpoints import ServiceEndpoint
from orchestrator.emulator.account.pod_access import Caller, CallerAccess
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.account.template_use import AccountTemplates
from orchestrator.emulator.account_api.pod_events import PodEvents
from orchestrator.emulator.account_api.pod_routes import PodApi
from orchestrator.emulator.account_api.service import TEMPLATE_RELEASE_S, AccountInterfaces
from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS, JobOperation, OperationLimit
from orchestrator.emulator.contract.paging import PAGE_MAX, Pages
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.http.gate import ANY_ENDPOINT, Gate
from orchestrator.emulator.http.not_found import UnservedAnswer, UnservedCalls
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.job_api.load_balancer import LoadBalancer
from orchestrator.emulator.job_api.long_polls import LongPolls
from orchestrator.emulator.job_api.openai_routes import OpenAiApi
from orchestrator.emulator.job_api.routes import STREAM_WAIT_MS_DEFAULT, JobApi, RouteTable, job_routes
from orchestrator.emulator.job_api.webhook_delivery import CONTRACT_SUCCESS, Deliver, WebhookDelivery
from orchestrator.emulator.job_api.worker_routes import HOLD_S, WorkerApi
from orchestrator.emulator.jobs.fleet import PROPAGATION_S, Scaler, Scaling, WorkerView, fixed
from orchestrator.emulator.jobs.world import Due, World
from orchestrator.emulator.scaled_clock import ScaledClock, announced
from orchestrator.emulator.stats import JOBS_MAX, Stats, StatsApi, stats
from orchestrator.emulator.workers.handlers import Handler
from orchestrator.emulator.workers.worker_processes import LISTEN_GRACE_S, WorkerProcesses
from orchestrator.emulator.workers.workers import HandlerWorkers
from orchestrator.units import MIB, MILLISECOND_US, SECOND_US

PINGS_MISSED = 4
"""A worker is silent for at least so many pings before the service gives it up, however fast time runs."""

WORKER_KEY = "emulator"
"""The key of worker processes where any key will do."""


class EmulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the emulated service is like. The defaults are the contract's."""

    endpoints: Mapping[str, Handler] = {}
    """The handler of each endpoint id; `"*"` is every id that is not named."""
    http_endpoints: Mapping[str, ASGIApp] = {}
    """The HTTP server that the workers of a load balancing endpoint run, by its id; `"*"` is for those that are created
    and not named."""
    handler_processes: int = 0
    """Plain handlers run in so many processes at each endpoint; 0 has them run in threads."""
    command: tuple[str, ...] | None = None
    """A program that runs the official worker, for every id that has no handler: `("python", "handler.py")`."""
    any_endpoint: bool = False
    """Every endpoint id exists, even without a handler or a command: workers come from elsewhere."""
    workers: int = 4
    """Workers per endpoint; each runs one job at a time."""
    scaling: Scaling | None = None
    """How endpoints scale; None has the same number of `workers` at all times."""
    ping_interval_s: float = 10.0
    """How often worker processes are told to ping, in real seconds; the official worker knows whole ones."""
    silence_s: float = 40.0
    """A worker process that has not named a job of its in a ping for so long has lost it (as observed)."""
    take_hold_s: float = HOLD_S
    """How long a worker that waits for a job or a stop is held, in real seconds."""
    listen_grace_s: float = LISTEN_GRACE_S
    """How long a worker process may take to hear that it is to stop a job, in real seconds, before it is killed."""
    repeated_done_status: int = 200
    """The answer to a result for a job that has ended already."""
    time_scale: float = 1.0
    """How many of the emulator's seconds pass in one of the clock's. A handler's own time is real."""
    keys: tuple[str, ...] | None = None
    """The API keys that are taken; None takes any but an empty one."""
    limits: Mapping[JobOperation, OperationLimit] = CONTRACT_LIMITS
    """An operation without an entry is unlimited."""
    algorithm: Algorithm = Algorithm.SLIDING_LOG
    retry_after: bool = False
    """Whether a 429 carries `Retry-After`; the service documents none."""
    requests_per_worker: int | None = None
    """For the dynamic rule (contract, Limits); None leaves it out, since the number is not shown."""
    queue_per_worker: int | None = None
    """A queue longer than this for each worker there may be answers 429; None for no such rule (as observed)."""
    error_bodies: ErrorBodies = ErrorBodies.JSON
    strict: bool = False
    """Whether what the service was seen to refuse is refused also where the contract is silent."""
    pods: PodSettings = PodSettings()
    page_size: int = PAGE_MAX
    """The most that a page of a list of REST v2 holds."""
    without: Mapping[str, int] = {}
    """Interfaces of the account that there are not, or no longer, and the status that they answer with."""
    faults: Faults = Faults()
    retention_s: float = 1800.0
    """How long a finished job is kept (contract, Limits)."""
    sync_retention_s: float = 60.0
    """The same for a job of `/runsync`."""
    stream_wait_ms: int = STREAM_WAIT_MS_DEFAULT
    """How long an empty `/stream` is held unless `wait` says so."""
    body_bytes_max: int = 10 * MIB
    """The longest body of a `/run` (as observed); longer ones are answered 413."""
    webhook_delays_s: tuple[float, ...] = (10.0, 10.0)
    """The pauses before the second attempt, the third, ... (contract, Events)."""
    service_retries: int = 0
    """How often a job that failed is executed again before it is said to have (contract, Retries: by itself)."""
    webhook_success: Container[int] = CONTRACT_SUCCESS
    """With which statuses a receiver takes a webhook."""
    webhook_timeout_s: float = 10.0
    webhook_concurrency: int = 256
    template_release_s: float = TEMPLATE_RELEASE_S
    """How long after its last use a template cannot be deleted (contract: up to 2 minutes)."""
    propagation_s: float = PROPAGATION_S
    """How long a new endpoint answers 404 on the job API (as observed)."""
    gpus: tuple[str, ...] | None = None
    """The GPU types that are available; None for all."""


def callers_of(settings: EmulatorSettings) -> Mapping[str, Caller] | None:
    """Whom each key stands for that is taken, the first of which is for workers; None: any key will do.

    One that is named without a caller is a user's with all permissions.
    """
    return {**dict.fromkeys(settings.keys or (), Caller()), **(settings.pods.callers or {})} or None


class Emulator:
    """One emulated service.

    Its parts are there to be read and switched at run time: `gate` (figures, outages, hidden endpoints), `dice` (faults
    and their counts), `world` and `webhooks`.
    """

    def __init__(
        self,
        settings: EmulatorSettings,
        *,
        clock: Clock,
        rng: random.Random,
        deliver: Deliver | None = None,
        worker_output: int = subprocess.DEVNULL,
    ) -> None:
        self._settings = settings
        self._scale = settings.time_scale
        self.clock: Clock = clock if settings.time_scale == 1.0 else ScaledClock(clock, settings.time_scale)
        self.dice = FaultDice(settings.faults, rng, since=self.clock.now())
        wire = Wire(self.dice, settings.error_bodies)
        self._callers = callers_of(settings)
        self._notes = UnservedCalls()
        access = CallerAccess(self._callers, settings.pods.quotas, scale=self._scale)
        self.account = self._make_account(wire, rng, access)
        self._pod_api = self._make_pods(wire, rng, access)
        self.pods = self._pod_api.world
        self.world = World(
            workers=settings.workers,
            scaling=self._scaling_of,
            retention_us=round(settings.retention_s * SECOND_US),
            sync_retention_us=round(settings.sync_retention_s * SECOND_US),
            silence_us=round(
                max(settings.silence_s, PINGS_MISSED * settings.ping_interval_s * self._scale) * SECOND_US
            ),
            service_retries=settings.service_retries,
            dice=self.dice,
            rng=rng,
        )
        self.gate = self._make_gate(wire)
        self.webhooks = WebhookDelivery(
            deliver,
            delays_s=[delay / self._scale for delay in settings.webhook_delays_s],
            timeout_s=settings.webhook_timeout_s,
            concurrency=settings.webhook_concurrency,
            success=settings.webhook_success,
        )
        self._waits = LongPolls(self.world)
        self._worker_api = WorkerApi(
            world=self.world,
            gate=self.gate,
            clock=self.clock,
            changed=self._operated,
            hold_s=settings.take_hold_s,
            repeated_done_status=settings.repeated_done_status,
        )
        self._balancer = self._make_balancer()
        self._workers = HandlerWorkers(
            world=self.world,
            clock=self.clock,
            handlers=settings.endpoints,
            changed=self._ring,
            processes=settings.handler_processes,
        )
        self._processes = self._make_processes(settings.command, worker_output) if settings.command else None
        unserved = UnservedAnswer(self._takes, wire, self.clock, notes=self._notes, scale=self._scale)
        app: ASGIApp = RouteTable([route for group in self._route_groups() for route in group], unserved.answer)
        self.app = app if settings.time_scale == 1.0 else announced(app, settings.time_scale)
        self._bell = anyio.Event()
        self._sleeps_until: float = math.inf

    def _make_account(self, wire: Wire, rng: random.Random, access: CallerAccess) -> AccountInterfaces:
        settings = self._settings
        return AccountInterfaces(
            keys=self._callers,
            caller=self._caller,
            access=access,
            pods=lambda: self.pods,
            notes=self._notes,
            strict=settings.strict,
            pages=Pages(settings.page_size),
            without=settings.without,
            clock=self.clock,
            rng=rng,
            wire=wire,
            scale=self._scale,
            template_release_s=settings.template_release_s,
            propagation_s=settings.propagation_s,
            gpus=settings.gpus,
            deployed=self._deployed,
            removed=self._removed,
            workers=self._workers_of,
        )

    def _make_pods(self, wire: Wire, rng: random.Random, access: CallerAccess) -> PodApi:
        own = self._settings.pods
        return PodApi(
            msgspec.structs.replace(
                own,
                page_max=min(own.page_max, self._settings.page_size),
                strict=own.strict or self._settings.strict,
            ),
            access=access,
            templates=AccountTemplates(self.account.templates),
            clock=self.clock,
            rng=rng,
            wire=wire,
            scale=self._scale,
        )

    def _takes(self, key: str) -> bool:
        """Whether the key, which is not empty, is taken."""
        return self._callers is None or key in self._callers

    def _caller(self, key: str) -> Caller:
        """Whom the key, which is taken, stands for."""
        return Caller() if self._callers is None else self._callers[key]

    def _permits(self, key: str, scope: str) -> bool:
        """Whether the key, which is taken, has the permission."""
        return scope in self._caller(key).scopes

    def _make_gate(self, wire: Wire) -> Gate:
        settings = self._settings
        any_endpoint = [ANY_ENDPOINT] if settings.command or settings.any_endpoint else []
        return Gate(
            endpoints=(*settings.endpoints, *self._named_balancers(), *any_endpoint),
            keys=self._callers,
            permits=self._permits,
            limits=settings.limits,
            algorithm=settings.algorithm,
            retry_after=settings.retry_after,
            wire=wire,
            scale=self._scale,
            exists=self.account.endpoints.serves,
            propagates=self.account.endpoints.propagates,
            balances=self._balances,
            dynamic_limit=None if settings.requests_per_worker is None else self._dynamic_limit,
        )

    def _make_balancer(self) -> LoadBalancer:
        return LoadBalancer(
            self._settings.http_endpoints,
            fleet=self.world.fleet,
            gate=self.gate,
            clock=self.clock,
            changed=self._ring,
            scale=self._scale,
        )

    def serve_workers_at(self, origin: str) -> None:
        """Worker processes reach this emulator at `http://HOST:PORT`; to be told before `serve` if there are any."""
        if self._processes is not None:
            self._processes.origin = origin

    def deploy(self, endpoint: str, scaling: Scaling, execution_timeout_us: int | None = None) -> None:
        """From now on, the endpoint scales like this; its workers start when it is time. The time-out is for jobs whose
        policy has none.
        """
        announced = not self._has_server(endpoint)
        scaling = scaling if not announced or self._runs_processes(endpoint) else fixed(0)
        self.world.deploy(endpoint, scaling, announced=announced, execution_timeout_us=execution_timeout_us)
        self._ring()

    def _deployed(self, endpoint: ServiceEndpoint) -> None:
        """An endpoint was created or changed; while none of its GPU types is available, no worker can start."""
        has_gpu = self.account.endpoints.gpu_of(endpoint.id) is not None
        scaling = Scaling(
            workers_min=endpoint.workers_min if has_gpu else 0,
            workers_max=endpoint.workers_max if has_gpu else 0,
            idle_timeout_s=endpoint.idle_timeout,
            scaler=Scaler(endpoint.scaler_type),
            scaler_value=endpoint.scaler_value,
            cold_start_s=self._settings.scaling.cold_start_s if self._settings.scaling else 0.0,
        )
        self.deploy(endpoint.id, scaling, endpoint.execution_timeout_ms * MILLISECOND_US)

    def _removed(self, endpoint: str) -> None:
        self.world.close(endpoint)
        self._ring()

    def _workers_of(self, endpoint: str) -> Sequence[WorkerView]:
        return self.world.fleet(endpoint).views()

    def stats(self, jobs_max: int = JOBS_MAX) -> Stats:
        """The figures of `/emulator/stats`."""
        return stats(
            world=self.world,
            gate=self.gate,
            dice=self.dice,
            webhooks=self.webhooks,
            interfaces={
                "pods": self._pod_api.front,
                "rest": self.account.api.rest,
                "rest_v2": self.account.rest_v2.front,
                "graphql": self.account.api.graphql,
            },
            now=self.clock.now(),
            jobs_max=jobs_max,
        )

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run workers and webhooks, and let time pass in the world, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.webhooks.serve)
            await tasks.start(self._workers.serve)
            await tasks.start(self._balancer.serve)
            if self._processes is not None:
                await tasks.start(self._processes.serve)
            task_status.started()
            await self._keep_time()

    def _route_groups(self) -> list[list[Route]]:
        """The routes of each interface."""
        settings = self._settings
        jobs = JobApi(
            world=self.world,
            gate=self.gate,
            clock=self.clock,
            body_bytes_max=settings.body_bytes_max,
            changed=self._operated,
            waits=self._waits,
            scale=self._scale,
            queue_per_worker=settings.queue_per_worker,
            stream_wait_ms=settings.stream_wait_ms,
        )
        openai = OpenAiApi(
            world=self.world,
            gate=self.gate,
            clock=self.clock,
            waits=self._waits,
            changed=self._operated,
            scale=self._scale,
        )
        return [
            job_routes(jobs),
            openai.routes(),
            self._balancer.routes(),
            self._worker_api.routes(),
            StatsApi(self.stats).routes(),
            self.account.routes,
            self._pod_api.routes(),
            PodEvents(self.pods, self.clock).routes(),
        ]

    def _make_processes(self, command: tuple[str, ...], output: int) -> WorkerProcesses:
        return WorkerProcesses(
            command,
            world=self.world,
            api=self._worker_api,
            clock=self.clock,
            scale=self._scale,
            key=next(iter(self._callers or ()), WORKER_KEY),
            ping_interval_s=self._settings.ping_interval_s,
            environment=self.account.endpoints.environment_of,
            changed=self._ring,
            listen_grace_s=self._settings.listen_grace_s,
            output=output,
        )

    def _scaling_of(self, endpoint: str) -> tuple[Scaling, bool]:
        """How an endpoint scales that nobody has deployed, and whether its workers announce themselves."""
        scaling = self._settings.scaling or fixed(self._settings.workers)
        if self._balances(endpoint):
            scaling = msgspec.structs.replace(scaling, scaler=Scaler.REQUEST_COUNT)
        if self._has_server(endpoint):
            return scaling, False
        return (scaling if self._runs_processes(endpoint) else fixed(0)), True

    def _has_server(self, endpoint: str) -> bool:
        """Whether the workers of the endpoint are ours: a handler, or the application of a load balancing one."""
        if self._balances(endpoint):
            return self._balancer.application(endpoint) is not None
        return endpoint in self._settings.endpoints or ANY_ENDPOINT in self._settings.endpoints

    def _runs_processes(self, endpoint: str) -> bool:
        return self._settings.command is not None and not self._balances(endpoint)

    def _named_balancers(self) -> Collection[str]:
        return self._settings.http_endpoints.keys() - {ANY_ENDPOINT}

    def _balances(self, endpoint: str) -> bool:
        return endpoint in self._named_balancers() or self.account.endpoints.balances(endpoint)

    def _dynamic_limit(self, endpoint: str) -> int:
        return self.world.fleet(endpoint).running() * (self._settings.requests_per_worker or 0)

    async def _keep_time(self) -> None:
        while True:
            self._bell = anyio.Event()
            now = self.clock.now()
            self._act(self.world.step(now))
            due = self.world.next_due()
            self._sleeps_until = math.inf if due is None else due
            with anyio.move_on_after((self._sleeps_until - now) / SECOND_US / self._scale):
                await self._bell.wait()

    def _act(self, due: Due) -> None:
        for execution in due.stopped:
            self._workers.stop(execution)
            told = self._worker_api.stop(execution)
            if told is not None and self._processes is not None:
                self._processes.expect_to_listen(*told)
        for webhook in due.webhooks:
            self.webhooks.send(webhook)
        self._waits.notify(due.changed)
        if self._processes is not None:
            for endpoint, worker_id in due.started:
                if self._runs_processes(endpoint):
                    self._processes.start(endpoint, worker_id)
            for endpoint, worker_id in due.stopping:
                self._processes.stop(endpoint, worker_id)
        for endpoint in due.queued:
            self._wake(endpoint)

    def _operated(self, endpoint: str) -> None:
        self._wake(endpoint)
        self._ring()

    def _wake(self, endpoint: str) -> None:
        self._workers.wake(endpoint)
        self._worker_api.wake(endpoint)
        self._balancer.wake(endpoint)

    def _ring(self) -> None:
        """End the sleep early if something is due before its end."""
        due = self.world.next_due()
        if due is not None and due < self._sleeps_until:
            self._bell.set()
