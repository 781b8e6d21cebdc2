"""What stands before and behind every operation of the job API: keys, unknown endpoints, limits, and the wire.

Pure: it decides what becomes of a request and of its answer; `routes` carries it out.
"""

import math
from collections.abc import Collection
from http import HTTPStatus

from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.contract.limits import JobOperation, OperationMeter, OperationMeters
from orchestrator.emulator.http.wire import OutgoingAnswer, Wire, key_in
from orchestrator.emulator.jobs.endpoint_table import endpoint_of

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


class KnownEndpoints:
    """The endpoints that there are, by id, or all of them by `"*"`. Each has a queue, and is there at once."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = frozenset(ids)

    def serves(self, endpoint: str, now: int) -> bool:  # noqa: ARG002
        """Whether the endpoint is there by now."""
        return endpoint in self._ids or ANY_ENDPOINT in self._ids

    def propagates(self, endpoint: str, now: int) -> bool:  # noqa: ARG002
        """Whether it was created and is not there yet."""
        return False

    def balances(self, endpoint: str) -> bool:  # noqa: ARG002
        """Whether it is a load balancing one, which has no operations of jobs."""
        return False


class Gate:
    """Lets requests in and answers out. A key without the permission is as wrong as an unknown one (contract,
    Authentication 2).
    """

    def __init__(self, *, endpoints: KnownEndpoints, access: CallerAccess, meters: OperationMeters, wire: Wire) -> None:
        self._endpoints = endpoints
        self._access = access
        self.meters = meters
        self.wire = wire
        self._hidden: set[str] = set()

    def hide(self, endpoint: str) -> None:
        """Answer 404 to everything about `endpoint`, as if it did not exist; its jobs live on."""
        self._hidden.add(endpoint)

    def show(self, endpoint: str) -> None:
        """End what `hide` began."""
        self._hidden.discard(endpoint)

    def enter(
        self, endpoint: str, operation: JobOperation, authorization: str, now: int, *, is_question: bool = False
    ) -> OperationMeter:
        """Let a request in: the meter it must leave again. `is_question`: it changes nothing, although others of its
        operation do.

        Raises Refusal (401, 404, 429, 500), or ConnectionCut. A request that a fault throttles is not metered; one
        that a fault answers 500 was within the limit and is.
        """
        self.wire.connect(now)
        self._check_key(authorization, READING if is_question or operation in LOOKING else WRITING)
        if self.wire.doubts_key():
            raise ServiceRefusal(401, "unauthorized")
        if not self._is_known(endpoint, now) or (operation is JobOperation.HEALTH and self.wire.hides_health()):
            raise ServiceRefusal(404, NOT_YET if self._endpoints.propagates(endpoint, now) else "endpoint not found")
        if self._endpoints.balances(endpoint) is not (operation is JobOperation.HTTP):
            raise ServiceRefusal(404, "endpoint not found" if operation is JobOperation.HTTP else NO_QUEUE)
        if self.wire.throttles():
            raise ServiceRefusal(429, "too many requests")
        if (pause_s := self.wire.pause_s()) is not None:
            wish = str(math.ceil(pause_s / self.meters.scale))
            raise ServiceRefusal(429, "too many requests", (("retry-after", wish),))
        meter = self.meters.of(endpoint, operation)
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
        submits = accepts and operation is JobOperation.RUN
        return self.wire.sending(answer, changes=accepts or answer.changes, submits=submits)

    def _check_key(self, authorization: str, scope: str | None = None) -> None:
        key = key_in(authorization)
        if not self._access.takes(key) or (scope is not None and not self._access.permits(key, scope)):
            raise ServiceRefusal(401, "unauthorized")

    def _is_known(self, endpoint: str, now: int, *, for_worker: bool = False) -> bool:
        if for_worker:
            return self._endpoints.serves(endpoint_of(endpoint), now)
        if endpoint in self._hidden or endpoint != endpoint_of(endpoint) or self._endpoints.propagates(endpoint, now):
            return False
        return self._endpoints.serves(endpoint, now)
