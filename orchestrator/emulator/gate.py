"""What stands before and behind every operation: keys, unknown endpoints, limits, outages and faults of the wire.

Pure: it decides what becomes of a request and of its answer; `routes` carries it out.
"""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from http import HTTPStatus

import msgspec

from orchestrator.clock import SECOND
from orchestrator.emulator.answers import HTML_PAGE, Answer, ConnectionCut, ErrorBodies, Refusal, in_form
from orchestrator.emulator.counters import Algorithm
from orchestrator.emulator.faults import Fault, FaultDice
from orchestrator.emulator.limits import UNLIMITED, Limit, Meter, MeterFigures, Operation

ANY_ENDPOINT = "*"
"""As the name of an endpoint: every id exists."""

SUBMITTING = frozenset({Operation.RUN, Operation.RUNSYNC})


class Cut(StrEnum):
    """Where the connection breaks."""

    NOWHERE = "nowhere"
    BEFORE_ANSWER = "before_answer"
    INSIDE_BODY = "inside_body"


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer leaves: after `delay_us`, and whole or not."""

    answer: Answer
    delay_us: int = 0
    cut: Cut = Cut.NOWHERE


class Gate:
    """Lets requests in and answers out.

    `keys` None takes any key that is not empty. Endpoints are known by id, or all of them by `"*"`; besides, `exists`
    says whether one that was created is there by now, and `propagates` that it is not yet. `dynamic_limit` gives what
    an endpoint's running workers allow per window (contract, Limits, dynamic rule).
    """

    def __init__(
        self,
        *,
        endpoints: Collection[str],
        keys: Collection[str] | None,
        limits: Mapping[Operation, Limit],
        algorithm: Algorithm,
        retry_after: bool,
        dice: FaultDice,
        exists: Callable[[str, int], bool] = lambda _endpoint, _now: False,
        propagates: Callable[[str, int], bool] = lambda _endpoint, _now: False,
        error_bodies: ErrorBodies = ErrorBodies.JSON,
        dynamic_limit: Callable[[str], int] | None = None,
    ) -> None:
        self._endpoints = frozenset(endpoints)
        self._keys = None if keys is None else frozenset(keys)
        self._limits = limits
        self._algorithm = algorithm
        self._retry_after = retry_after
        self._dice = dice
        self._exists = exists
        self._propagates = propagates
        self._error_bodies = error_bodies
        self._dynamic_limit = dynamic_limit
        self._meters: dict[tuple[str, Operation], Meter] = {}
        self._hidden: set[str] = set()
        self._outages: list[tuple[int, int]] = []

    def outage(self, from_at: int, until_at: int) -> None:
        """Cut every connection from `from_at` until just before `until_at` (µs)."""
        self._outages.append((from_at, until_at))

    def hide(self, endpoint: str) -> None:
        """Answer 404 to everything about `endpoint`, as if it did not exist; its jobs live on."""
        self._hidden.add(endpoint)

    def show(self, endpoint: str) -> None:
        """End what `hide` began."""
        self._hidden.discard(endpoint)

    def all_figures(self) -> Mapping[tuple[str, Operation], MeterFigures]:
        """The figures of every endpoint and operation that was called."""
        return {key: meter.figures() for key, meter in self._meters.items()}

    def figures(self, endpoint: str, operation: Operation) -> MeterFigures:
        """What the operation has seen so far; zeros where it was never called."""
        meter = self._meters.get((endpoint, operation))
        return MeterFigures() if meter is None else meter.figures()

    def enter(self, endpoint: str, operation: Operation, authorization: str, now: int) -> Meter:
        """Let a request in: the meter it must leave again.

        Raises Refusal (401, 404, 429, 500), or ConnectionCut. A request that a fault throttles is not metered; one
        that a fault answers 500 was within the limit and is.
        """
        self.check_connection(now)
        if self._dice.strikes(Fault.LOST_REQUEST):
            raise ConnectionCut
        self._check_key(authorization)
        if not self._is_known(endpoint, now):
            raise Refusal(404, "endpoint not found")
        if self._dice.strikes(Fault.THROTTLED):
            raise Refusal(429, "too many requests")
        meter = self._meter(endpoint, operation)
        if self._dynamic_limit is not None:
            meter.allow(self._dynamic_limit(endpoint))
        meter.enter(now)
        if self._dice.strikes(Fault.SERVER_ERROR):
            meter.leave()
            raise Refusal(500, "internal server error")
        return meter

    def enter_worker(self, endpoint: str, authorization: str, now: int) -> None:
        """Let a worker's call in. No limit counts it, and a hidden endpoint's workers live on.

        Raises Refusal (401, 404), or ConnectionCut during an outage.
        """
        self.check_connection(now)
        self._check_key(authorization)
        if not self._is_known(endpoint, now, for_worker=True):
            raise Refusal(404, "endpoint not found")

    def sending(self, operation: Operation, answer: Answer) -> Sending:
        """How an answer leaves, after the faults that spoil answers."""
        answer = in_form(answer, self._error_bodies)
        delay_us = round(self._dice.faults.slow_answer_s * SECOND) if self._dice.strikes(Fault.SLOW_ANSWER) else 0
        if operation in SUBMITTING and answer.status == HTTPStatus.OK:
            if self._dice.strikes(Fault.LOST_ANSWER):
                return Sending(answer=answer, delay_us=delay_us, cut=Cut.BEFORE_ANSWER)
            if self._dice.strikes(Fault.SERVER_ERROR_AFTER):
                answer = in_form(Refusal(500, "internal server error").answer(), self._error_bodies)
        if self._dice.strikes(Fault.NOT_JSON):
            answer = Answer(status=answer.status, body=HTML_PAGE, content_type="text/html", headers=answer.headers)
        cut = Cut.INSIDE_BODY if self._dice.strikes(Fault.CUT_ANSWER) else Cut.NOWHERE
        return Sending(answer=answer, delay_us=delay_us, cut=cut)

    def check_connection(self, now: int) -> None:
        """Raises ConnectionCut during an outage. Asked again before an answer leaves: it may have begun meanwhile."""
        if self._outages:
            self._outages = [(start, end) for start, end in self._outages if now < end]
            if any(start <= now for start, _ in self._outages):
                raise ConnectionCut

    def _check_key(self, authorization: str) -> None:
        """`Bearer KEY` or the bare key, which the service takes as well (as observed)."""
        key = authorization.strip()
        if key[:7].lower() == "bearer ":
            key = key[7:].strip()
        if not key or (self._keys is not None and key not in self._keys):
            raise Refusal(401, "unauthorized")

    def _is_known(self, endpoint: str, now: int, *, for_worker: bool = False) -> bool:
        if not for_worker and (endpoint in self._hidden or self._propagates(endpoint, now)):
            return False
        return endpoint in self._endpoints or ANY_ENDPOINT in self._endpoints or self._exists(endpoint, now)

    def _meter(self, endpoint: str, operation: Operation) -> Meter:
        meter = self._meters.get((endpoint, operation))
        if meter is None:
            limit = self._limits.get(operation, UNLIMITED)
            meter = Meter(limit, self._algorithm, retry_after=self._retry_after)
            self._meters[endpoint, operation] = meter
        return meter
