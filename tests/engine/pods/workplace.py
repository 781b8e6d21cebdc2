"""An emulated account whose pods work for runs of one ledger, and a person who hears what is said."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.account.run_pods import RunPods
from orchestrator.api.admin.tidy import Tidied, tidy
from orchestrator.api.foreground.run import run as run_in_foreground
from orchestrator.client import Service
from orchestrator.core.lanes.via import Via
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.heartbeat import BEAT_S
from orchestrator.errors import NotSent, Unanswered, leading
from orchestrator.ledger import IntakeRight
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence
from tests.engine.process import SAMPLE_EVERY_S
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import run
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL

CONNECTION = ConnectionSettings(serverless_url=URL, rest_url=URL, api_key="key")
TEMPLATE = PodTemplate(name="vllm", template="vllm-l4", port=8000, gpu="NVIDIA L4", url=f"{URL}/proxy/{{pod}}-{{port}}")
OF_ACCOUNT = {
    "name": "vllm-l4",
    "imageName": "me/vllm:1",
    "containerDiskInGb": 20,
    "volumeInGb": 0,
    "ports": "8000/http,22/tcp",
}


class LyingTransport(httpx.AsyncBaseTransport):
    """A way to the service that loses answers, fails, or answers something else, as a test wants."""

    def __init__(self, way: httpx.AsyncBaseTransport) -> None:
        self._way = way
        self.before: Callable[[httpx.Request], Awaitable[httpx.Response | None]] | None = None
        """Answers in the place of the service, or lets the request go there."""

        self.after: Callable[[httpx.Request, httpx.Response], Awaitable[httpx.Response]] | None = None
        """What becomes of the service's answer."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.before is not None and (instead := await self.before(request)) is not None:
            return instead
        answer = await self._way.handle_async_request(request)
        return answer if self.after is None else await self.after(request, answer)


class Workplace:
    """`execution_s` is how long a request takes; each pod takes any number at once."""

    def __init__(self, folder: Path, execution_s: float = 2.0, **pods: Any) -> None:
        self.folder = folder
        empty_ledger(folder / "db")
        self.clock = VirtualClock()
        self.execution_s = execution_s
        self.executed: Counter[str] = Counter()
        """How often each row was executed."""

        self.emulator = Emulator(
            EmulatorSettings(
                pod_servers={
                    8000: Starlette(routes=[Route("/ping", self._ping), Route("/work", self._work, methods=["POST"])])
                },
                pods=PodSettings(**pods),
            ),
            clock=self.clock,
            rng=random.Random(1),
        )
        self.template = self.emulator.account.templates.save(OF_ACCOUNT)
        self.way = LyingTransport(SimulatedTransport(self.emulator.app, cut=ConnectionCut))
        self.console = Silence()
        self.more: dict[str, Any] = {}
        self.until_s = 0.0
        self.connect: Any = async_creator

    async def _ping(self, _request: Request) -> Response:
        return Response()

    async def _work(self, request: Request) -> Response:
        given = json.loads(await request.body())
        await anyio.sleep(self.execution_s)
        self.executed[str(given["n"])] += 1
        return JSONResponse({"double": 2 * given["n"]})

    # --- the account

    @property
    def pods(self) -> dict[str, str]:
        """The status of each pod there is, by its name."""
        return {pod.name: str(pod.status) for pod in self.emulator.account.pods.list("user", self.clock.now())}

    @property
    def running(self) -> list[str]:
        """The names of those that are paid."""
        return [name for name, status in self.pods.items() if status in ("PROVISIONING", "STARTING", "RUNNING")]

    def fail(self, name: str) -> None:
        """Something happens to the pod of that name."""
        world = self.emulator.account.pods
        [pod] = [pod.id for pod in world.list("user", self.clock.now()) if pod.name == name]
        world.fail(pod, self.clock.now())

    # --- the program

    @property
    def dependencies(self) -> Dependencies:
        return Dependencies(
            clock=self.clock,
            environ={},
            service=lambda connection, clock: Service(connection.serverless_url, "key", clock, transport=self.way),
            pods=RunPods,
            connect=self.connect,
            sample_every_s=SAMPLE_EVERY_S,
            say_every_s=BEAT_S,
            watch_every_s=BEAT_S,
            **self.more,
        )

    def request(self, jobs: int, name: str = "in", **settings: Any) -> RunRequest:
        source = self.folder / f"{name}.jsonl"
        source.write_text("".join(json.dumps({"input": {"n": n}}) + "\n" for n in range(jobs)))
        return RunRequest(
            name=name,
            source=str(source),
            endpoint="pods:vllm",
            ledger=self.folder / "db",
            connection=CONNECTION,
            settings=RunSettings(**{"via": Via.HTTP, "path": "/work", "pods": 2, "pod_template": TEMPLATE, **settings}),
        )

    async def carry_out(
        self, jobs: int = 40, *, name: str = "in", stop: anyio.Event | None = None, **settings: Any
    ) -> Summary:
        """A run of so many jobs, which wants two pods."""
        return await run_in_foreground(self.request(jobs, name, **settings), self.console, self.dependencies, stop)

    async def tidy(self) -> Tidied:
        """What a person does after a crash."""
        return await tidy(self.serving, self.dependencies)

    @property
    def serving(self) -> ServeRequest:
        return ServeRequest(ledger=self.folder / "db", connection=CONNECTION)

    def world(self, main: Callable[[], Any]) -> Any:
        """Runs `main` while the emulator serves, with a deadline far away; time goes on from the world before."""
        return run(lambda: self.served(main), start_s=self.until_s)

    async def served(self, main: Callable[[], Any]) -> Any:
        try:
            with anyio.fail_after(7_200):
                async with anyio.create_task_group() as tasks:
                    await tasks.start(self.emulator.serve)
                    came = await main()
                    self.until_s = anyio.current_time()
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise leading(group) from None
        return came


@asynccontextmanager
async def nobody_holds(*_: object, **__: object) -> AsyncIterator[IntakeRight]:
    """What a process that was killed held is free; here it would not be, for the process is the test's."""
    yield IntakeRight()


def is_create(request: httpx.Request) -> bool:
    return request.method == "POST" and request.url.path == "/v2/pods"


async def lost(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
    raise Unanswered("its answer was lost")


async def refused(_request: httpx.Request) -> httpx.Response:
    raise NotSent("the connection was refused")


def is_action(request: httpx.Request) -> bool:
    return request.method == "POST" and request.url.path.endswith("/action")


def is_list(request: httpx.Request) -> bool:
    return request.method == "GET" and request.url.path == "/v2/pods"


def is_show(request: httpx.Request) -> bool:
    return request.method == "GET" and request.url.path.startswith("/v2/pods/")


def is_ping(request: httpx.Request) -> bool:
    return request.url.path.endswith("/ping")


def is_template_list(request: httpx.Request) -> bool:
    return request.method == "GET" and request.url.path == "/v2/templates"
