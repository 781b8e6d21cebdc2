"""Why a submission is owed a `/cancel`: what a step leaves behind at the service, and what people ask for."""

from enum import StrEnum
from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.transition_type import Transition


class CancelWhy(StrEnum):
    """Why a submission is to be cancelled at the service."""

    EXTRA = "extra"
    """Another submission of its job has brought the result."""

    STUCK = "stuck"
    """It does not come to an end; the job is to be sent anew."""

    MOVED = "moved"
    """It waits at a member of a pool that is not well; the job is to go to another. One that has begun stays."""

    ASKED = "asked"
    """A person cancelled the run, which may yet go on."""

    CHOSEN = "chosen"
    """A person cancelled the job, whatever becomes of its run."""


BY_PEOPLE: Final = frozenset({CancelWhy.ASKED, CancelWhy.CHOSEN})


def why_owed(step: Transition) -> CancelWhy:
    """Why the submission that `step` leaves behind is to be cancelled."""
    if step.event is not Event.CANCELLED:
        return CancelWhy.EXTRA
    return CancelWhy.CHOSEN if step.reason is ReasonCode.JOB_CANCELLED else CancelWhy.ASKED
