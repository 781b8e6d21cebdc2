"""Adds up the steps of jobs by run and by endpoint, as the ledger tells of them."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.samples.buckets import Histogram
from orchestrator.core.samples.step_counts import CountedStep, StepCounts, counted_step
from orchestrator.settings.run_settings import RunSettings


class StepMeter:
    """By the numbers of runs and endpoints. `settings_of` says what a second of a worker costs."""

    def __init__(self, settings_of: Mapping[int, RunSettings], now: Callable[[], int]) -> None:
        self._settings_of = settings_of
        self._now = now
        self.of_run: dict[int, StepCounts] = {}
        self.of_endpoint: dict[int, StepCounts] = {}
        self.reopened: set[int] = set()
        """Runs that have jobs to do again."""

        self.collected_at: dict[int, int] = {}
        """When the last result came from each endpoint."""

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """A transaction has made these."""
        for transition in taken:
            if (step := counted_step(transition)) is not None:
                self.add(transition.after.run, transition.before.endpoint, step)

    def add(self, run: int, endpoint: int, step: CountedStep) -> None:
        """A job of `run` has made `step`, which was at `endpoint` before it."""
        settings = self._settings_of.get(run)
        price = None if settings is None else settings.price_per_second
        if step.event is Event.REOPENED:
            self.reopened.add(run)
        self._counts(self.of_run, run).add(step)
        self._counts(self.of_endpoint, endpoint).add(step, price)
        if step.event is Event.COMPLETED and step.is_executed:
            self.collected_at[endpoint] = self._now()

    @staticmethod
    def _counts(of: dict[int, StepCounts], number: int) -> StepCounts:
        if (found := of.get(number)) is None:
            found = of[number] = StepCounts()
        return found

    def beside(self, taken: Sequence[Transition]) -> "StepMeter":
        """What these steps alone come to, of which it is still to be told."""
        other = StepMeter(self._settings_of, self._now)
        other.on_steps(taken)
        return other

    def forget(self, run: int) -> None:
        """What `run` came to is written down, and nothing more of it is to be."""
        self.of_run.pop(run, None)
        self.reopened.discard(run)


def added(*parts: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, together."""
    found: dict[str, int] = {}
    for part in parts:
        for name, n in part.items():
            found[name] = found.get(name, 0) + n
    return found


def merged(*parts: Histogram) -> Histogram:
    """All values of these."""
    found = parts[0]
    for part in parts[1:]:
        found = found.plus(part)
    return found
