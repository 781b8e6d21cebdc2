"""What a ledger tells those who look at it."""

from collections.abc import Collection

from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.monitoring.tallies import Tallies
from orchestrator.ledger.monitoring.traced_jobs import TracedJobs
from orchestrator.ledger.reports.audit import Audit
from orchestrator.ledger.reports.ended_jobs import JobsByEnd
from orchestrator.ledger.reports.event_feed import Feed
from orchestrator.ledger.reports.event_pruning import Pruning
from orchestrator.ledger.reports.exports import Exports
from orchestrator.ledger.reports.failed_executions import FailedExecutions
from orchestrator.ledger.reports.failed_jobs import FailedJobs
from orchestrator.ledger.reports.file_maintenance import Upkeep
from orchestrator.ledger.reports.job_detail import JobDetails
from orchestrator.ledger.reports.job_queries import JobQueries
from orchestrator.ledger.reports.run_list import RunList
from orchestrator.ledger.reports.run_summaries import RunSummaries, overview
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.repository import Access, Repository, asked_again


class Reports(Repository):
    """What a ledger tells those who look at it, and what is done with it as a whole."""

    def __init__(self, access: Access, database: LedgerDatabase, writer: GroupCommitWriter) -> None:
        super().__init__(access)
        self.feed = Feed(access, writer)
        self.job_queries = JobQueries(access)
        self.job_details = JobDetails(access)
        self.failed_executions = FailedExecutions(access)
        self.pruning = Pruning(access)
        self.audit = Audit(access, database)
        self.upkeep = Upkeep(access, database)
        self.exports = Exports(access)
        self.tallies = Tallies(access)
        self.traced_jobs = TracedJobs(access)
        self.run_list = RunList(access)
        self.ended_jobs = JobsByEnd(access)
        self.failed_jobs = FailedJobs(access)

    @asked_again
    async def overview(self, *, among: Collection[int] | None = None) -> RunSummaries:
        """Every run at once, or those of these numbers."""
        return await overview(self._access, among=among)
