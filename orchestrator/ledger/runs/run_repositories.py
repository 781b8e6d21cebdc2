"""The runs of a ledger as its callers hold them: with what is kept of them beside the runs themselves."""

from orchestrator.ledger.posted.posted_repositories import PostedRepositories
from orchestrator.ledger.runs.batches import Batches
from orchestrator.ledger.runs.endpoints import ChosenLimits, LearnedOfEndpoints, ScalingOverrides, Shards
from orchestrator.ledger.runs.heartbeats import Heartbeats
from orchestrator.ledger.runs.intakes import Intakes
from orchestrator.ledger.runs.pod_leases import PodLeases
from orchestrator.ledger.runs.releases import Releases
from orchestrator.ledger.runs.runs import Runs
from orchestrator.ledger.transactions.repository import Access


class RunRepositories(Runs):
    """The runs of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.intakes = Intakes(access)
        self.removals = Intakes(access)
        """What clears runs beside everything else, however much there is of them: in short transactions."""

        self.removals.pace.is_beside = lambda: True
        self.heartbeats = Heartbeats(access)
        self.limits = ChosenLimits(access)
        self.scaling_overrides = ScalingOverrides(access)
        self.pod_leases = PodLeases(access)
        self.learned = LearnedOfEndpoints(access)
        self.shards = Shards(access)
        self.batches = Batches(access)
        self.releases = Releases(access)
        self.posted = PostedRepositories(access)
