"""Adds up the steps of jobs by run and by endpoint, as the ledger tells of them."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.core.gates.costs import batch_price
from orchestrator.core.gates.ended_executions import is_in_batch
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.buckets import Histogram
from orchestrator.core.samples.step_counts import CountedStep, StepCounts, TimesOfExecution, counted_step
from orchestrator.settings.run_settings import RunSettings


class _Usual:
    """The two steps that nearly all are, of the jobs of a run at an endpoint, not added up yet."""

    __slots__ = ("accepted", "told")

    def __init__(self) -> None:
        self.accepted = 0
        self.told: list[TimesOfExecution] = []


class StepMeter:
    """By the numbers of runs and endpoints. `settings_of` says what a second of a worker costs at an endpoint, and
    `name_of` what that is called, for a run.
    """

    def __init__(
        self, settings_of: Mapping[int, RunSettings], name_of: Callable[[int, int], str], now: Callable[[], int]
    ) -> None:
        self._settings_of = settings_of
        self._name_of = name_of
        self._now = now
        self.of_run: dict[int, StepCounts] = {}
        self.of_endpoint: dict[int, StepCounts] = {}
        self._usuals: dict[tuple[int, int, bool], _Usual] = {}
        self.reopened: set[int] = set()
        """Runs that have jobs to do again."""

        self.collected_at: dict[int, int] = {}
        """When the last result came from each endpoint."""

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """A transaction has made these."""
        for transition in taken:
            event, before, outcome = transition.event, transition.before, transition.outcome
            if event is Event.CLAIMED:
                continue
            if event is Event.ACCEPTED and before.state is State.SUBMITTING:
                self._usual(before).accepted += not before.is_rider
            elif (
                event is Event.COMPLETED
                and before.state is State.OUTSTANDING
                and outcome is not None
                and outcome.submission is not None
                and outcome.submission == before.submission
            ):
                ms = transition.execution_ms if outcome.execution_ms is None else outcome.execution_ms
                self._usual(before, is_in_batch(transition, outcome)).told.append(
                    (outcome.delay_ms, ms, outcome.margin_us)
                )
            elif (step := counted_step(transition)) is not None:
                self.add(before.run, before.endpoint, step)

    def _usual(self, job: Job, in_batch: bool = False) -> "_Usual":
        key = (job.run, job.endpoint, in_batch)
        if (found := self._usuals.get(key)) is None:
            found = self._usuals[key] = _Usual()
        return found

    def add_up(self) -> None:
        """Adds up what has come since the last time, which is a fifth of the work of doing so for each job."""
        for (run, endpoint, in_batch), usual in self._usuals.items():
            of_run, of_endpoint = self._counts(self.of_run, run), self._counts(self.of_endpoint, endpoint)
            for counts in (of_run, of_endpoint) if usual.accepted else ():
                counts.submissions["accepted"] += usual.accepted
            if usual.told:
                of_run.add_successes(usual.told)
                of_endpoint.add_successes(usual.told, self._price(run, endpoint, in_batch))
                self.collected_at[endpoint] = self._now()
        self._usuals.clear()

    def add(self, run: int, endpoint: int, step: CountedStep) -> None:
        """A job of `run` has made `step`, which was at `endpoint` before it."""
        if step.event is Event.REOPENED:
            self.reopened.add(run)
        self._counts(self.of_run, run).add(step)
        self._counts(self.of_endpoint, endpoint).add(step, self._price(run, endpoint, step.is_in_batch))
        if step.event is Event.COMPLETED and step.is_executed:
            self.collected_at[endpoint] = self._now()

    def _price(self, run: int, endpoint: int, in_batch: bool) -> float | None:
        settings = self._settings_of.get(run)
        if settings is None:
            return None
        own = settings.price_at(self._name_of(run, endpoint)) if settings.members else None
        price = settings.price if own is None else own
        return batch_price(price, settings.batch_discount) if in_batch and price is not None else price

    @staticmethod
    def _counts(of: dict[int, StepCounts], number: int) -> StepCounts:
        if (found := of.get(number)) is None:
            found = of[number] = StepCounts()
        return found

    def beside(self, taken: Sequence[Transition]) -> "StepMeter":
        """What these steps alone come to, of which it is still to be told."""
        other = StepMeter(self._settings_of, self._name_of, self._now)
        other.on_steps(taken)
        other.add_up()
        return other

    def forget(self, run: int) -> None:
        """What `run` came to is written down, and what comes of it later is counted anew."""
        self.add_up()
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
