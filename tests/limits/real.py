"""The real client at full speed against a server process that counts, and what came of it."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.client import Service
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.emulator.contract.rate_counters import Algorithm
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


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A server process of its own: its limits, its distance, and an endpoint for each way of counting."""

    trips: RoundTrips
    limits: Mapping[Operation, Limit]
    algorithms: Sequence[Algorithm] = tuple(Algorithm)

    @property
    def behaviour(self) -> Behaviour:
        """What the server is told. All of its windows last equally long."""
        limits = {
            name.value: (limit.requests, limit.concurrent or limit.requests) for name, limit in self.limits.items()
        }
        window_s = next(iter(self.limits.values())).window_s
        trips = self.trips
        return Behaviour(limits=limits, window_s=window_s, round_trip_ms=(trips.least_ms, trips.most_ms))


def measure(
    trips: RoundTrips,
    limits: Mapping[Operation, Limit],
    *,
    windows: int,
    algorithms: Sequence[Algorithm] = tuple(Algorithm),
) -> list[Use]:
    """Sends for `windows` windows as fast as the client allows, to an endpoint for each algorithm, all at once."""
    case = Case(trips=trips, limits=limits, algorithms=algorithms)
    return measure_together([case], seconds=windows * case.behaviour.window_s)[0]


def measure_together(cases: Sequence[Case], *, seconds: float) -> list[list[Use]]:
    """Sends to the servers of all `cases` at once, from one process; what came of each case."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_server(case.behaviour)) for case in cases]
        sendings = []
        for case, server in zip(cases, servers, strict=True):
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            sendings.append(_Sending(url, case, seconds))

        async def send() -> None:
            async with anyio.create_task_group() as group:
                for sending in sendings:
                    group.start_soon(sending.everywhere)

        anyio.run(send, backend_options={"use_uvloop": find_spec("uvloop") is not None})
        told = [server.communicate(timeout=STOP_S_MAX)[0] for server in servers]
    return [
        [_use(seen, case.limits, seconds) for seen in msgspec.json.decode(each, type=list[Observed])]
        for case, each in zip(cases, told, strict=True)
    ]


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

    def __init__(self, url: str, case: Case, seconds: float) -> None:
        self._url = url
        self._case = case
        self._seconds = seconds

    async def everywhere(self) -> None:
        limits = self._case.limits
        async with (
            Service(self._url, "key-of-the-measurement", limits=limits, trust_env=False) as service,
            anyio.create_task_group() as group,
        ):
            for algorithm in self._case.algorithms:
                for operation in limits:
                    group.start_soon(self._saturate, service, algorithm, operation)

    async def _saturate(self, service: Service, algorithm: Algorithm, operation: Operation) -> None:
        """Takes turn after turn; each request goes on beside the next."""
        api = service.endpoint(algorithm.value).api

        async with anyio.create_task_group() as task_pool:
            with anyio.move_on_after(self._seconds * 1.02):
                while True:
                    permit = await api.limiter.permit(operation)
                    if operation is Operation.RUN:
                        task_pool.start_soon(api.run, permit, _BODY)
                    else:
                        task_pool.start_soon(api.status, permit, "job-1")


@contextmanager
def _server(behaviour: Behaviour) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.limits.server", msgspec.json.encode(behaviour).decode()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
