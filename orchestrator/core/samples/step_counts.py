"""What the steps of jobs add up to, of a run or of an endpoint: what was sent, what ended, and how long it took.

Each step is counted from its event, the state before it and what was told of the execution. The ledger keeps all of
these, so that steps can be counted again that nobody had written down when a process was killed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.gates.ended_executions import FAILED, MAY_HAVE_RUN, is_in_batch
from orchestrator.core.jobs.lifecycle import TERMINAL, TRANSITIONS, Event, State
from orchestrator.core.jobs.run_counters import PAID_TWICE, counters
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.buckets import MARGIN_BOUNDS_S, TIME_BOUNDS_S, GrowingHistogram
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.units import SECOND_US

MILLISECONDS: Final = 1_000

LEADS_TO: Final = {event: state for row in TRANSITIONS.values() for event, state in row.items()}
"""The state after each event: whatever was before it, there is only one."""

_ANSWERS: Final = {
    Event.ACCEPTED: "accepted",
    Event.ADOPTED: "accepted",
    Event.COMPLETED: "accepted",
    Event.UNANSWERED: "unanswered",
    Event.DEFERRED: "deferred",
}
_SETTLED: Final = {
    Event.ADOPTED: "adopted",
    Event.COMPLETED: "adopted",
    Event.RETRIED: "resubmitted",
    Event.ABANDONED: "given_up",
    Event.CANCELLED: "given_up",
}
_ENDS_EXECUTION: Final = frozenset({Event.RETRIED, Event.ABANDONED, Event.CONTINUED})
_TELLING: Final = FAILED | MAY_HAVE_RUN - {FailureClass.UNCERTAIN}


TimesOfExecution = tuple[int | None, int | None, int | None]
"""Of an execution that succeeded: its delay and its time in milliseconds, and the margin in microseconds."""


class CountedStep(msgspec.Struct, frozen=True, gc=False):
    """What is counted of a step. Times are as the service told them, None where it did not."""

    event: Event
    before: State
    trouble: FailureClass | None = None
    delay_ms: int | None = None
    execution_ms: int | None = None
    margin_us: int | None = None
    is_paid_twice: bool = False
    is_executed: bool = True
    """Whether a result is of an execution of the job itself, and not another one's."""

    is_in_batch: bool = False
    """Whether a batch of the service has executed it."""

    is_rider: bool = False
    """Whether it travels in a chunk that another job leads, whose request counts."""

    @property
    def result(self) -> str | None:
        """What came of the execution that it ends; None where it ends none."""
        if self.event is Event.COMPLETED:
            return "succeeded" if self.is_executed else None
        if self.event not in _ENDS_EXECUTION:
            return None
        if self.trouble is None:
            return "continued"
        return self.trouble.value if self.trouble in _TELLING else None

    @property
    def answer(self) -> str | None:
        """What came of the request that it ends; None where it ends none."""
        if self.before is not State.SUBMITTING or self.is_rider:
            return None
        if self.event not in _ENDS_EXECUTION:
            return _ANSWERS.get(self.event)
        return "accepted" if self.result is not None else "refused"


def counted_step(step: Transition) -> CountedStep | None:
    """What is counted of `step`; None of one that only says that a request is about to leave."""
    if step.event is Event.CLAIMED:
        return None
    told = step.outcome or step.previous_outcome
    return CountedStep(
        step.event,
        step.before.state,
        step.trouble,
        None if told is None else told.delay_ms,
        step.execution_ms if told is None or told.execution_ms is None else told.execution_ms,
        None if step.outcome is None else step.outcome.margin_us,
        step.event is Event.COMPLETED and PAID_TWICE in counters(step),
        step.outcome is None or step.outcome.submission is not None,
        is_in_batch(step, told),
        step.before.is_rider,
    )


class StepCounts:
    """Of a run, or of an endpoint."""

    __slots__ = ("ends", "execution", "executions", "margin", "paid_twice", "queue", "settled", "spent", "submissions")

    def __init__(self) -> None:
        self.submissions = Counter[str]()
        self.ends = Counter[str]()
        self.executions = Counter[str]()
        self.settled = Counter[str]()
        self.paid_twice = 0
        self.spent = 0.0
        self.margin = GrowingHistogram(MARGIN_BOUNDS_S)
        self.queue = GrowingHistogram(TIME_BOUNDS_S)
        self.execution = GrowingHistogram(TIME_BOUNDS_S)

    def add(self, step: CountedStep, price_per_s: float | None = None) -> None:
        """One more step, of a job of which a second of a worker costs so much."""
        if (answer := step.answer) is not None:
            self.submissions[answer] += 1
        if (state := LEADS_TO[step.event]) in TERMINAL:
            self.ends[state.value] += 1
        if step.before is State.UNCERTAIN and not step.is_rider and (settled := _SETTLED.get(step.event)) is not None:
            self.settled[settled] += 1
        self.paid_twice += step.is_paid_twice
        if (result := step.result) is not None:
            self.executions[result] += 1
            self._took(step, price_per_s or 0.0)
        if step.margin_us is not None:
            self.margin.add(step.margin_us / SECOND_US)

    def add_successes(self, told: Sequence[TimesOfExecution], price_per_s: float | None = None) -> None:
        """So many jobs at once have come to the result of their latest submission, which was at the service."""
        self.ends[State.SUCCEEDED.value] += len(told)
        self.executions["succeeded"] += len(told)
        self.queue.add_all([delay_ms for delay_ms, _, _ in told if delay_ms is not None], MILLISECONDS)
        took_ms = [execution_ms for _, execution_ms, _ in told if execution_ms is not None]
        self.execution.add_all(took_ms, MILLISECONDS)
        self.spent += (price_per_s or 0.0) * sum(took_ms) / MILLISECONDS
        self.margin.add_all([margin_us for _, _, margin_us in told if margin_us is not None], SECOND_US)

    def _took(self, step: CountedStep, price_per_s: float) -> None:
        if step.delay_ms is not None:
            self.queue.add(step.delay_ms / MILLISECONDS)
        if step.execution_ms is not None:
            self.execution.add(step.execution_ms / MILLISECONDS)
            self.spent += price_per_s * step.execution_ms / MILLISECONDS
