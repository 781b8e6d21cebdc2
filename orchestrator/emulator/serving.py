"""A whole emulator on a port, in one line: for tests of whatever talks to the service.

async with emulator.serve(handler=my_handler) as service:
    os.environ.update(service.environment())
"""

import random
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from orchestrator.clock import Clock, SystemClock
from orchestrator.emulator.emulator_settings import EmulatorSettings, callers_of
from orchestrator.emulator.http.gate import ANY_ENDPOINT
from orchestrator.emulator.http.listen import bind, listen
from orchestrator.emulator.http.webhook_post import post
from orchestrator.emulator.job_api.webhook_delivery import Deliver
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import Handler

ANY_KEY = "emulator-takes-any-key"
"""The key to use where any will do; no common word, which a client that hides its key would hide in paths, too."""


ENDPOINT = "any"
"""The endpoint of programs that speak to a single one, where none has a name."""

_ORIGINS = ("RUNPOD_API_BASE_URL", "RUNPOD_HAPI_URL", "RUNPOD_CONSOLE_URL")
_GRAPHQL = ("RUNPOD_GRAPHQL_URL", "RUNPOD_AUTHED_GRAPHQL_URL")
_V1 = ("RUNPOD_API_URL", "RUNPOD_REST_API_URL", "RUNPOD_BASE_URL")
_V2 = (
    *("RUNPOD_ENDPOINT_BASE_URL", "RUNPOD_INVOKE_URL", "RUNPOD_SERVERLESS_API_URL"),
    *("RUNPOD_REST_V2_URL", "RUNPOD_REST_V2_API_URL"),
)
"""The variables of the official tools by what they take, so that none of them reaches the real service by accident."""


class ServedEmulator:
    """An emulator and where it is reached. `emulator` is the thing itself: its faults, figures and world."""

    def __init__(self, emulator: Emulator, origin: str, key: str, endpoint: str = ENDPOINT) -> None:
        """`endpoint` is the one that programs reach who speak to a single one."""
        self.emulator = emulator
        self._endpoint = endpoint
        self.origin = origin
        """`http://HOST:PORT`."""
        self.key = key
        """A key that is taken."""

    @property
    def urls(self) -> Mapping[str, str]:
        """The four URLs of the contract, all of one origin."""
        return {
            "serverless_url": self.origin,
            "rest_url": self.origin,
            "base_url": self.origin,
            "graphql_url": f"{self.origin}/graphql",
        }

    def environment(self) -> Mapping[str, str]:
        """What to set so that our client and the official tools use this emulator (as observed)."""
        return {
            "ORCHESTRATOR_SERVERLESS_URL": self.origin,
            "ORCHESTRATOR_REST_URL": self.origin,
            "ORCHESTRATOR_BASE_URL": self.origin,
            "ORCHESTRATOR_GRAPHQL_URL": f"{self.origin}/graphql",
            "ORCHESTRATOR_API_KEY": self.key,
            "ORCHESTRATOR_PROFILE": "",  # one would win over these
            **dict.fromkeys(("RUNPOD_API_KEY", "OPENAI_API_KEY"), self.key),
            **dict.fromkeys(_ORIGINS, self.origin),
            **dict.fromkeys(_GRAPHQL, f"{self.origin}/graphql"),
            "RUNPOD_PUBLIC_GRAPHQL_URL": f"{self.origin}/graphql/public",
            **dict.fromkeys(_V1, f"{self.origin}/v1"),
            **dict.fromkeys(_V2, f"{self.origin}/v2"),
            "OPENAI_BASE_URL": f"{self.origin}/v2/{self._endpoint}/openai/v1",
        }


@asynccontextmanager
async def serve(handler: Handler | None = None, **options: Any) -> AsyncIterator[ServedEmulator]:
    """Serve an emulator on a port until the block ends.

    `handler` serves every endpoint id. `options` are those of `serve_emulator` and the fields of `EmulatorSettings`.
    Raises UsageError for a port that cannot be used.
    """
    own = {name: options.pop(name) for name in SERVING_OPTIONS & options.keys()}
    if handler is not None:
        options["endpoints"] = {**options.get("endpoints", {}), ANY_ENDPOINT: handler}
    async with serve_emulator(EmulatorSettings(**options), **own) as service:
        yield service


SERVING_OPTIONS = frozenset({"host", "port", "seed", "clock", "deliver", "worker_output"})


@asynccontextmanager
async def serve_emulator(
    settings: EmulatorSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int | None = None,
    clock: Clock | None = None,
    deliver: Deliver | None = post,
    worker_output: int = subprocess.DEVNULL,
) -> AsyncIterator[ServedEmulator]:
    """The same with settings. Port 0 is any free one; a `seed` makes ids and faults the same every time.

    `deliver` makes the HTTP calls of webhooks; with None they are dropped. `worker_output` is the file descriptor
    that worker processes write to.
    """
    emulator = Emulator(
        settings,
        clock=clock or SystemClock(),
        rng=random.Random(seed),  # noqa: S311
        deliver=deliver,
        worker_output=worker_output,
    )
    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    origin = f"http://{name}:{listening.getsockname()[1]}"
    emulator.serve_workers_at(origin)
    async with anyio.create_task_group() as tasks:
        await tasks.start(listen, emulator.app, listening)
        await tasks.start(emulator.serve)
        key = next(iter(callers_of(settings) or ()), ANY_KEY)
        endpoint = next((each for each in settings.endpoints if each != ANY_ENDPOINT), ENDPOINT)
        yield ServedEmulator(emulator, origin, key, endpoint)
        tasks.cancel_scope.cancel()
