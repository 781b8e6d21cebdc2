"""What workers do with the jobs of the emulated service: take one, show how far it is, report its end."""

from collections import Counter
from typing import Final

import msgspec

from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.emulator.jobs.endpoint_table import EndpointTable
from orchestrator.emulator.jobs.job_table import JobTable
from orchestrator.emulator.jobs.jobs import JobExecution, ServiceJob, ServiceStatus, WorkerResult
from orchestrator.units import SECOND_US

_parts: Final = msgspec.json.Decoder(list[msgspec.Raw])
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Executions:
    """The workers' side of the world; `silence_us` and `service_retries` are as `World` says."""

    def __init__(
        self, jobs: JobTable, endpoints: EndpointTable, dice: FaultDice, *, silence_us: int, service_retries: int
    ) -> None:
        self._jobs = jobs
        self._endpoints = endpoints
        self._dice = dice
        self._silence_us = silence_us
        self._service_retries = service_retries
        self.late_progress: Counter[str] = Counter()
        """By endpoint: how often a worker showed how far it is when nobody waited for that any more."""

    def take(self, endpoint: str, worker_id: str, now: int, *, pings: bool = False) -> JobExecution | None:
        """Hand the oldest queued job to a worker, or None. A fault may make the worker silent from here on.

        A job that is tried again is left for another worker than the last, if one is free.
        A worker that `pings` has to name the job every now and then (see `ping`).
        """
        state = self._endpoints.state(endpoint)
        while (job := state.pop(worker_id)) is not None:
            if now < job.expires_at:
                return self._start(job, worker_id, now, pings=pings)
            self._jobs.forget(job)
        return None

    def done(self, execution: JobExecution, result: WorkerResult, now: int) -> bool:
        """A worker reports. False, and without effect, if nobody waits for this execution any more."""
        job = self._jobs.find_executed(execution.job_id, execution.number, now)
        if job is None:
            return False
        result = self._spoil(result)
        if job.status is ServiceStatus.IN_PROGRESS:
            self._jobs.leave_worker(job, now)
        else:  # handed out twice, and the second worker has not come for it yet
            self._endpoints.state(job.endpoint).drop(job.id)
        if result.error is not None and job.retries < self._service_retries and not job.is_shared:
            self._jobs.dispatch_again(job)
        else:
            status = ServiceStatus.COMPLETED if result.error is None else ServiceStatus.FAILED
            self._jobs.finish(job, status, now, result)
        if result.refresh:
            self._endpoints.retire(job.endpoint, execution.worker_id)
        return True

    def progress(self, execution: JobExecution, output: bytes, now: int) -> bool:
        """A worker shows how far it is; False, and without effect, once nobody waits for this execution any more."""
        job = self._jobs.find_executed(execution.job_id, execution.number, now)
        if job is not None:
            is_overtaken = job.update is not None and self._dice.strikes(Fault.STALE_PROGRESS)
            job.output = job.update if is_overtaken else output
            job.update = output
        return job is not None

    def put_chunk(self, execution: JobExecution, output: bytes, now: int) -> bool:
        """A worker streams a chunk; False, and without effect, once nobody waits for this execution any more."""
        job = self._jobs.find_executed(execution.job_id, execution.number, now)
        if job is not None:
            self._jobs.streams.put(job.id, output)
            self._jobs.note_change(job.id)
        return job is not None

    def ping(self, worker_id: str, job_ids: tuple[str, ...], now: int) -> None:
        """A worker names the jobs that it holds: it is not silent about them (as observed)."""
        for job_id in job_ids:
            job = self._jobs.by_id.get(job_id)
            if job is not None and job.pings_count and job.worker_id == worker_id and job.silent_until is not None:
                job.silent_until = max(job.silent_until, now + self._silence_us)
                self._jobs.set_alarm(job)

    def _start(self, job: ServiceJob, worker_id: str, now: int, *, pings: bool) -> JobExecution:
        job.start(worker_id, now)
        dead = self._dice.strikes(Fault.DEAD_WORKER) or job.is_empty
        stuck = not dead and self._dice.strikes(Fault.STUCK_WORKER)
        job.pings_count = pings and not dead
        if dead:
            job.silent_until = now + round(self._dice.faults.silence_s * SECOND_US)
        elif pings and not stuck:
            job.silent_until = now + self._silence_us
        if self._dice.strikes(Fault.KILLED_WORKER):
            after_s = self._dice.share(Fault.KILLED_WORKER) * self._dice.faults.killed_after_s
            job.killed_at = now + round(after_s * SECOND_US)
        state = self._endpoints.state(job.endpoint)
        state.in_progress += 1
        state.fleet.began(worker_id)
        self._jobs.set_alarm(job)
        execution = job.execution(worker_id, silent=dead or stuck)
        self._jobs.observer.started(job, is_silent=execution.silent)
        if not execution.silent and execution.number == 1 and self._dice.strikes(Fault.DUPLICATE_DISPATCH):
            self._jobs.leave_worker(job, now)
            job.share()
            self._jobs.queue_again(job)
        return execution

    def _spoil(self, result: WorkerResult) -> WorkerResult:
        if result.error is not None:
            return result
        if self._dice.strikes(Fault.HANDLER_ERROR):
            return WorkerResult(error="handler error (injected)", refresh=result.refresh)
        if self._dice.strikes(Fault.EMPTY_OUTPUT):
            return WorkerResult(refresh=result.refresh)
        if not self._dice.rate(Fault.MISSING_PART):  # else each output would be read for nothing
            return result
        shorter = _without_last_part(result.output or b"")
        if shorter is not None and self._dice.strikes(Fault.MISSING_PART):
            return msgspec.structs.replace(result, output=shorter)
        return result


def _without_last_part(output: bytes) -> bytes | None:
    """An output that is a list of several parts, or has one, without the last; None where it is no such."""
    if output.startswith(b"["):
        parts = _parts.decode(output)
        return msgspec.json.encode(parts[:-1]) if len(parts) > 1 else None
    if output.startswith(b"{"):
        for name, member in (members := _members.decode(output)).items():
            if bytes(member).startswith(b"[") and (shorter := _without_last_part(bytes(member))) is not None:
                return msgspec.json.encode({**members, name: msgspec.Raw(shorter)})
    return None
