"""Sends the jobs of all runs at one endpoint: claims just in time, sends each within the limits, records what happened.

The intent is durable before a request leaves, so that a crash leaves no job in doubt that the ledger does not know to
be in doubt.
"""

from collections.abc import Sequence

from anyio.abc import TaskGroup

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.claim_turns import ClaimTurns
from orchestrator.engine.sending.lane_sender import LaneSender
from orchestrator.engine.sending.request_sender import RequestSender
from orchestrator.engine.sending.run_sender import SENDING, RunSender
from orchestrator.ledger import Ledger


class Dispatcher:
    """Sends at one endpoint. `task_pool` is where requests in flight live: they outlast the taking of new work."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        ledger: Ledger,
        task_pool: TaskPool,
        validators: ValidationPool,
    ) -> None:
        self._endpoint = endpoint
        self.sender = RequestSender(endpoint=endpoint, ledger=ledger, task_pool=task_pool, validators=validators)
        self.turns = ClaimTurns(endpoint=endpoint, task_pool=task_pool)
        self._lanes = tuple(
            LaneSender(operation, endpoint=endpoint, task_pool=task_pool, turns=self.turns, sender=self.sender)
            for operation in SENDING
        )
        self._is_serving = False
        endpoint.changes.add(self.wake)

    def add(self, run: RunSender) -> None:
        """Sends the jobs of `run`, too, from now on."""
        self.turns.runs[run.run] = run
        self.wake()
        self.turns.added.wake()

    async def remove(self, run: int) -> None:
        """Sends no more of `run`; what is in flight comes to its end."""
        self.turns.remove(run)
        for lane in self._lanes:
            await self.sender.give_back(lane.take_out(run))

    async def begin(self, taking: TaskGroup) -> None:
        """Sends from now on, in `taking`, unless it does: several runs may begin at the same moment."""
        if not self._is_serving:
            self._is_serving = True
            for lane in self._lanes:
                await taking.start(lane.serve)

    def wake(self) -> None:
        """Something is different: it is looked again what may go."""
        for run in self.turns.runs.values():
            run.on_queued()
        for lane in self._lanes:
            lane.wake()

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        runs = self.turns.runs
        queued = {
            step.after.run
            for step in taken
            if step.after.state is State.QUEUED
            and (sender := runs.get(step.after.run)) is not None
            and sender.waits_here(step.after)
        }
        for run in queued:
            runs[run].on_queued()
            for lane in self._lanes:
                lane.wake()
