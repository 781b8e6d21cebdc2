"""The brakes (budget, canary, failures, deadline) of all runs that are served: what they count, followed and written
down.
"""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.clock import Clock
from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.ended_executions import ended_by
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.text.next_step import Wording
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.run_brakes import RunBrakes
from orchestrator.engine.sending.spending import Spending
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place, place_of
from orchestrator.settings.run_settings import RunSettings


class ServedBrakes:
    """Of all runs that are served."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        *,
        console: Console,
        word: Wording,
        name_of: Callable[[int, int], str],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._settings_of = settings_of
        self._console, self._word = console, word
        self.spent = Spending(name_of)
        self._is_counted = False
        self._runs: dict[int, RunBrakes] = {}

    async def of(self, run: Run, progress: Progress) -> RunBrakes:
        """Those of `run`, which is served from now on."""
        if not self._is_counted:
            await self._ledger.jobs.brakes.recount(self._recount)
        found = RunBrakes(
            run=run,
            ledger=self._ledger,
            settings=lambda: self._settings_of[run.id],
            progress=progress,
            spent=self.spent,
            console=self._console,
            word=self._word,
        )
        await found.load()
        self._runs[run.id] = found
        return found

    def _recount(self, executions: Mapping[Place, DurationTotals]) -> None:
        self._is_counted = True
        self.spent.recount(executions)

    def forget(self, run: int) -> None:
        """`run` is none any more."""
        self._runs.pop(run, None)

    async def follow(self) -> None:
        """Looks which runs people had go on."""
        for run, at in (await self._ledger.jobs.brakes.continued()).items():
            if run in self._runs:
                self._runs[run].go_on(at)

    async def write_down(self, *, is_last: bool = False) -> None:
        """Leaves to the next process what has changed, or all where that `is_last`. Raises `StorageError`."""
        for each in list(self._runs.values()):
            await each.write_down(is_last=is_last)

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        now = self._clock.now()
        for step in taken:
            ended = ended_by(step)
            if self._is_counted and ended is not None:
                self.spent.add(place_of(step), ended.took)
            if (of_run := self._runs.get(step.after.run)) is not None:
                of_run.on_step(step, ended, now)
