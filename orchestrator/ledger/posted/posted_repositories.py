"""What has been posted to the Batch API, as callers hold it."""

from orchestrator.ledger.posted.posted_batches import PostedBatches
from orchestrator.ledger.posted.posted_files import PostedFiles
from orchestrator.ledger.posted.posted_totals import PostedTotals
from orchestrator.ledger.transactions.repository import Access


class PostedRepositories:
    """All of it."""

    def __init__(self, access: Access) -> None:
        self.files = PostedFiles(access)
        self.batches = PostedBatches(access)
        self.totals = PostedTotals(access)
