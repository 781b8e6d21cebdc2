"""The flows of a ledger as its callers hold them: with the pipelines that they are of, and what goes through them."""

from orchestrator.ledger.flows.fires import Fires
from orchestrator.ledger.flows.flows import Flows
from orchestrator.ledger.flows.groups import Groups
from orchestrator.ledger.flows.handovers import Handovers
from orchestrator.ledger.flows.lineage import JobLineage
from orchestrator.ledger.flows.outbox import Outbox
from orchestrator.ledger.flows.outlived_runs import OutlivedRuns
from orchestrator.ledger.flows.pipelines import Pipelines
from orchestrator.ledger.flows.run_outbox import RunOutbox
from orchestrator.ledger.monitoring.abandonments import Abandonments
from orchestrator.ledger.transactions.repository import Access


class FlowRepositories(Flows):
    """The flows of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.pipelines = Pipelines(access)
        self.outlived_runs = OutlivedRuns(access)
        self.fires = Fires(access)
        self.handovers = Handovers(access)
        self.lineage = JobLineage(access)
        self.groups = Groups(access)
        self.outbox = Outbox(access)
        self.run_outbox = RunOutbox(access)
        self.abandonments = Abandonments(access)
