"""A service that counts requests in one of five ways, in a process of its own, far enough away for round trips.

    python -m tests.limits.server BEHAVIOUR

`BEHAVIOUR` is a `Behaviour` as JSON. The process prints the port that it listens on, serves until its standard input
ends, and then prints what it saw, a list of `Observed` as JSON. Each endpoint id is the name of a way to count; the
counters are the emulator's.
"""

import asyncio
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from orchestrator.emulator.contract.rate_counters import Algorithm, counter
from tests.benchmarks.stand_in import Messages, response

_US: Final = 1_000_000
_ACCEPTED: Final = response(200, b'{"id":"job-1","status":"IN_QUEUE"}')
_REFUSED: Final = response(429, b'{"error":"rate limit exceeded"}')


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the service is to behave: its limits by operation (requests, concurrent) and how far away it is."""

    limits: dict[str, tuple[int, int]]
    window_s: float
    round_trip_ms: tuple[float, float]


class Observed(msgspec.Struct, kw_only=True):
    """What one operation of one endpoint saw. Times are seconds since the service's start."""

    endpoint: str
    operation: str
    accepted: list[float] = []
    """When each request was counted."""

    refused: int = 0
    concurrent: int = 0
    concurrent_max: int = 0

    def window_max(self, window_s: float) -> int:
        """The most requests in any window, wherever it begins."""
        window: deque[float] = deque()
        most = 0
        for at in self.accepted:
            window.append(at)
            while window[0] <= at - window_s:
                window.popleft()
            most = max(most, len(window))
        return most


class Meter:
    """Counts the requests of one operation of one endpoint."""

    def __init__(self, endpoint: str, operation: str, behaviour: Behaviour) -> None:
        requests, self._concurrent = behaviour.limits[operation]
        self._counter = counter(Algorithm(endpoint), requests, round(behaviour.window_s * _US))
        self.seen = Observed(endpoint=endpoint, operation=operation)

    def count(self, now: float) -> bytes:
        """The answer to a request that is counted now; it stays open until `close`."""
        seen = self.seen
        seen.concurrent += 1
        seen.concurrent_max = max(seen.concurrent_max, seen.concurrent)
        if seen.concurrent > self._concurrent or not self._counter.admit(round(now * _US)):
            seen.refused += 1
            return _REFUSED
        seen.accepted.append(now)
        return _ACCEPTED

    def close(self) -> None:
        """The answer is on its way."""
        self.seen.concurrent -= 1


class Service:
    """What all connections share."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._loop = asyncio.get_running_loop()
        self._chance = random.Random(1)
        self._started = time.perf_counter()
        self.meters: dict[tuple[str, str], Meter] = {}

    def take(self, head: bytes, write: Callable[[bytes], None]) -> None:
        """A request has arrived. The round trip is drawn, and where in it the request is counted."""
        _, _, endpoint, operation, *_ = head.split(b" ", 2)[1].decode().split("/")
        key = endpoint, operation
        meter = self.meters.get(key)
        if meter is None:
            meter = self.meters[key] = Meter(endpoint, operation, self._behaviour)
        trip_s = self._chance.uniform(*self._behaviour.round_trip_ms) / 1000
        there_s = self._chance.random() * trip_s
        self._loop.call_later(there_s, self._count, meter, trip_s - there_s, write)

    def _count(self, meter: Meter, back_s: float, write: Callable[[bytes], None]) -> None:
        answer = meter.count(time.perf_counter() - self._started)
        self._loop.call_later(back_s, self._answer, meter, answer, write)

    def _answer(self, meter: Meter, answer: bytes, write: Callable[[bytes], None]) -> None:
        meter.close()
        write(answer)


class Connection(Messages):
    """A client's connection."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    def message(self, head: bytes, body: bytes) -> None:
        self._service.take(head, self._write)

    def _write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)


async def serve(behaviour: Behaviour) -> list[Observed]:
    """Serves until standard input ends."""
    loop, ended = asyncio.get_running_loop(), anyio.Event()
    service = Service(behaviour)
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0, backlog=1024)
    loop.add_reader(sys.stdin.fileno(), ended.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()
    return [meter.seen for meter in service.meters.values()]


def main() -> None:
    """The process. It has asyncio's own loop, whose timers are finer than a millisecond."""
    observed = anyio.run(serve, msgspec.json.decode(sys.argv[1], type=Behaviour))
    sys.stdout.buffer.write(msgspec.json.encode(observed))


if __name__ == "__main__":
    main()
