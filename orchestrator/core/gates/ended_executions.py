"""Which steps of jobs end executions, and what each of these tells: what it cost, and whether the handler works."""

from typing import Final

import msgspec

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.failure_breaker import RatedExecution
from orchestrator.core.jobs.job import Outcome
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition, leaves_extra
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import HINT_CHARS_MAX
from orchestrator.core.text.error_text import error_key, summary_of
from orchestrator.core.text.wording import shortened

FAILED: Final = frozenset({FailureClass.FAILED, FailureClass.TIMED_OUT, FailureClass.INVALID_OUTPUT})
"""What says something of the handler, or of the input."""

MAY_HAVE_RUN: Final = frozenset({FailureClass.LOST, FailureClass.EXPIRED, FailureClass.UNCERTAIN})
"""What may have been executed, and says nothing of how it went."""

_ENDS: Final = frozenset({Event.RETRIED, Event.ABANDONED, Event.CONTINUED})
_MAY_END: Final = _ENDS | {Event.COMPLETED, Event.CANCELLED}


class EndedExecution(msgspec.Struct, frozen=True, gc=False):
    """What a step tells of an execution that it ends."""

    took: DurationTotals
    execution: RatedExecution | None = None
    """None where it says nothing of whether executions work."""


def ended_by(step: Transition) -> EndedExecution | None:
    """What `step` tells; None where it ends no execution."""
    if step.event not in _MAY_END:  # as most steps are not
        return None
    outcome = step.outcome or step.previous_outcome
    execution_ms = step.execution_ms if outcome is None or outcome.execution_ms is None else outcome.execution_ms
    in_batch = is_in_batch(step, outcome)
    if step.event is Event.COMPLETED:
        took = DurationTotals.one(execution_ms, in_batch=in_batch)
        if leaves_extra(step):  # another one of the job is paid as well
            took = DurationTotals.together([took, DurationTotals.one(None)])
        return EndedExecution(took, RatedExecution(is_failed=False))
    if step.event is Event.CANCELLED:
        return None if execution_ms is None else EndedExecution(DurationTotals.one(execution_ms, in_batch=in_batch))
    if step.trouble is None:  # a segment that was given back as it should be
        return EndedExecution(DurationTotals.one(execution_ms), RatedExecution(is_failed=False))
    if step.trouble in FAILED:
        message = ("" if outcome is None else outcome.message) or ""
        said = shortened(f"{step.trouble}: {summary_of(message)}".strip(), HINT_CHARS_MAX)
        execution: RatedExecution | None = None
        if not step.is_ridden:  # that of the lead of its chunk tells
            execution = RatedExecution(is_failed=True, kind=error_key(step.trouble, message), summary=said)
        return EndedExecution(DurationTotals.one(execution_ms, failed=True, in_batch=in_batch), execution)
    may_have_run = step.trouble in MAY_HAVE_RUN or execution_ms is not None  # which was cut off, by us
    return EndedExecution(DurationTotals.one(execution_ms, in_batch=in_batch)) if may_have_run else None


def is_in_batch(step: Transition, outcome: Outcome | None) -> bool:
    """Whether a batch of the service has executed it: what is in one now may end by what was sent before by `/run`."""
    by = None if outcome is None else outcome.submission
    return step.before.batch is not None and by in (None, step.before.submission)
