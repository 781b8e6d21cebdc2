"""The runs of stages, wherever they are served: by the engine that carries out flows, or by another one, which is then
followed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.observers.runs_elsewhere import RunsElsewhere
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.ledger.runs.runs import Run


@dataclass(kw_only=True, eq=False)
class StageRuns:
    """Of one engine, whose `host` serves those in its scope; `wake_others` tells the other engines of its process that
    something was asked of a run, or has come to it.
    """

    host: RunHost
    wake_others: Callable[[], None]
    changed: Callable[[], None] = lambda: None
    """Is called when one of those that others serve may stand otherwise."""

    _elsewhere: RunsElsewhere = field(init=False)

    def __post_init__(self) -> None:
        self._elsewhere = RunsElsewhere(self.host.ledger, self._looked)

    def on_change(self) -> None:
        """Other engines may have done something."""
        self._elsewhere.on_change()

    def _looked(self) -> None:
        self.changed()

    def on_steps(self, _taken: Sequence[Transition]) -> None:
        """An engine of this process has made these."""
        self.on_change()

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Keeps those up to date that others serve, until cancelled."""
        await self._elsewhere.serve(task_status=task_status)

    async def served(self, run: Run) -> ServedRun | None:
        """`run`, which is served from now on; None where that cannot be now. Another engine serves by itself what has
        jobs to send. Raises `UsageError` for a function that cannot be loaded.
        """
        if self.host.endpoints.scope.has(run.endpoint_id):
            return await self.host.serve_own(run)
        return await self._elsewhere.follow(run)

    def of(self, run: int) -> ServedRun | None:
        """The run of that number, as it is served; None where it is not."""
        return self.host.runs.sessions.get(run) or self._elsewhere.of(run)

    def why_unservable(self, run: int) -> str | None:
        """Why it cannot be served; None where it can, as far as is known."""
        held = self.host.runs.unservable.get(run)
        return None if held is None else held.why

    def leave(self, run: int) -> None:
        """Nobody waits for it any more."""
        self._elsewhere.leave(run)

    async def look_again(self, run: int) -> None:
        """It has another name by now, or was deleted."""
        await self.host.look_again(run)
        self.wake_others()

    def asked(self) -> None:
        """Something is asked of runs."""
        self.host.control.on_change()
        self.wake_others()
