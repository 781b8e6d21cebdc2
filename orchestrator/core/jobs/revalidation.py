"""What becomes of jobs whose outputs are judged anew, since their run takes something else for a result by now."""

import msgspec

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome, Overrides
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.wording import counted


class Rechecked(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs that concerns."""

    looked_at: int = 0
    rejected: int = 0
    """Had a result that is none by now."""

    again: int = 0
    """Of these, are tried again; the others have no attempts left."""

    accepted: int = 0
    """Had failed with what is a result by now."""

    failed_otherwise: int = 0
    """Had failed, and fail for another reason by now."""

    def __str__(self) -> str:
        anew = f", {self.failed_otherwise:,} failed for another reason" if self.failed_otherwise else ""
        return (
            f"{counted(self.looked_at, 'output')} looked at: {self.rejected:,} rejected ({self.again:,} of them to be"
            f" tried again), {self.accepted:,} accepted after all{anew}"
        )


def is_meant(job: Job, outcome: Outcome) -> bool:
    """Whether the output of `job` can be judged anew: it is a result, or was none for what it is."""
    is_failed = job.state is State.FAILED and outcome.trouble is FailureClass.INVALID_OUTPUT
    return job.state is State.SUCCEEDED or (is_failed and outcome.status == "COMPLETED")


def step_of(job: Job, outcome: Outcome, why: str | None, *, at: int) -> Transition | None:
    """The step for `job`, which is meant and ended with `outcome`: `why` is what is wrong with that by now. None where
    it stays.
    """
    if job.state is State.SUCCEEDED and why is not None:
        failed = msgspec.structs.replace(outcome, trouble=FailureClass.INVALID_OUTPUT, message=why)
        return transitions.revoked(job, failed, at=at)
    if job.state is State.FAILED and why is None:
        result = msgspec.structs.replace(outcome, trouble=None, message=None)
        return transitions.completed(
            job, result, reason=ReasonCode.REVALIDATED, at=at, failures=max(0, job.failures - 1)
        )
    return None


def other_reason(job: Job, outcome: Outcome, why: str | None) -> str | None:
    """Why `job`, which is meant and had failed with `outcome`, has failed by now; None where that has not changed."""
    return why if job.state is State.FAILED and why != outcome.message else None


def tried_again(job: Job, *, max_attempts: int, at: int) -> Transition | None:
    """The step that tries `job` again, whose result was revoked, with the attempts that are left; None without any."""
    left = (max_attempts if job.attempts_max is None else job.attempts_max) - job.failures
    if left <= 0:
        return None
    overrides = Overrides(policy=job.policy, attempts_max=left, description=counted(left, "attempt"))
    return transitions.reopened(job, at=at, overrides=overrides)
