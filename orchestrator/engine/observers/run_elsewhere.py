"""A run that another engine serves, here or in another process: how it stands, as the ledger and that process's
heartbeat tell.
"""

from collections.abc import Sequence
from typing import Final

import anyio

from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.engine.observers.served_run import ServedRun, as_it_is
from orchestrator.engine.runtime.progress import Progress
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import Heartbeat, ProcessReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.views.status import CollectedBy

NOBODY: Final = Heartbeat(slot=0, process="", began_at=0, beaten_at=0, epoch=0, report=ProcessReport())


def heard_of(run: int, beats: Sequence[Heartbeat]) -> Heartbeat | None:
    """What is said by the process that serves `run`, or knows it at least, or by any; None where none says anything."""
    knowing = [beat for beat in beats if run in beat.report.runs]
    serving = [beat for beat in knowing if not beat.report.runs[run].is_unserved]
    return next(iter([*serving, *knowing, *beats]), None)


class RunElsewhere(ServedRun):
    """`run` of `ledger`, as it was when somebody last had it `look`."""

    def __init__(self, ledger: Ledger, run: Run) -> None:
        super().__init__(run, Progress(run.id, {}, margin_min_s=None, clock=ledger.clock))
        self.ledger = ledger
        self._controls = RunControls()
        self._learned = Learned()
        self.beat = NOBODY
        """What the process that serves it said last."""
        self._looking = anyio.Lock()

    def reports(self, *, only: int | None = None) -> ProcessReport:  # noqa: ARG002  it has said it of all
        """The same, of whichever runs, without when it was said, and by whom."""
        return self.beat.report

    @property
    def controls(self) -> RunControls:
        """What people ask of it."""
        return self._controls

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of it can be submitted, if so."""
        return self.of_run.stopped

    @property
    def why_blocked(self) -> str | None:
        """Which brake holds it, or what else has stopped it for good, in a sentence."""
        if self.progress.unfinished == 0 or self.is_released or self.controls.pause or self.controls.cancel:
            return None
        if (hold := self.of_run.blocked_by) is not None and hold.gate in set(Brake):
            return hold.why
        return self.why_stopped if self.is_over else None

    @property
    def is_uncollectable(self) -> bool:
        """Whether even `/status` is refused."""
        return self.of_run.is_uncollectable

    @property
    def is_adoptable(self) -> bool:
        """Whether webhooks may tell of its uncertain submissions."""
        collecting = self.of_run.collecting
        return collecting is not None and collecting.by is not CollectedBy.POLLING

    @property
    def is_released(self) -> bool:
        """Whether somebody asked that no more of it is sent, without pausing it."""
        return self.of_run.is_released

    @property
    def is_saving(self) -> bool:
        """Whether files are made of its results before it is sent."""
        return self.of_run.is_saving

    @property
    def retention_us(self) -> int:
        """For how long its results may be counted on."""
        return self._learned.retention_us(self.run.settings.retention_us)

    async def jobs_came(self) -> None:
        """There are jobs that no step has told of: whoever serves it finds them by itself."""
        await self.look()

    async def look(self) -> None:
        """Reads how it stands: one look after the other, so that none ends with what was so before the last one.
        Raises `StoppedError` where it was deleted.
        """
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        ledger, run = self.ledger, self.run.id
        self.run = await as_it_is(ledger, self.run)
        self._controls = await ledger.runs.controls(run)
        self._learned = await ledger.runs.learned.of(self.run.endpoint_id)
        fresh = [beat for beat in await ledger.runs.heartbeats.all() if beat.is_fresh(ledger.now())]
        if (beat := heard_of(run, fresh)) is not None and beat != self.beat:
            await self.hears(beat)
        self.progress.margin_min_s = (await ledger.jobs.margins.of(run)).min
        self.progress.recount(await ledger.runs.counts(run))

    async def hears(self, beat: Heartbeat) -> None:
        """The process that serves it has said something else."""
        self.beat = beat
