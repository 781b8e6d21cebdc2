"""The pods of a simulated world, in whose place the first run has an endpoint: the emulator's own, with its faults.

What listens in a pod is an endpoint of the simulated service that is there as long as the pod runs. When it runs no
more, what it had is gone, and nobody is answered.
"""

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import Context, copy_context
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
import msgspec
from anyio.abc import TaskGroup

from orchestrator.core.pods.pod_template import PodTemplate, WhenDone
from orchestrator.emulator.account.pod_records import COMPUTING
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US
from tests.simulation.clock import VirtualClock
from tests.simulation.loop import running_loop
from tests.simulation.plan import Plan, PodsPlan
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL, SimulatedService

PLACE = "pods:vllm"
PORT = 8000
CALLER = "user"
OF_ACCOUNT = {
    "name": "vllm-l4",
    "imageName": "me/vllm:1",
    "containerDiskInGb": 20,
    "volumeInGb": 0,
    "ports": f"{PORT}/http",
}
LATE_S_MAX = 90.0
"""So late may what was asked for be done whose answer is lost: a good while less than it is in doubt."""

LOOK_S = 5.0
"""How often somebody looks at them who keeps the books of the world."""

_OPEN = "SELECT name, run, state FROM pod_leases WHERE state <> 'ended'"


def pod_template(plan: PodsPlan) -> PodTemplate:
    """What the pods of a run are made of."""
    return PodTemplate(
        name=PLACE.removeprefix("pods:"),
        template="vllm-l4",
        port=PORT,
        gpu="NVIDIA L4",
        url=f"{URL}/v2/{{pod}}/openai",
        when_done=WhenDone.STOP if plan.stops else WhenDone.TERMINATE,
        ready_within_us=round(plan.ready_within_s * SECOND_US),
    )


class _Named(msgspec.Struct):
    name: str = ""
    action: str = ""


class PodSight(NamedTuple):
    """How a pod was at a time of the true clock."""

    at: int
    name: str
    is_paid: bool
    is_busy: bool


class SimulatedPods:
    """Of one world. `ledger` is what the program knows of them."""

    def __init__(
        self, plan: PodsPlan, world: Plan, service: SimulatedService, clock: VirtualClock, ledger: Path
    ) -> None:
        self._plan = plan
        self._service = service
        self._clock = clock
        self._ledger = ledger
        settings = PodSettings(
            provisioning_s=plan.provisioning_s, starting_s=2.0, booting_s=plan.booting_s, capacity=plan.capacity
        )
        self._emulator = Emulator(
            EmulatorSettings(pods=settings, faults=plan.faults), clock=clock, rng=random.Random(f"pods {world.seed}")
        )
        self._emulator.account.templates.save(OF_ACCOUNT)
        self._world = self._emulator.account.pods
        self._world.on_stop = self._stopped
        self._way = SimulatedTransport(self._emulator.app, cut=ConnectionCut)
        self._under_way: defaultdict[str, dict[anyio.CancelScope, Context]] = defaultdict(dict)
        """What is at which pod, each with the part of the world that waits for it."""

        self._late = random.Random(f"late pods {world.seed}")
        self._is_calm = False
        self._tasks: TaskGroup
        self._outside: Context
        self.sights: list[PodSight] = []
        """All of them, in their order."""

        self.unknown: list[str] = []
        """The pods that were asked for, and of which the ledger did not know at that time."""

        self.too_many: list[str] = []
        """The pods that were asked for beyond what their run wanted, each with how many it has."""

        self.given_up: list[str] = []
        """The pods that came late, and of which the ledger knew nothing any more."""

    def calm(self) -> None:
        """Faults are over: what is stuck stays so."""
        self._emulator.dice.faults = Faults()
        self._is_calm = True

    async def live(self) -> None:
        """Keeps the books, and does what is asked for late, until cancelled."""
        self._outside = copy_context()
        async with anyio.create_task_group() as self._tasks:
            while True:
                now = self._clock.now()
                for pod in self._world.list(CALLER, now):
                    is_busy = bool(self._under_way.get(pod.id))
                    self.sights.append(PodSight(now, pod.name, pod.status in COMPUTING, is_busy))
                await anyio.sleep(LOOK_S)

    @property
    def paid(self) -> list[str]:
        """The names of those that compute."""
        return [pod.name for pod in self._world.list(CALLER, self._clock.now()) if pod.status in COMPUTING]

    @property
    def left(self) -> list[str]:
        """The names of all."""
        return [pod.name for pod in self._world.list(CALLER, self._clock.now())]

    def is_known(self, name: str) -> bool:
        """Whether the ledger knows that it may be paid."""
        return name in self._open()

    # --- requests

    def is_account(self, request: httpx.Request) -> bool:
        """Whether a request is about pods, and not to one."""
        return request.url.path.startswith(("/v2/pods", "/v2/templates"))

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """What the account says; what is asked for must be in the ledger by then."""
        asked = msgspec.json.decode(request.content or b"{}", type=_Named)
        if request.method == "POST" and asked.action in ("", "start"):
            named = asked.name or self._name_of(request.url.path.split("/")[3])
            self._is_asked_for(named)
            if not self._is_calm and self._late.random() < self._plan.late_share:
                self._outside.run(self._tasks.start_soon, self._do_late, request, named)
                raise Unanswered("the account cut the connection")
        return await self._way.handle_async_request(request)

    async def _do_late(self, request: httpx.Request, named: str) -> None:
        await anyio.sleep(self._late.uniform(0, LATE_S_MAX))
        if not self.is_known(named):
            self.given_up.append(named)
        with suppress(NotSent, Unanswered):
            await self._way.handle_async_request(request)

    def instead(self, endpoint: str) -> httpx.Response | None:
        """What the proxy says of a pod that takes no request; None where it takes it, or where that is no pod."""
        if endpoint in self._service.endpoints:
            return None
        listens = self._world.listens(endpoint, PORT, self._clock.now())
        if listens:
            self._service.open(endpoint, self._plan.workers)
            return None
        return httpx.Response(HTTPStatus.NOT_FOUND if listens is None else HTTPStatus.BAD_GATEWAY, text="no pod")

    @contextmanager
    def while_up(self, endpoint: str) -> Iterator[None]:
        """A request is at that pod: it has no answer once the pod runs no more."""
        with anyio.CancelScope() as scope:
            self._under_way[endpoint][scope] = copy_context()
            try:
                yield
            finally:
                self._under_way[endpoint].pop(scope, None)
        if scope.cancelled_caught:
            raise Unanswered("the pod runs no more")

    # --- how it is done

    def _stopped(self, pod: str) -> None:
        self._service.shut(pod)
        for scope, context in self._under_way.pop(pod, {}).items():
            running_loop().call_soon(scope.cancel, context=context)  # who is dead cannot be cancelled

    def _name_of(self, pod: str) -> str:
        return next((each.name for each in self._world.list(CALLER, self._clock.now()) if each.id == pod), "")

    def _is_asked_for(self, name: str) -> None:
        """Whoever asks has it in the ledger, and as many pods of its run are there, with it, as are wanted."""
        leases = self._open()
        if name not in leases:
            self.unknown.append(name)
            return
        run, _ = leases[name]
        there = [
            each
            for each in self.paid
            if each != name and _is_of_same(each, name) and leases.get(each, (run, ""))[1] != "ending"
        ]
        if len(there) >= max(self._plan.counts):
            self.too_many.append(f"{name}, beside {', '.join(there)}")

    def _open(self) -> dict[str, tuple[int, str]]:
        """The run and the state of each lease of which something may be paid, by its name."""
        with closing(sqlite3.connect(self._ledger)) as db:
            return {name: (run, state) for name, run, state in db.execute(_OPEN)}


def _is_of_same(pod: str, other: str) -> bool:
    """Whether these are of one run."""
    return pod.rpartition("-")[0] == other.rpartition("-")[0]
