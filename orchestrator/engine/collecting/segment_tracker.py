"""The segments of an endpoint's resumable jobs, as questions show them: what is kept of their reports, and their ends.

A report is written before anything else is made of the answer that brought it, so whatever a question has seen is what
the next segment begins with. What has been written once is not written again: workers repeat their reports.
"""

from dataclasses import dataclass

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.segments import CHECKPOINT_BYTES_MAX, Report, SegmentEnd, report_of, segment_end
from orchestrator.core.polling.remote_queue import begun_at_of
from orchestrator.core.polling.stuck_jobs import QUEUED
from orchestrator.core.service.job_record import Record
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ledger import Ledger
from orchestrator.ledger.transitions.segment_writes import Reported


@dataclass(kw_only=True, eq=False)
class SegmentTracker:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger

    async def observe(self, job: Job, record: Record, sent_at: int) -> None:
        """A question that was sent at `sent_at` found `job` unfinished: keeps what is new in the answer."""
        if record.status == QUEUED or not self.endpoint.outstanding.is_resumable(job):
            return
        submission, seq = self.endpoint.outstanding.reported.get(job.id, (None, -1))
        is_first = submission != job.submission
        report = report_of(record)
        if report is not None and (is_first or (report.seq or 0) > seq):
            await self._keep(job, report, record, sent_at)
        elif is_first:
            begun_at = begun_at_of(job, record, sent_at) or sent_at
            await self.ledger.jobs.segments.begun(job=job.id, submission=job.submission or 0, begun_at=begun_at)
            self.endpoint.outstanding.reported[job.id] = job.submission, -1

    async def _keep(self, job: Job, report: Report, record: Record, sent_at: int) -> None:
        if report.too_large:
            self.endpoint.warn(
                f"a worker reports a checkpoint of {report.too_large:,} bytes: none over {CHECKPOINT_BYTES_MAX:,} is"
                " taken, and the job goes on from the one before. Keep the data in a storage of your own, and report"
                " where they are"
            )
        said = Reported(
            job=job.id,
            submission=job.submission or 0,
            report=report,
            at=sent_at,
            begun_at=begun_at_of(job, record, sent_at) or sent_at,
        )
        [latest] = await self.ledger.jobs.segments.report([said])
        if latest is not None:
            self.endpoint.outstanding.reported[job.id] = job.submission, latest.seq
            self.endpoint.stuck_detector.moved(job, latest.reported_at)
            if latest.owes_cancel:
                self.endpoint.owed.wake()

    async def end(self, job: Job, record: Record | None) -> SegmentEnd | None:
        """How the latest segment of `job` ended, of which `record` tells; None where it is not resumable."""
        if not self.endpoint.outstanding.is_resumable(job):
            return None
        standing = (await self.ledger.jobs.segments.standings([job.id])).get(job.id)
        return None if standing is None else segment_end(standing, record, unfinished_at=job.unfinished_at)
