"""What the service knows about its jobs and never tells: when each was accepted, how it ended, when it was forgotten."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec

from orchestrator.emulator.jobs.jobs import (
    ServiceJob,
    ServiceStatus,
    WorkerResult,
)
from orchestrator.emulator.jobs.world import World
from orchestrator.units import SECOND_US
from tests.emulator.execution_counts import ExecutionCounts
from tests.simulation.chunks import rows_in
from tests.simulation.clock import EPOCH_AT
from tests.simulation.world import bare

Say = Callable[[str, str, str], None]
"""Puts (who, what, which job) into the trace."""


class End(msgspec.Struct, frozen=True):
    """An execution came to its end."""

    at: int
    status: ServiceStatus
    has_output: bool
    """Other than that the job was given back unfinished."""

    @property
    def is_result(self) -> bool:
        """Whether there is something to collect."""
        return self.status is ServiceStatus.COMPLETED and self.has_output


class Fate(msgspec.Struct, kw_only=True):
    """One job of the service's. Times are microseconds by the true clock."""

    input: bytes
    rows: tuple[bytes, ...]
    """The inputs of the rows that it carries; its own where it is no chunk."""
    at: str
    """At which endpoint of which service: host and id."""
    is_of_batch: bool = False
    place: tuple[str, int] | None = None
    """Where its worker writes to, if it is resumable: its key, and the number of its segment."""
    accepted_at: int
    lost: bool = False
    """A fault made the service forget it before the time that was agreed."""
    executions: int = 0
    ends: list[End] = []
    """In order; all but the last by `/retry` undone."""
    forgotten_at: int | None = None
    """None: it is known still."""

    @property
    def is_failed_with_its_batch(self) -> bool:
        """Whether its batch came to an end without it."""
        return self.is_of_batch and bool(self.ends) and self.ends[-1].status is ServiceStatus.CANCELLED

    def end_by(self, at: int) -> End | None:
        """How the job had ended by then, if it had."""
        return next((end for end in reversed(self.ends) if end.at <= at), None)


class FateBook(ExecutionCounts):
    """Writes down the fates of jobs, which are kept for `retention_us` after their end, as agreed, or for
    `sync_retention_us` where they came by `/runsync`.
    """

    fates: dict[str, Fate]
    say: Say

    def __init__(self, retention_us: int, sync_retention_us: int, host: str) -> None:
        super().__init__(bare)
        self._host = host
        self._sync_retention_us = sync_retention_us
        self._retention_us = retention_us
        self.agreed_times: float = 1.0
        """For so many times as long the service had agreed to keep a job."""

        self.result_of: Callable[[bytes], bytes | None] | None = None
        """What there is to be had of an input; None: whatever comes of it."""

        self.batch_retention_us = 0
        """How long a request of a batch is kept after its end, at least."""

        self.forgets_at: int | None = None
        """While it forgets everything at once."""

    def _keys(self, raw_input: bytes) -> Iterable[Hashable]:
        return rows_in(bare(raw_input))

    def accepted(self, job: ServiceJob, *, is_lost: bool) -> None:
        super().accepted(job, is_lost=is_lost)
        self.fates[job.id] = Fate(
            input=bare(job.input),
            rows=rows_in(bare(job.input)),
            at=f"{self._host}/{job.endpoint}",
            is_of_batch=job.batch_id is not None,
            place=_place(job.input),
            accepted_at=job.queued_at,
            lost=is_lost,
        )
        self.say("service", "accepted and lost" if is_lost else "accepted", f"{job.id} {_short(job.input)}")

    def started(self, job: ServiceJob, *, is_silent: bool) -> None:
        super().started(job, is_silent=is_silent)
        self.fates[job.id].executions += 1
        silent = " (and falls silent)" if is_silent else ""
        self.say("worker", f"begins execution {job.executions}{silent}", job.id)

    def finished(self, job: ServiceJob, result: WorkerResult, now: int) -> None:
        super().finished(job, result, now)
        fate = self.fates[job.id]
        has_result = result.output is not None and b'"unfinished"' not in result.output
        if self.result_of is not None:
            has_result = result.output is not None and result.output == self.result_of(fate.input)
        fate.ends.append(End(now, job.status, has_result))
        self.say("service", f"{job.status}{'' if result.output else ' without output'}", job.id)

    def forgotten(self, job: ServiceJob) -> None:
        fate = self.fates[job.id]
        fate.forgotten_at = job.due_at() if self.forgets_at is None else self.forgets_at
        agreed_at = fate.accepted_at + round((job.expires_at - fate.accepted_at) * self.agreed_times)
        if job.finished_at is not None:
            kept_us = self._sync_retention_us if job.id.startswith("sync-") else self._retention_us
            agreed_at = min(agreed_at, job.finished_at + round(kept_us * self.agreed_times))
        if job.batch_id is not None:
            agreed_at = fate.forgotten_at + 1 if job.finished_at is None else job.finished_at + self.batch_retention_us
        fate.lost = fate.forgotten_at < agreed_at
        self.say("service", f"forgot it{' too early' * fate.lost}, which was {job.status}", job.id)


class ForgetfulWorld(World):
    """Tells its observer while it forgets everything at once."""

    def __init__(self, *, observer: FateBook, **settings: Any) -> None:
        super().__init__(observer=observer, **settings)
        self._observer = observer

    def forget_all(self, endpoint: str, now: int) -> None:
        self._observer.forgets_at = now
        super().forget_all(endpoint, now)
        self._observer.forgets_at = None


def _short(raw: bytes) -> str:
    return raw[:60].decode(errors="replace")


class Trace:
    """Lines of (true time, who, what, job), kept only if somebody wants them."""

    def __init__(self, now: Callable[[], int], *, kept: bool) -> None:
        self._now = now
        self._kept = kept
        self.lines: list[tuple[int, str, str, str]] = []

    def say(self, who: str, what: str, job: str = "") -> None:
        if self._kept:
            self.lines.append((self._now(), who, what, job))

    def text(self) -> str:
        """A line for each, in order of time."""
        return "\n".join(
            f"{(at - EPOCH_AT) / SECOND_US:13.6f} s  {who:<8} {what}{f'  [{job}]' if job else ''}"
            for at, who, what, job in sorted(self.lines, key=lambda line: line[0])
        )


def _place(raw_input: bytes) -> tuple[str, int] | None:
    resume = msgspec.json.decode(raw_input).get("resume")
    return None if resume is None else (resume["key"], resume["segment"])
