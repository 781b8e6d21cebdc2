"""What stands before and behind every operation of the job API: keys, unknown endpoints, limits, and the wire.

Pure: it decides what becomes of a request and of its answer; `routes` carries it out.
"""

import math
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus

from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import UNLIMITED, JobOperation, MeterFigures, OperationLimit, OperationMeter
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.http.wire import OutgoingAnswer, Wire, key_in

ANY_ENDPOINT = "*"
"""As the name of an endpoint: every id exists."""

SUBMITTING = frozenset({JobOperation.RUN, JobOperation.RUNSYNC, JobOperation.OPENAI, JobOperation.HTTP})

LOOKING = frozenset(
    {JobOperation.STATUS, JobOperation.STREAM, JobOperation.HEALTH, JobOperation.METRICS, JobOperation.REQUESTS}
)
"""What changes nothing; a key with the permission to read may do it."""

READING = "serverless:read"
WRITING = "serverless:write"

NO_QUEUE = "this is a load balancing endpoint: it has no queue, and takes requests at paths of its own"
NOT_YET = "endpoint not found: it was created a moment ago and is not reachable yet"


class Gate:
    """Lets requests in and answers out.

    `keys` None takes any key that is not empty. Endpoints are known by id, or all of them by `"*"`; besides, `exists`
    says whether one that was created is there by now, and `propagates` that it is not yet. `balances` says whether it
    is a load balancing one, which has no operations of jobs. `permits` says whether a key
    that is taken has a permission; one that has not is as wrong as an unknown one (contract, Authentication 2).
    `dynamic_limit` gives what an endpoint's running workers allow per window (contract, Limits, dynamic rule). `scale`
    is how fast the emulator's time runs: a sender is told to wait in seconds of its own.
    """

    def __init__(
        self,
        *,
        endpoints: Collection[str],
        keys: Collection[str] | None,
        limits: Mapping[JobOperation, OperationLimit],
        algorithm: Algorithm,
        retry_after: bool,
        wire: Wire,
        exists: Callable[[str, int], bool] = lambda _endpoint, _now: False,
        propagates: Callable[[str, int], bool] = lambda _endpoint, _now: False,
        balances: Callable[[str], bool] = lambda _endpoint: False,
        permits: Callable[[str, str], bool] = lambda _key, _scope: True,
        dynamic_limit: Callable[[str], int] | None = None,
        scale: float = 1.0,
    ) -> None:
        self._endpoints = frozenset(endpoints)
        self._keys = None if keys is None else frozenset(keys)
        self._limits = limits
        self._algorithm = algorithm
        self._retry_after = retry_after
        self.wire = wire
        self._exists = exists
        self._propagates = propagates
        self._balances = balances
        self._permits = permits
        self._dynamic_limit = dynamic_limit
        self._scale = scale
        self._meters: dict[tuple[str, JobOperation], OperationMeter] = {}
        self._hidden: set[str] = set()

    def outage(self, from_at: int, until_at: int) -> None:
        """Cut every connection, to whichever interface, from `from_at` until just before `until_at` (µs)."""
        self.wire.outage(from_at, until_at)

    def hide(self, endpoint: str) -> None:
        """Answer 404 to everything about `endpoint`, as if it did not exist; its jobs live on."""
        self._hidden.add(endpoint)

    def show(self, endpoint: str) -> None:
        """End what `hide` began."""
        self._hidden.discard(endpoint)

    def all_figures(self) -> Mapping[tuple[str, JobOperation], MeterFigures]:
        """The figures of every endpoint and operation that was called."""
        return {key: meter.figures() for key, meter in self._meters.items()}

    def figures(self, endpoint: str, operation: JobOperation) -> MeterFigures:
        """What the operation has seen so far; zeros where it was never called."""
        meter = self._meters.get((endpoint, operation))
        return MeterFigures() if meter is None else meter.figures()

    def hang_up(self, endpoint: str, operation: JobOperation, requests: int) -> None:
        """So many requests leave, for whose answers nobody waits any more and whose handlers do not know it."""
        for _ in range(requests):
            self._meters[endpoint, operation].leave()

    def enter(self, endpoint: str, operation: JobOperation, authorization: str, now: int) -> OperationMeter:
        """Let a request in: the meter it must leave again.

        Raises Refusal (401, 404, 429, 500), or ConnectionCut. A request that a fault throttles is not metered; one
        that a fault answers 500 was within the limit and is.
        """
        self.wire.connect(now)
        self._check_key(authorization, READING if operation in LOOKING else WRITING)
        if self.wire.doubts_key():
            raise ServiceRefusal(401, "unauthorized")
        if not self._is_known(endpoint, now) or (operation is JobOperation.HEALTH and self.wire.hides_health()):
            raise ServiceRefusal(404, NOT_YET if self._propagates(endpoint, now) else "endpoint not found")
        if self._balances(endpoint) is not (operation is JobOperation.HTTP):
            raise ServiceRefusal(404, "endpoint not found" if operation is JobOperation.HTTP else NO_QUEUE)
        if self.wire.throttles():
            raise ServiceRefusal(429, "too many requests")
        if (pause_s := self.wire.pause_s()) is not None:
            raise ServiceRefusal(429, "too many requests", (("retry-after", str(math.ceil(pause_s / self._scale))),))
        meter = self._meter(endpoint, operation)
        if self._dynamic_limit is not None:
            meter.allow(self._dynamic_limit(endpoint))
        meter.share_with(self.wire.neighbour(), now)
        meter.enter(now)
        if self.wire.fails():
            meter.leave()
            raise ServiceRefusal(500, "internal server error")
        return meter

    def enter_worker(self, endpoint: str, authorization: str, now: int) -> None:
        """Let a worker's call in. No limit counts it, and a hidden endpoint's workers live on.

        Raises Refusal (401, 404), or ConnectionCut during an outage.
        """
        self.wire.check_connection(now)
        self._check_key(authorization)
        if not self._is_known(endpoint, now, for_worker=True):
            raise ServiceRefusal(404, "endpoint not found")

    def sending(self, operation: JobOperation, answer: HttpAnswer) -> OutgoingAnswer:
        """How an answer leaves, after the faults that spoil answers."""
        accepts = operation in SUBMITTING and answer.status == HTTPStatus.OK
        return self.wire.sending(answer, changes=accepts, submits=accepts and operation is JobOperation.RUN)

    def _check_key(self, authorization: str, scope: str | None = None) -> None:
        key = key_in(authorization)
        if not key or (self._keys is not None and key not in self._keys):
            raise ServiceRefusal(401, "unauthorized")
        if scope is not None and not self._permits(key, scope):
            raise ServiceRefusal(401, "unauthorized")

    def _is_known(self, endpoint: str, now: int, *, for_worker: bool = False) -> bool:
        if not for_worker and (endpoint in self._hidden or self._propagates(endpoint, now)):
            return False
        return endpoint in self._endpoints or ANY_ENDPOINT in self._endpoints or self._exists(endpoint, now)

    def _meter(self, endpoint: str, operation: JobOperation) -> OperationMeter:
        meter = self._meters.get((endpoint, operation))
        if meter is None:
            limit = self._limits.get(operation, UNLIMITED)
            meter = OperationMeter(limit, self._algorithm, retry_after=self._retry_after, scale=self._scale)
            self._meters[endpoint, operation] = meter
        return meter
