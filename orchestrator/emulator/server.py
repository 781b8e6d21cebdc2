"""The emulator as a whole: its settings, and the parts joined together.

`Emulator.app` can be called in-process or served with `listen`; `Emulator.serve` must run beside it, for it moves time
on: workers, time-outs, retention and webhooks.

    emulator = Emulator(EmulatorSettings(endpoints={"*": load_handler("handler.py:handler")}), clock=clock, rng=rng)
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulator.serve)
        await tasks.start(listen, emulator.app, bind("127.0.0.1", 8000))
        emulator.dice.faults = Faults(lost_answer=0.02)  # at any time
"""

import random
import subprocess

import anyio
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from orchestrator.clock import Clock
from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account_api.all_interfaces import AccountInterfaces
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.contract.faults import FaultDice
from orchestrator.emulator.contract.limits import OperationMeters
from orchestrator.emulator.emulator_settings import EmulatorSettings, callers_of
from orchestrator.emulator.endpoint_kinds import EndpointKinds
from orchestrator.emulator.http.delivery import AnswerDelivery, announced
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.job_api.job_interfaces import JobInterfaces
from orchestrator.emulator.job_api.live_world import LiveWorld, ScaledClock
from orchestrator.emulator.job_api.routes import RouteTable
from orchestrator.emulator.job_api.webhook_delivery import Deliver, WebhookDelivery
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.jobs.world import Due, World
from orchestrator.emulator.stats import JOBS_MAX, Stats, StatsApi, stats
from orchestrator.emulator.workforce import Workforce
from orchestrator.units import MILLISECOND_US, SECOND_US

PINGS_MISSED = 4
"""A worker is silent for at least so many pings before the service gives it up, however fast time runs."""

WORKER_KEY = "emulator"
"""The key of worker processes where any key will do."""


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
        self.clock: Clock = clock if settings.time_scale == 1.0 else ScaledClock(clock, settings.time_scale)
        self.dice = FaultDice(settings.faults, rng, since=self.clock.now())
        wire = Wire(self.dice, settings.error_bodies)
        callers = callers_of(settings)
        access = CallerAccess(callers, settings.pods.quotas, scale=settings.time_scale)
        self.account = self._make_account(rng)
        self.account.pods.dice = self.dice
        self._interfaces = AccountInterfaces(
            self.account,
            access,
            AnswerDelivery(wire, self.clock, settings.time_scale),
            page_size=settings.page_size,
            without=settings.without,
            strict=settings.strict,
        )
        self._kinds = EndpointKinds(settings, self.account.endpoints)
        self.world = self._make_world(rng)
        self._live = LiveWorld(self.world, self.clock, settings.time_scale)
        self.gate = self._make_gate(wire, access)
        self.webhooks = WebhookDelivery(
            deliver,
            delays_s=[delay / settings.time_scale for delay in settings.webhook_delays_s],
            timeout_s=settings.webhook_timeout_s,
            concurrency=settings.webhook_concurrency,
            success=settings.webhook_success,
        )
        self._workforce = Workforce(
            settings,
            self._live,
            kinds=self._kinds,
            gate=self.gate,
            pods=self.account.pods,
            key=next(iter(callers or ()), WORKER_KEY),
            template=self.account.endpoints.environment_of,
            output=worker_output,
        )
        self._jobs = JobInterfaces(
            self._live,
            self.gate,
            settings.batch,
            changed=self._workforce.operated,
            body_bytes_max=settings.body_bytes_max,
            queue_per_worker=settings.queue_per_worker,
            stream_wait_ms=settings.stream_wait_ms,
        )
        self.app = self._make_app()

    def _make_account(self, rng: random.Random) -> Account:
        settings = self._settings
        return Account(
            rng,
            pods=settings.pods_as_served,
            template_release_s=settings.template_release_s,
            propagation_s=settings.propagation_s,
            gpus=settings.gpus,
            deployed=lambda endpoint: self.deploy(
                endpoint.id, self._kinds.scaling_of(endpoint), endpoint.execution_timeout_ms * MILLISECOND_US
            ),
            removed=self._removed,
            workers=lambda endpoint: self.world.endpoints.fleet(endpoint).views(),
        )

    def _make_world(self, rng: random.Random) -> World:
        settings = self._settings
        silence_s = max(settings.silence_s, PINGS_MISSED * settings.ping_interval_s * settings.time_scale)
        return World(
            scaling=self._kinds.default_scaling,
            retention_us=round(settings.retention_s * SECOND_US),
            sync_retention_us=round(settings.sync_retention_s * SECOND_US),
            silence_us=round(silence_s * SECOND_US),
            service_retries=settings.service_retries,
            dice=self.dice,
            rng=rng,
        )

    def _make_gate(self, wire: Wire, access: CallerAccess) -> Gate:
        settings = self._settings
        return Gate(
            endpoints=self._kinds,
            access=access,
            meters=OperationMeters(
                settings.limits,
                settings.algorithm,
                retry_after=settings.retry_after,
                scale=settings.time_scale,
                dynamic_limit=None if settings.requests_per_worker is None else self._dynamic_limit,
            ),
            wire=wire,
        )

    def _make_app(self) -> ASGIApp:
        settings = self._settings
        routes = [
            *self._jobs.routes,
            *self._workforce.routes(),
            *StatsApi(self.stats).routes(),
            *self._interfaces.routes,
        ]
        app = RouteTable(routes, self._interfaces.unserved.answer)
        return app if settings.time_scale == 1.0 else announced(app, settings.time_scale)

    def serve_workers_at(self, origin: str) -> None:
        """Worker processes reach this emulator at `http://HOST:PORT`; to be told before `serve` if there are any."""
        if self._workforce.processes is not None:
            self._workforce.processes.origin = origin

    def deploy(self, endpoint: str, scaling: Scaling, execution_timeout_us: int | None = None) -> None:
        """From now on, the endpoint scales like this; its workers start when it is time. The time-out is for jobs whose
        policy has none.
        """
        scaling, announced = self._kinds.startable(endpoint, scaling)
        self.world.endpoints.deploy(endpoint, scaling, announced=announced, execution_timeout_us=execution_timeout_us)
        self._live.ring()

    def _removed(self, endpoint: str) -> None:
        self.world.close(endpoint)
        self._jobs.batches.close(endpoint)
        self._live.ring()

    def _dynamic_limit(self, endpoint: str) -> int:
        return self.world.endpoints.fleet(endpoint).running() * (self._settings.requests_per_worker or 0)

    def stats(self, jobs_max: int = JOBS_MAX) -> Stats:
        """The figures of `/emulator/stats`."""
        return stats(
            world=self.world,
            gate=self.gate,
            dice=self.dice,
            webhooks=self.webhooks,
            interfaces=self._interfaces.fronts,
            now=self.clock.now(),
            jobs_max=jobs_max,
            batch_price_share=self._settings.batch.price_share,
        )

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run workers and webhooks, and let time pass in the world, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.webhooks.serve)
            await self._workforce.start(tasks)
            task_status.started()
            await self._live.run(self._carry_out)

    def _carry_out(self, due: Due) -> None:
        for webhook in due.webhooks:
            self.webhooks.send(webhook)
        self._workforce.carry_out(due)
