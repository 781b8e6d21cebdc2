"""How a run stands that some process serves, and its end: the same for that process and for those that follow it."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Final

from orchestrator.core.gates import gates
from orchestrator.core.gates.gates import Hold
from orchestrator.engine.runtime.progress import Progress
from orchestrator.errors import StoppedError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls

THROTTLED: Final = "throttled"


async def as_it_is(ledger: Ledger, run: Run) -> Run:
    """`run` as the ledger has it now. Raises `StoppedError` where it was deleted."""
    found = await ledger.runs.all([run.id])
    if not found or await ledger.runs.is_gone(run.id):
        raise StoppedError(f"{ledger.address}: the run {run.name!r} was deleted meanwhile")
    return found[0]


def totals(said: ProcessReport) -> Counter[str]:
    """The requests of a process by operation, and under `THROTTLED` how many were answered 429."""
    sent: Counter[str] = Counter()
    for meter in said.meters:
        sent[meter.operation.value] += meter.sent
        sent[THROTTLED] += meter.throttled
    return +sent


class ServedRun(ABC):
    """One run that is served. Whatever else changes than its `progress` is told of by `progress.nudge`."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self.run = run
        self.progress = progress

    @abstractmethod
    def reports(self, *, only: int | None = None) -> ProcessReport:
        """What the process that serves it says of itself; where a run is named, it may leave out the others."""

    @property
    @abstractmethod
    def controls(self) -> RunControls:
        """What people ask of it."""

    @property
    @abstractmethod
    def why_stopped(self) -> str | None:
        """Why nothing more of it can be submitted, if so."""

    @property
    @abstractmethod
    def why_blocked(self) -> str | None:
        """Which brake holds it, or what else has stopped it for good once nothing of it is outstanding, in a sentence;
        None where all goes as it should, or people asked for it.
        """

    @property
    @abstractmethod
    def is_uncollectable(self) -> bool:
        """Whether nothing of it can be asked for either."""

    @property
    @abstractmethod
    def is_adoptable(self) -> bool:
        """Whether webhooks may tell of its uncertain submissions."""

    @property
    @abstractmethod
    def is_released(self) -> bool:
        """Whether somebody asked that no more of it is sent, without pausing it."""

    @property
    @abstractmethod
    def is_saving(self) -> bool:
        """Whether files are made of its results before it is sent."""

    @property
    @abstractmethod
    def retention_us(self) -> int:
        """For how long its results may be counted on."""

    @abstractmethod
    async def jobs_came(self) -> None:
        """There are jobs that no step has told of."""

    @property
    def refreshed_at(self) -> int:
        """When it stood as it does here, as far as this process knows (microseconds UTC)."""
        return self.progress.clock.now()

    @property
    def of_run(self) -> RunReport:
        """What that process says of the run."""
        return self.reports(only=self.run.id).of(self.run.id)

    @property
    def report(self) -> ProcessReport:
        """What that process says of itself."""
        return self.reports()

    @property
    def sent(self) -> Counter[str]:
        """What the process that serves it has sent since that began, or this one follows; see `totals`."""
        return totals(self.report)

    @property
    def blocked_by(self) -> Hold | None:
        """Why no job of it is sent, or single ones only; None where nothing is wrong."""
        return self.blocked_in(self.of_run)

    def blocked_in(self, of_run: RunReport) -> Hold | None:
        """The same where the process that serves it says `of_run`."""
        return gates.requested_stop(cancelled=self.controls.cancel, paused=self.controls.pause) or of_run.blocked_by

    @property
    def is_over(self) -> bool:
        """Whether every job has its outcome, and its files where some were to be made first, or nothing more can be
        sent, nor come of what is at the service.
        """
        if self.is_released:
            return True
        if self.is_saving:
            return False
        if self.progress.unfinished == 0:
            return True
        is_collected = self.progress.to_collect(adoptable=self.is_adoptable) == 0 or self.is_uncollectable
        return self.why_stopped is not None and is_collected

    async def until_over(self, warn: Callable[[str], None]) -> None:
        """Waits for that; `warn` is told when nothing more is sent, which somebody may mend meanwhile."""
        until = self.progress.until
        while not self.is_over:
            await until(lambda: self.is_over or self.why_stopped is not None)
            if self.why_stopped is not None:
                warn(f"{self.why_stopped}: nothing more is sent")
                await until(lambda: self.is_over or self.why_stopped is None)
