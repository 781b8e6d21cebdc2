"""What there is to see of much at once, as a ledger's callers hold it."""

from orchestrator.ledger.overviews.endpoint_summaries import EndpointSummaries
from orchestrator.ledger.overviews.flow_summaries import FlowSummaries
from orchestrator.ledger.transactions.repository import Access, Repository


class Overviews(Repository):
    """The overviews of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.flows = FlowSummaries(access)
        self.endpoints = EndpointSummaries(access)
