"""What the service knows about its jobs and never tells: when each was accepted, how it ended, when it was forgotten."""

from collections.abc import Callable

import msgspec

from orchestrator.emulator.jobs.jobs import (
    JobExecution,
    RunBody,
    ServiceJob,
    ServiceRecord,
    ServiceStatus,
    WorkerResult,
)
from orchestrator.emulator.jobs.world import World
from orchestrator.units import SECOND_US
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

    def end_by(self, at: int) -> End | None:
        """How the job had ended by then, if it had."""
        return next((end for end in reversed(self.ends) if end.at <= at), None)


class ObservedWorld(World):
    """A world that writes down the fates of its jobs."""

    fates: dict[str, Fate]
    say: Say
    agreed_times: float = 1.0
    """For so many times as long it had agreed to keep a job."""
    _forgets_at: int | None = None
    """While it forgets everything at once."""

    def forget_all(self, endpoint: str, now: int) -> None:
        self._forgets_at = now
        super().forget_all(endpoint, now)
        self._forgets_at = None

    def submit(self, endpoint: str, submission: RunBody, now: int) -> ServiceRecord:
        record = super().submit(endpoint, submission, now)
        lost = record.id not in self._jobs
        self.fates[record.id] = Fate(
            input=bare(submission.input), place=_place(submission.input), accepted_at=now, lost=lost
        )
        self.say("service", "accepted and lost" if lost else "accepted", f"{record.id} {_short(submission.input)}")
        return record

    def take(self, endpoint: str, worker_id: str, now: int, *, pings: bool = False) -> JobExecution | None:
        execution = super().take(endpoint, worker_id, now, pings=pings)
        if execution is not None:
            self.fates[execution.job_id].executions += 1
            silent = " (and falls silent)" if execution.silent else ""
            self.say("worker", f"begins execution {execution.number}{silent}", execution.job_id)
        return execution

    def _finish(self, job: ServiceJob, status: ServiceStatus, now: int, result: WorkerResult) -> None:
        super()._finish(job, status, now, result)
        has_result = result.output is not None and b'"unfinished"' not in result.output
        self.fates[job.id].ends.append(End(now, status, has_result))
        self.say("service", f"{status}{'' if result.output else ' without output'}", job.id)

    def _forget(self, job: ServiceJob) -> None:
        super()._forget(job)
        fate = self.fates[job.id]
        fate.forgotten_at = job.due_at() if self._forgets_at is None else self._forgets_at
        agreed_at = fate.accepted_at + round((job.expires_at - fate.accepted_at) * self.agreed_times)
        if job.finished_at is not None:
            agreed_at = min(agreed_at, job.finished_at + round(self._retention_us * self.agreed_times))
        fate.lost = fate.forgotten_at < agreed_at
        self.say("service", f"forgot it{' too early' * fate.lost}, which was {job.status}", job.id)


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
