"""The cumulative counters of a run, as each step of its jobs raises them."""

from collections.abc import Mapping
from typing import Final

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.transition_type import Transition, is_of_latest, leaves_extra, names_late
from orchestrator.core.service.failure_class import FailureClass

PAID_TWICE: Final = "paid_twice"
"""How a submission ended that ran beside another one of its job; and the run's counter of these."""

RAN: Final = "ran"
"""How a submission ended that was given up and ran after all, while no other one of its job is known to have run."""

FAILED_EXECUTIONS: Final = "failed_executions"
RETRIED_EXECUTIONS: Final = "retried_executions"
"""The run's counter of executions that failed, timed out or gave no usable output; most of them are tried again."""

FREE_EXECUTIONS: Final = "free_executions"
"""Of those that were tried again, the run's counter of those that have cost no attempt."""

CONTINUED_SEGMENTS: Final = "continued_segments"
"""The run's counter of segments of resumable jobs that ended without a result, and that others went on from."""

NO_NEWS: Final = "no_news"
"""The run's counter of answers and webhooks that said nothing of the job that they should have been about."""

_CONTINUED_AFTER: Final[Mapping[FailureClass | None, tuple[str, ...]]] = {
    None: (),
    **{trouble: (trouble.value,) for trouble in (FailureClass.LOST, FailureClass.EXPIRED)},
}
"""What else counts where a segment is continued; of the other troubles, an execution that failed."""


def counters(step: Transition) -> tuple[str, ...]:
    """The cumulative counters of the run that `step` raises by one: a step of a whole chunk that of its lead alone."""
    return () if step.is_ridden else _counters(step)


def _counters(step: Transition) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    match step.event, step.trouble:
        case ((Event.CLAIMED | Event.ACCEPTED), _):  # two of a job's three steps
            pass
        case Event.COMPLETED, _ if step.before.state is State.OUTSTANDING and is_of_latest(step):  # and the third
            pass
        case Event.UNANSWERED, _:
            found = ("uncertain_seen", NO_NEWS) if step.reason is ReasonCode.REPEATED_ID else ("uncertain_seen",)
        case ((Event.ADOPTED | Event.COMPLETED), _) if step.before.state is State.UNCERTAIN or names_late(step):
            found = ("uncertain_adopted",)
        case Event.COMPLETED, _ if leaves_extra(step) and not is_of_latest(step):
            found = (PAID_TWICE,)
        case Event.RETRIED, FailureClass.UNCERTAIN:
            found = ("uncertain_resubmitted",)
        case ((Event.RETRIED | Event.ABANDONED), (FailureClass.LOST | FailureClass.EXPIRED) as trouble):
            found = (trouble.value,)
        case Event.CONTINUED, trouble:
            found = (CONTINUED_SEGMENTS, *_CONTINUED_AFTER.get(trouble, (FAILED_EXECUTIONS, RETRIED_EXECUTIONS)))
        case (
            (Event.RETRIED | Event.ABANDONED | Event.REVOKED),
            (FailureClass.FAILED | FailureClass.TIMED_OUT | FailureClass.INVALID_OUTPUT),
        ):
            found = _failed(step)
        case _:
            pass
    return found if step.outcome is None or step.outcome.unsaved is None else (*found, step.outcome.unsaved.value)


def _failed(step: Transition) -> tuple[str, ...]:
    if step.event is not Event.RETRIED:
        return (FAILED_EXECUTIONS,)
    again = (FAILED_EXECUTIONS, RETRIED_EXECUTIONS)
    return (*again, FREE_EXECUTIONS) if is_free(step) else again


def is_free(step: Transition) -> bool:
    """Whether `step` has an execution that failed, timed out or gave no usable output repeated at no attempt."""
    return step.after.failures == step.before.failures
