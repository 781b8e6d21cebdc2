"""One run, as the engine serves it: how it stands, and its sending."""

from collections.abc import Callable

from anyio.abc import TaskGroup

from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.observers.progress import Progress
from orchestrator.engine.observers.standing import Standing
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.run_sending import RunSending
from orchestrator.engine.upkeep.control import Control
from orchestrator.ledger import Ledger
from orchestrator.ledger.control import Wishes
from orchestrator.ledger.heartbeats import Said
from orchestrator.ledger.runs import Run


class RunSession(Standing):
    """One run, from its taking on to its end. Nothing of it is sent before `send`, or after `release`."""

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
        said: Callable[[], Said],
    ) -> None:
        super().__init__(run, progress)
        self.endpoint = endpoint
        self.dispatcher = dispatcher
        self.sending = sending
        self._control = control
        self._ledger = ledger
        self._taking = taking
        self._said = said
        self._is_released = False
        endpoint.on_change(progress.nudge)

    @property
    def said(self) -> Said:
        """What this process says of itself."""
        return self._said()

    @property
    def wishes(self) -> Wishes:
        """What people ask of it."""
        return self._control.wishes(self.run.id)

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of it can be submitted, if so."""
        return self.endpoint.why_stopped(self.run.id)

    @property
    def is_uncollectable(self) -> bool:
        """Whether even `/status` is refused."""
        return self.endpoint.uncollectable is not None

    @property
    def is_adoptable(self) -> bool:
        """Whether webhooks may tell of its uncertain submissions."""
        return self.endpoint.webhooks

    @property
    def is_released(self) -> bool:
        """Whether somebody asked that no more of it is sent, without pausing it."""
        return self._is_released

    @property
    def retention_us(self) -> int:
        """For how long its results may be counted on."""
        return self.endpoint.retention_us(self.run.id)

    async def count_anew(self) -> None:
        """Jobs may have come that no step tells of."""
        await self._ledger.runs.count_anew(self.run.id, self.progress.count_anew)
        self.dispatcher.wake()

    async def send(self) -> None:
        """Begins to send its jobs."""
        self._is_released = False
        self.dispatcher.add(self.sending)
        if not self.dispatcher.is_serving:
            await self._taking.start(self.dispatcher.serve)

    async def release(self) -> None:
        """Sends no more of its jobs; what is at the service is collected."""
        self._is_released = True
        await self.dispatcher.remove(self.run.id)
        self.progress.nudge()
