"""The faults by which the service says of its jobs what is not so; the jobs themselves are what they are."""

from collections.abc import Mapping
from itertools import islice

import msgspec

from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.emulator.jobs.jobs import ServiceJob, ServiceRecord, ServiceStatus

CANDIDATES_MAX = 100
"""One of so many other jobs is taken for the one that was meant."""

ABSURD_TIMES = tuple(map(msgspec.Raw, (b"1e400", b"9007199254740991", b"-1", b'"soon"')))


class FalseAnswers:
    """What is said of `jobs`, which is by id, oldest first."""

    def __init__(self, jobs: Mapping[str, ServiceJob], dice: FaultDice) -> None:
        self._jobs = jobs
        self._dice = dice

    def accepted(self, endpoint: str, record: ServiceRecord) -> ServiceRecord:
        """The answer to the `/run` that made this record."""
        other = self._mistaken(Fault.REPEATED_ID, endpoint, record.id)
        return record if other is None else msgspec.structs.replace(record, id=other.id)

    def shown(self, endpoint: str, record: ServiceRecord) -> ServiceRecord:
        """The answer to a `/status` of which this is the record."""
        other = self._mistaken(Fault.OTHER_RECORD, endpoint, record.id)
        return self._timed(record if other is None else other.record())

    def announcements(self, job: ServiceJob) -> tuple[ServiceRecord, ...]:
        """What the webhook of a job that has ended brings, call after call."""
        other = self._mistaken(Fault.OTHER_WEBHOOK, job.endpoint, job.id)
        record = self._timed((other or job).announcement())
        namesake = self._mistaken(Fault.OTHER_ID_WEBHOOK, job.endpoint, job.id)
        if namesake is not None:
            record = msgspec.structs.replace(record, id=namesake.id)
        if record.status is not ServiceStatus.COMPLETED or not self._dice.strikes(Fault.CONTRARY_WEBHOOK):
            return (record,)
        contrary = msgspec.structs.replace(
            record, status=ServiceStatus.FAILED, output=None, error="the contrary (injected)"
        )
        return self._dice.choice(Fault.CONTRARY_WEBHOOK, ((record, contrary), (contrary, record)))

    def _mistaken(self, fault: Fault, endpoint: str, job_id: str) -> ServiceJob | None:
        """Where `fault` strikes, another job of the endpoint, if there is any: one that has completed, if possible."""
        if not self._dice.strikes(fault):
            return None
        others = [job for job in self._jobs.values() if job.id != job_id and job.endpoint == endpoint]
        completed = (job for job in others if job.status is ServiceStatus.COMPLETED)
        options = tuple(islice(completed, CANDIDATES_MAX)) or tuple(others[:CANDIDATES_MAX])
        return self._dice.choice(fault, options) if options else None

    def _timed(self, record: ServiceRecord) -> ServiceRecord:
        if record.execution_time is None or not self._dice.strikes(Fault.ABSURD_TIMES):
            return record
        delay, execution = (self._dice.choice(Fault.ABSURD_TIMES, ABSURD_TIMES) for _ in range(2))
        return msgspec.structs.replace(record, delay_time=delay, execution_time=execution)
