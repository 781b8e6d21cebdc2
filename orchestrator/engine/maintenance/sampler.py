"""Writes down every ten seconds how unfinished runs, used endpoints and their process stand, for charts and metrics.

All in one transaction, in which the ledger's own counts are read, so that they agree with its tables. What the ledger
does not count is counted here (`step_meter`, the requests of each endpoint, the process), and goes on where the last
sample stood. Steps that a killed process has made after that are counted again from their events; of what only that
process knew, ten seconds at most are lost.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.sample_spacing import SAMPLE_S, longest_step
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.maintenance.endpoint_meter import endpoint_sample
from orchestrator.engine.maintenance.step_meter import StepMeter, added, merged
from orchestrator.engine.process.process_meter import ProcessMeter
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.samples.process_totals import newest_of
from orchestrator.ledger.samples.sample_facts import SampleFacts
from orchestrator.ledger.samples.sample_repository import Sampling
from orchestrator.ledger.samples.samples import NO_EVENT, UNSERVED, EndpointSample, RunSample
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US

PAGE: Final = 2_000
"""Events that are counted again at once."""

CLOSE_US: Final = MINUTE_US
"""Samples of several processes, or of several endpoints, that are further apart are of those that nothing more came of.
"""


@dataclass(kw_only=True, eq=False)
class Sampler:
    """Of one engine. `report` is what it says of itself. Its samples tell of the `process`, too, where it `speaks` for
    that.
    """

    ledger: Ledger
    runs: RunRegistry
    endpoints: EndpointRegistry
    process: ProcessMeter
    speaks: Callable[[], bool]
    report: Callable[[], ProcessReport]
    every_s: float = SAMPLE_S
    steps: StepMeter = field(init=False)
    _runs_before: dict[int, RunSample | None] = field(init=False, default_factory=dict)
    """The last sample of each run before this process counted anything of it; None where there was none."""

    _endpoints_before: dict[int, EndpointSample] = field(init=False, default_factory=dict)
    _latest_runs: dict[int, RunSample] = field(init=False, default_factory=dict)
    """Of the runs that had something to do at the last sample."""

    _latest_endpoints: dict[int, EndpointSample] = field(init=False, default_factory=dict)
    _due: int = field(init=False, default=0)
    _at: int = field(init=False, default=0)
    """When the last sample was taken: no other one is earlier, whatever clocks say."""

    def __post_init__(self) -> None:
        self.steps = StepMeter(self.endpoints.settings_of, self.endpoints.retries.name_of, self.ledger.now)

    # --- where the last process stood

    async def begin(self) -> None:
        """Goes on where the samples of the ledger end. Before anything is sent."""
        latest = await self.ledger.samples.latest_of_processes()
        await self.process.begin(latest)
        newest = newest_of(latest)
        if newest is None:
            return
        self._at = newest.at
        sampled = await self._sampled()
        positions = {number: sample.position or newest.position for number, sample in sampled.items()}
        ends = [each.position for each in latest.values() if newest.at - each.at <= CLOSE_US]
        last_at = max((sample.at for sample in sampled.values()), default=0)
        close = [positions[number] for number, sample in sampled.items() if last_at - sample.at <= CLOSE_US]
        after: int | None = min(*ends, *close, newest.position)
        while after is not None:
            missed, after = await self.ledger.samples.unsampled.after(after, most=PAGE)
            for each in missed:
                is_ours = self.endpoints.scope.has(each.endpoint)
                if is_ours and each.position > positions.get(each.endpoint, 0):
                    self.steps.add(each.run, each.endpoint, each.step)
        self.steps.collected_at.clear()  # nobody knows when that was

    async def _sampled(self) -> dict[int, EndpointSample]:
        """The latest sample of each endpoint of ours that has any."""
        ours = self.endpoints.scope.endpoints
        if ours is None:
            ours = [each.id for each in await self.ledger.reports.tallies.endpoints()]
        return await self.ledger.samples.endpoints.latest(ours)

    async def _learn(self, among: Sequence[int]) -> None:
        """Reads where the samples of these runs, and of the endpoints served, ended before this process."""
        if fresh := [run for run in among if run not in self._runs_before]:
            found = await self.ledger.samples.runs.latest(fresh)
            self._runs_before |= {run: found.get(run) for run in fresh}
        if others := [number for number in self.endpoints.served if number not in self._endpoints_before]:
            at = await self.ledger.samples.endpoints.latest(others)
            self._endpoints_before |= {number: at.get(number, EndpointSample()) for number in others}

    # --- a sample

    async def run_once(self) -> float:
        """Takes a sample where one is due; returns the seconds until the next one is."""
        width, now = round(self.every_s * SECOND_US), self.ledger.now()
        due = now - now % width
        if due > self._due:
            await self.take(due=due)
        return (due + width - now) / SECOND_US

    async def take(self, *, due: int | None = None) -> None:
        """Takes a sample now; `due`: that of this moment. Raises `StorageError`."""
        due = self.ledger.now() if due is None else due
        self.runs.unfinished |= self.steps.reopened
        self.steps.add_up()
        # A result that comes late is of a run that was over.
        working = {*self.runs.unfinished, *self.runs.unservable, *self._latest_runs, *self.steps.of_run}
        working |= {run for run, session in self.runs.sessions.items() if session.progress.unfinished}
        await self._learn(sorted(working))
        step_s = longest_step(self._due or due - round(self.every_s * SECOND_US), due)

        def look(facts: SampleFacts, untold: Sequence[Transition]) -> Sampling:
            return self._look(facts, untold, step_s)

        def taken(sampling: Sampling) -> None:
            self._due = max(due, self._due)
            self._written(sampling, working)

        await self.ledger.samples.take(working, look, taken)

    def _written(self, taken: Sampling, working: AbstractSet[int]) -> None:
        """These samples are written, and nobody was told yet of a step that is not in them."""
        self._at = taken.at
        self._latest_runs = {run: sample for run, sample in {**taken.runs, **taken.ended}.items() if not sample.is_last}
        for run in working - self._latest_runs.keys():
            self.runs.unfinished.discard(run)  # others may have come meanwhile
            self.steps.forget(run)
            self._runs_before.pop(run, None)
        self._latest_endpoints |= {number: replace(each, position=0) for number, each in taken.endpoints.items()}

    def _look(self, facts: SampleFacts, untold: Sequence[Transition], step_s: int) -> Sampling:
        self.steps.add_up()
        beside = self.steps.beside(untold)
        said = self.report()
        runs = {run: self._of_run(run, facts, beside, said.of(run), run in said.runs) for run in facts.counts}
        once = {run for run, sample in runs.items() if sample.is_last or self._is_first(run)}
        return Sampling(
            at=max(facts.at, self._at + 1),
            step_s=step_s,
            runs={run: sample for run, sample in runs.items() if run not in once},
            ended={run: runs[run] for run in once},
            endpoints=self._of_endpoints(facts, beside),
            process=self.process.totals(facts.position) if self.speaks() else None,
        )

    def _is_first(self, run: int) -> bool:
        return self._runs_before[run] is None and run not in self._latest_runs

    def _of_run(
        self,
        run: int,
        facts: SampleFacts,
        beside: StepMeter,
        said: RunReport,
        is_told: bool,
    ) -> RunSample:
        before = self._runs_before[run] or RunSample()
        parts = [each.of_run[run] for each in (self.steps, beside) if run in each.of_run]
        requested = facts.requested.get(run, "")
        is_last = not unfinished(facts.counts[run])
        hold = "" if is_last else requested or _hold(said, is_told=is_told)
        latest = self._latest_runs.get(run, before)
        since = latest.hold_since if latest.hold == hold else None
        return RunSample(
            is_last=is_last,
            counts=facts.counts[run],
            hold=hold,
            hold_by=facts.asked_by.get(run, "") if requested == hold else "",
            hold_since=(since or facts.at) if hold else None,
            spent=self._spent(run, facts.took.get(run, {})),
            safe_until=None if said.collecting is None or is_last else said.collecting.safe_until,
            submissions=added(before.submissions, *(part.submissions for part in parts)),
            ends=added(before.ends, *(part.ends for part in parts)),
            margin=merged(before.margin, *(part.margin.values for part in parts)),
            queue=merged(before.queue, *(part.queue.values for part in parts)),
            execution=merged(before.execution, *(part.execution.values for part in parts)),
        )

    def _of_endpoints(self, facts: SampleFacts, beside: StepMeter) -> dict[int, EndpointSample]:
        """Of each endpoint that has something of ours, or where something has happened."""
        position = 0 if self.endpoints.scope.is_everything else facts.position or NO_EVENT
        found: dict[int, EndpointSample] = {}
        for number, served in self.endpoints.served.items():
            if number not in self._endpoints_before:
                continue  # it came meanwhile
            sample = endpoint_sample(
                served,
                before=self._endpoints_before[number],
                parts=[each.of_endpoint[number] for each in (self.steps, beside) if number in each.of_endpoint],
                chosen=facts.chosen.get(number, ()),
                collected_at=self.steps.collected_at.get(number),
                workers_most=None if (workers := self.runs.workers.get(number)) is None else workers.bound,
            )
            if not served.endpoint.is_idle or sample != self._latest_endpoints.get(number):
                found[number] = replace(sample, position=position)
        return found

    def _spent(self, run: int, took: Mapping[str, DurationTotals]) -> float | None:
        """What a run has cost, whose executions at these endpoints have ended: these, and its pods."""
        settings = self.endpoints.settings_of.get(run)
        found = spent(settings, took)
        if settings is None or settings.pod_template is None:
            return found
        return round((found or 0.0) + self.runs.brakes.spent.of_pods(run), 6)


def _hold(said: RunReport, *, is_told: bool) -> str:
    """The code of why nothing is sent that nobody has asked for."""
    if said.blocked_by is not None:
        return said.blocked_by.gate
    return UNSERVED if said.is_unserved or not is_told else ""


def spent(settings: RunSettings | None, took: Mapping[str, DurationTotals]) -> float | None:
    """What executions at these endpoints have cost, those whose time is not known as much as the others; None where no
    price is known.
    """
    price = None if settings is None else settings.price
    if settings is None or price is None:
        return None
    own = {endpoint: settings.price_at(endpoint) for endpoint in took}
    prices = {endpoint: price if found is None else found for endpoint, found in own.items()}
    return round(sum(part.cost(prices[endpoint], settings.batch_discount) for endpoint, part in took.items()), 6)
