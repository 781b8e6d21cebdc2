"""Small values for tests: each factory takes only what the test cares about, and the rest makes sense."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.formats.input.rows import Row
from orchestrator.settings.run_settings import RunSettings
from tests.simulation.clock import EPOCH_AT

S = 1_000_000
"""A second."""

TTL_US = 86_400 * S

SETTINGS = RunSettings()


def a_job(**changes: Any) -> Job:
    """A queued job that was never sent."""
    return msgspec.structs.replace(Job(id=1, run=1, endpoint=1, state=State.QUEUED), **changes)


def a_job_in(state: State, **changes: Any) -> Job:
    """A job as it is found in `state`, after one submission where that makes sense."""
    job = a_job()
    if state is not State.QUEUED:
        job = transitions.claimed(job, submission=EPOCH_AT, ttl_us=TTL_US, at=EPOCH_AT).after
    if state is State.OUTSTANDING or state in TERMINAL:
        job = transitions.accepted(job, remote_id="remote-1", sent_at=EPOCH_AT + S, at=EPOCH_AT + 2 * S).after
    return msgspec.structs.replace(job, state=state, **changes)


def an_outcome(job: Job, trouble: FailureClass | None = None, **changes: Any) -> Outcome:
    """How `job` ended: with a result, or in `trouble`."""
    outcome = Outcome(
        submission=job.submission,
        remote_id=job.remote_id,
        status="COMPLETED" if trouble is None else "FAILED",
        output=b'{"n":1}' if trouble is None else None,
        trouble=trouble,
        message=None if trouble is None else "it broke",
        margin_us=20 * 60 * S if trouble is None else None,
    )
    return msgspec.structs.replace(outcome, **changes)


def a_row(line: int, custom_id: str | None = None, *, payload: bytes | None = None, **changes: Any) -> Row:
    """A checked row. Without `custom_id` its id is derived from its input, so that equal inputs repeat."""
    payload = payload or b'{"line":%d}' % line
    digest = hashlib.sha256(payload).digest()
    row = Row(
        line=line,
        custom_id=custom_id or digest.hex()[:16],
        derived=custom_id is None,
        input=payload,
        digest=digest,
        policy=None,
        s3_config=None,
    )
    return msgspec.structs.replace(row, **changes)


Make = Callable[[Job, int], Transition]

STEPS: Mapping[str, tuple[Event, Make]] = MappingProxyType(
    {
        "claimed": (Event.CLAIMED, lambda job, at: transitions.claimed(job, submission=at, ttl_us=TTL_US, at=at)),
        "claimed_for_retry": (Event.CLAIMED, lambda job, at: transitions.claimed_for_retry(job, at=at)),
        "accepted": (
            Event.ACCEPTED,
            lambda job, at: transitions.accepted(job, remote_id=f"remote-{at}", sent_at=at - S, at=at),
        ),
        "accepted_for_retry": (
            Event.ACCEPTED,
            lambda job, at: transitions.accepted_for_retry(job, sent_at=at - S, at=at),
        ),
        "unanswered": (
            Event.UNANSWERED,
            lambda job, at: transitions.unanswered(job, settle_at=at + 120 * S, reason="timed out", at=at),
        ),
        "deferred": (
            Event.DEFERRED,
            lambda job, at: transitions.deferred(
                job, due_at=at + S, reason="429", at=at, trouble=FailureClass.THROTTLED
            ),
        ),
        "interrupted": (Event.DEFERRED, lambda job, at: transitions.deferred(job, due_at=at, reason="not sent", at=at)),
        "adopted": (Event.ADOPTED, lambda job, at: transitions.adopted(job, remote_id=f"remote-{at}", at=at)),
        "retried": (
            Event.RETRIED,
            lambda job, at: transitions.retried(
                job, FailureClass.LOST, due_at=at + S, retry_until=None, reason="404 twice", at=at
            ),
        ),
        "retried_remotely": (
            Event.RETRIED,
            lambda job, at: transitions.retried(
                job, FailureClass.FAILED, due_at=at + S, retry_until=at + 600 * S, reason="FAILED", at=at
            ),
        ),
        "completed": (
            Event.COMPLETED,
            lambda job, at: transitions.completed(job, an_outcome(job), reason="status", at=at),
        ),
        "abandoned": (
            Event.ABANDONED,
            lambda job, at: transitions.abandoned(
                job, an_outcome(job, FailureClass.FAILED), reason="out of attempts", at=at
            ),
        ),
        "cancelled": (
            Event.CANCELLED,
            lambda job, at: transitions.cancelled(
                job, an_outcome(job, FailureClass.CANCELLED), reason="asked for", at=at
            ),
        ),
        "revoked": (
            Event.REVOKED,
            lambda job, at: transitions.revoked(job, an_outcome(job, FailureClass.INVALID_OUTPUT), at=at),
        ),
        "reopened": (Event.REOPENED, lambda job, at: transitions.reopened(job, at=at)),
    }
)
"""Each way in which something can happen to a job: its event, and how its step is made at a time."""


def makes_sense(name: str, job: Job) -> bool:
    """Whether the program would take the step `name` for `job`: a `/retry` is answered as one, and so on."""
    match name:
        case "claimed_for_retry" | "accepted_for_retry":
            return job.by_retry
        case "accepted" | "unanswered" | "adopted":
            return not job.by_retry
        case "retried_remotely":
            return job.state is State.OUTSTANDING
        case _:
            return True
