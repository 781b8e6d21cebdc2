"""The jobs of a ledger as its callers hold them: with what is kept of them beside the jobs themselves."""

from orchestrator.ledger.jobs.brake_state import Brakes
from orchestrator.ledger.jobs.cancels import Cancels
from orchestrator.ledger.jobs.claims import Claims
from orchestrator.ledger.jobs.history import History
from orchestrator.ledger.jobs.jobs import Jobs
from orchestrator.ledger.jobs.kept_outputs import KeptOutputs
from orchestrator.ledger.jobs.margins import MarginsOfRuns
from orchestrator.ledger.jobs.notices import Notices
from orchestrator.ledger.jobs.result_reuse import Reused
from orchestrator.ledger.jobs.results import Results
from orchestrator.ledger.jobs.segments import Segments
from orchestrator.ledger.jobs.submissions import Submissions
from orchestrator.ledger.transactions.repository import Access


class JobRepositories(Jobs):
    """The jobs of a ledger; claims are those of the process in `slot`."""

    def __init__(self, access: Access, *, slot: int) -> None:
        super().__init__(access)
        self.claims = Claims(access, slot=slot)
        self.submissions = Submissions(access)
        self.segments = Segments(access)
        self.notices = Notices(access)
        self.cancels = Cancels(access)
        self.results = Results(access)
        self.outputs = KeptOutputs(access)
        self.reused = Reused(access)
        self.history = History(access)
        self.margins = MarginsOfRuns(access)
        self.brakes = Brakes(access)
