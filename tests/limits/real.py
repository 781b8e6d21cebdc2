"""The real client at full speed against a server process that counts, and what came of it."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.client import Service
from orchestrator.core.pacing import Limit, Operation
from orchestrator.emulator.counters import Algorithm
from tests.limits.promise import RoundTrips
from tests.limits.server import Behaviour, Observed

ROOT: Final = Path(__file__).resolve().parents[2]
STOP_S_MAX: Final = 60.0
_BODY: Final = b'{"input":{}}'


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """How one operation was used under one way of counting."""

    algorithm: str
    operation: str
    percent: float
    """Requests that the server counted from the first one on, as a share of what the limit allows in that time."""

    refused: int
    """Answered 429."""

    window_max: int
    """The most requests in any window, wherever it begins."""

    concurrent_max: int


def measure(
    trips: RoundTrips,
    limits: Mapping[Operation, Limit],
    *,
    windows: int,
    algorithms: Sequence[Algorithm] = tuple(Algorithm),
) -> list[Use]:
    """Sends `/run` and `/status` for `windows` windows as fast as the client allows, to an endpoint for each algorithm.

    All endpoints are used at once, each with limits of its own.
    """
    window_s = limits[Operation.RUN].window_s
    behaviour = Behaviour(
        limits={
            operation.value: (limit.requests, limit.concurrent or limit.requests) for operation, limit in limits.items()
        },
        window_s=window_s,
        round_trip_ms=(trips.least_ms, trips.most_ms),
    )
    seconds = windows * window_s
    with _server(behaviour) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        sending = _Sending(url, limits, seconds)
        options = {"use_uvloop": find_spec("uvloop") is not None}
        anyio.run(sending.everywhere, algorithms, backend_options=options)
        told, _ = server.communicate(timeout=STOP_S_MAX)
    return [_use(seen, limits, seconds) for seen in msgspec.json.decode(told, type=list[Observed])]


def _use(seen: Observed, limits: Mapping[Operation, Limit], seconds: float) -> Use:
    limit = limits[Operation(seen.operation)]
    begun = seen.accepted[0] if seen.accepted else 0.0
    counted = sum(1 for at in seen.accepted if at < begun + seconds)
    return Use(
        algorithm=seen.endpoint,
        operation=seen.operation,
        percent=100 * counted / (limit.requests * seconds / limit.window_s),
        refused=seen.refused,
        window_max=seen.window_max(limit.window_s),
        concurrent_max=seen.concurrent_max,
    )


class _Sending:
    """The client's side. It goes on a little longer than is measured, until answers that are on their way are there."""

    def __init__(self, url: str, limits: Mapping[Operation, Limit], seconds: float) -> None:
        self._url = url
        self._limits = limits
        self._seconds = seconds

    async def everywhere(self, algorithms: Sequence[Algorithm]) -> None:
        async with (
            Service(self._url, "key-of-the-measurement", limits=self._limits, trust_env=False) as service,
            anyio.create_task_group() as group,
        ):
            for algorithm in algorithms:
                for operation in self._limits:
                    group.start_soon(self._saturate, service, algorithm, operation)

    async def _saturate(self, service: Service, algorithm: Algorithm, operation: Operation) -> None:
        """Takes turn after turn; each request goes on beside the next."""
        api = service.endpoint(algorithm.value).api

        async with anyio.create_task_group() as flights:
            with anyio.move_on_after(self._seconds * 1.02):
                while True:
                    turn = await api.turn(operation)
                    if operation is Operation.RUN:
                        flights.start_soon(api.run, turn, _BODY)
                    else:
                        flights.start_soon(api.status, turn, "job-1")


@contextmanager
def _server(behaviour: Behaviour) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.limits.server", msgspec.json.encode(behaviour).decode()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
