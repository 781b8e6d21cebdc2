"""The front door of an interface that is about the account as a whole: pods, `/v1`, GraphQL.

The job API has its `gate`, with limits for each endpoint and operation. Here are what all requests go through, the
faults of the wire, and figures for each operation.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from starlette.responses import Response

from orchestrator.emulator.contract.answers import HttpAnswer
from orchestrator.emulator.contract.limits import MeterFigures, OperationLimit, OperationMeter
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.units import SECOND_US

FIGURES_WINDOW_US = 60 * SECOND_US
"""The window of the highest window count: the shortest that the contract of pods names."""


class AccountGate:
    """Lets requests in and answers out. `failure` gives a 500 as the interface says it."""

    def __init__(self, delivery: AnswerDelivery, failure: Callable[[], HttpAnswer]) -> None:
        self._delivery = delivery
        self.wire = delivery.wire
        self._clock = delivery.clock
        self._failure = failure
        self._meters: dict[str, OperationMeter] = {}

    async def answer(self, operate: Callable[[], Awaitable[HttpAnswer]]) -> Response:
        """What leaves for a request that `operate` answers. Raises ConnectionCut where no answer is to come."""
        self.wire.connect(self._clock.now())
        answer = await operate()
        sending = self.wire.sending(answer, changes=answer.changes, failure=self._failure())
        return await self._delivery.deliver(sending)

    def turn_away(self, operation: str) -> None:
        """Count a request that is over its limit."""
        self._meter(operation).turn_away()

    @contextmanager
    def under_way(self, operation: str) -> Iterator[bool]:
        """A request within its limits; gives whether a fault fails it before anything is done."""
        meter = self._meter(operation)
        meter.enter(self._clock.now())
        try:
            yield self.wire.fails()
        finally:
            meter.leave()

    def figures(self) -> Mapping[str, MeterFigures]:
        """What each operation has seen, by its name."""
        return {operation: meter.figures() for operation, meter in self._meters.items()}

    def _meter(self, operation: str) -> OperationMeter:
        return self._meters.setdefault(operation, OperationMeter(OperationLimit(window_us=FIGURES_WINDOW_US)))
