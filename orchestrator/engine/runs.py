"""One run, as the engine serves it: how it stands, and its sending."""

from collections.abc import Iterator

from anyio.abc import TaskGroup

from orchestrator.core.lifecycle import State
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.intake import Advice, InputBatch, Intake
from orchestrator.engine.observers.progress import Progress
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.run_sending import RunSending
from orchestrator.engine.upkeep.control import Control
from orchestrator.ledger import Ledger
from orchestrator.ledger.intakes import Taken
from orchestrator.ledger.runs import Run


class RunSession:
    """One run, from its taking on to its end. Nothing of it is sent before `send`."""

    def __init__(
        self,
        *,
        run: Run,
        endpoint: Endpoint,
        ledger: Ledger,
        progress: Progress,
        control: Control,
        dispatcher: Dispatcher,
        sending: RunSending,
        taking: TaskGroup,
    ) -> None:
        self.run = run
        self.endpoint = endpoint
        self.progress = progress
        self.dispatcher = dispatcher
        self.sending = sending
        self._control = control
        self._ledger = ledger
        self._taking = taking
        self._intake: Intake | None = None
        endpoint.on_change(progress.nudge)

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of the run can be submitted, if so."""
        return self.endpoint.why_stopped(self.run.id)

    @property
    def held_up(self) -> str | None:
        """Why no job is sent, or single ones only, in one sentence; None where nothing is wrong."""
        return self.endpoint.held_up(self.run.id, self._control.wishes(self.run.id))

    @property
    def rows_read(self) -> int | None:
        """How many rows of its input were read; None while none is read."""
        return None if self._intake is None else self._intake.rows_read

    async def take_in(self, source: str, batches: Iterator[InputBatch], *, advice: Advice) -> Taken:
        """Takes in every row of `batches`, or none. Raises `InputError`, see `Intake.take`."""
        self._intake = Intake(self._ledger, self.run, source=source)
        taken = await self._intake.take(batches, advice=advice)
        self._intake = None
        self.progress.add(State.QUEUED, taken.new)
        return taken

    async def send(self) -> None:
        """Begins to send its jobs."""
        self.dispatcher.add(self.sending)
        if not self.dispatcher.is_serving:
            await self._taking.start(self.dispatcher.serve)

    async def until_no_more_is_sent(self) -> None:
        """Waits until every job has its outcome, or going on submitting is pointless."""
        await self.progress.until(lambda: self.progress.unfinished == 0 or self.why_stopped is not None)

    async def until_collected(self, *, adoptable: bool) -> bool:
        """Waits until nothing more can come of what is at the service, or it cannot be collected.

        Returns before that, and True, where sending goes on, as somebody has mended what stopped it.
        `adoptable` is whether webhooks may tell of uncertain submissions.
        """

        def is_over() -> bool:
            is_collected = self.progress.to_collect(adoptable=adoptable) == 0
            return is_collected or self.endpoint.uncollectable is not None or self.why_stopped is None

        await self.progress.until(is_over)
        return self.why_stopped is None
