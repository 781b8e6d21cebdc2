"""What a program gives and gets: a job by its parts, and the result of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Self

import msgspec

from orchestrator.api.outcomes.outcome_pages import row_of
from orchestrator.api.runs.keyword_options import policy_of
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.text.error_text import summary_of
from orchestrator.errors import DamagedError, UsageError
from orchestrator.formats.input.python_values import JobParts
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.row_codec import unpack
from orchestrator.units import EPOCH, MIB

Ended = Literal["succeeded", "failed", "cancelled"]
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Job:
    """One job, where its input alone does not say enough.

    `input` is what the worker gets, as anything that is JSON. `custom_id` is your name for it, 1 to 256 characters, one
    for each job of a run; without one it is made from the input. `policy` has any of the keys `execution_timeout`,
    `ttl` (durations as text, seconds or `timedelta`) and `low_priority`, and wins over the run's. `s3_config` is the
    service's `s3Config`, with secrets by name (`env:NAME`). Of the jobs of a run that were never sent those of a higher
    `priority`, -10 to 10, go first. `metadata` is not sent: the job's result has it.

        Job({"prompt": "a lighthouse"}, custom_id="night-17", policy={"execution_timeout": "2m"})
    """

    input: Mapping[str, Any]
    custom_id: str | None = None
    policy: Mapping[str, Any] | None = None
    s3_config: Mapping[str, Any] | None = None
    priority: int = 0
    metadata: Mapping[str, Any] | None = None

    def given(self) -> JobParts:
        """The same, as it is read into a row. Raises `UsageError` for a policy that is none."""
        policy = None if self.policy is None else policy_of(self.policy)
        return JobParts(
            input=self.input,
            custom_id=self.custom_id,
            policy=policy,
            s3_config=self.s3_config,
            priority=self.priority,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a job came to: it succeeded, failed for good, or was cancelled.

    `index` is the place of its row in the input, from 0: for a list of inputs, `inputs[result.index]` is what was
    given. `input` is what the worker got, decoded each time that it is asked for.
    `raw` is the output as the service sent it, JSON as bytes, and None where there is none; `output` decodes it each
    time that it is asked for. `error` says in one line why there is no result, `error_text` is all that was told, and
    `error_class` the kind of trouble. `attempts` counts the executions. `delay` and `execution` are how long the job
    waited at the service and ran there, as far as the service told; `ended_at` is when its outcome was known here.
    `metadata` is what its row carried.

        if result.error is None:
            print(result.index, result.input, result.output)
    """

    custom_id: str
    state: Ended
    raw: bytes | None
    error: str | None
    error_text: str | None
    error_class: str | None
    attempts: int
    job_id: str | None
    delay: timedelta | None
    execution: timedelta | None
    ended_at: datetime
    metadata: Mapping[str, Any] | None = None
    index: int = 0
    _stored_input: bytes | None = field(default=None, repr=False)
    """As the ledger has it, which is smaller: most who read results do not ask for it."""

    _packed_input: int = field(default=0, repr=False)

    @property
    def input(self) -> Any:
        """The input, decoded. Raises `OrchestratorError` where the ledger's copy of it is damaged."""
        try:
            return None if self._stored_input is None else _decode(unpack(self._stored_input, self._packed_input))
        except DamagedError:
            raise DamagedError(
                f"{self.custom_id}: its input is damaged in the ledger; orchestrator verify tells what else is"
            ) from None

    @property
    def output(self) -> Any:
        """The output, decoded; None where there is none."""
        return None if self.raw is None else _decode(self.raw)

    @classmethod
    def of(cls, finished: FinishedJob) -> Self:
        """The result of a job that has ended. One whose output is damaged by now has failed."""
        job = row_of(finished)
        has_failed = job.trouble is not None
        state: Ended = "succeeded"
        if has_failed:
            state = "cancelled" if job.state is State.CANCELLED else "failed"
        return cls(
            custom_id=job.custom_id,
            state=state,
            raw=None if has_failed else job.output,
            error=(summary_of(job.message or "") or job.trouble) if has_failed else None,
            error_text=job.message if has_failed else None,
            error_class=job.trouble,
            attempts=job.attempts,
            job_id=job.remote_id,
            delay=_time(job.delay_ms),
            execution=_time(job.execution_ms),
            ended_at=EPOCH + timedelta(microseconds=job.ended_at or 0),
            metadata=None if job.metadata is None else _decode(job.metadata),
            index=job.line - 1,
            _stored_input=job.stored_input,
            _packed_input=job.packed_input,
        )


def _time(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


# --- pages of them: as many at a time as are there


Order = Literal["completion", "input"]

Key = tuple[int, int]
"""Where a page begins: `(line, job)`, or `(place, 0)` of the feed."""

PAGE_JOBS: Final = 500
PAGE_EVENTS: Final = 2_000
PAGE_BYTES_MAX: Final = 8 * MIB
"""Results that are read at once, by their outputs and inputs as they are stored; one that is larger comes alone."""


async def first_key(ledger: Ledger, run: Run, order: Order, after: str | None) -> Key:
    """Where the first page begins, behind the job whose `custom_id` is `after`. Raises `UsageError` for no job."""
    if after is None:
        return (-1, -1) if order == "input" else (await ledger.jobs.results.first_place(run.id), 0)
    place = await ledger.jobs.place(run.id, after)
    if place is None:
        raise UsageError(f"after={after!r}: the run {run.name!r} has no job of this custom_id")
    return (place.line, place.job) if order == "input" else (await ledger.jobs.results.place_of(place.job), 0)


async def page_from(ledger: Ledger, run: int, order: Order, key: Key) -> tuple[list[Result], Key, bool]:
    """The results behind `key`; where the next page begins, and whether these were all that there are by now."""
    if order == "input":
        jobs = await ledger.jobs.results.in_order(run, after=key, most=PAGE_JOBS, bytes_max=PAGE_BYTES_MAX, inputs=True)
        return [Result.of(job) for job in jobs], (jobs[-1].line, jobs[-1].job) if jobs else key, True
    page, place, is_latest = await results_since(ledger, run, key[0])
    return page, (place, 0), is_latest


async def results_since(ledger: Ledger, run: int, place: int) -> tuple[list[Result], int, bool]:
    """The results of a run that stand in the feed behind `place`, not too many at once; until where, and whether these
    were all.
    """
    ended = await ledger.jobs.results.ended(
        run, tuple(TERMINAL), after=place, most=PAGE_EVENTS, bytes_max=PAGE_BYTES_MAX, inputs=True
    )
    if ended.upto is None:
        return [], place, True
    return [Result.of(job) for _, job in ended.jobs], ended.upto, False
