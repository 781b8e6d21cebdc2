"""The brakes of a run that is served: what they go by, from the ledger and the feed, and what they say.

The rules are in `core.gates.failure_breaker` and `core.gates.brake_gates`. All that is counted is in the ledger, or
follows from it: a process that goes on in another's place knows what that one knew.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from orchestrator.core.gates import brake_gates as rules
from orchestrator.core.gates.ended_executions import EndedExecution
from orchestrator.core.gates.failure_breaker import Breaker, BreakerPhase, RatedExecution
from orchestrator.core.gates.gates import Closed, GateResult, Hold
from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State
from orchestrator.core.jobs.run_counters import CONTINUED_SEGMENTS, FAILED_EXECUTIONS
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.text.next_step import Wording
from orchestrator.core.text.wording import counted
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.canary_jobs import CanaryJobs
from orchestrator.engine.sending.run_pace import RunPace
from orchestrator.engine.sending.spending import Spending
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.brake_state import Kept
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_settings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting


class RunBrakes:
    """Of one run. `settings` are asked each time: a changed setting counts at once."""

    def __init__(
        self,
        *,
        run: Run,
        ledger: Ledger,
        settings: Callable[[], RunSettings],
        progress: Progress,
        spent: Spending,
        console: Console,
        word: Wording,
    ) -> None:
        self.run = run
        self._ledger = ledger
        self._settings = settings
        self._progress = progress
        self._spent = spent
        self._console, self._word = console, word
        self._kept = self._written = Kept()
        self._asked_at = 0
        self._breaker = Breaker(self._kept.breaker, failed=0)
        self._canary = CanaryJobs(run.id, ledger)
        self.pace = RunPace(progress)
        self._claiming = 0
        self._stood: tuple[bool, Hold | None] = False, None
        """Whether it was stopped, and what held it, when that was looked at last."""

    async def load(self) -> None:
        """Goes on from what the ledger has."""
        found, now = await self._ledger.jobs.brakes.of(self.run.id), self._ledger.now()
        rules_now = self._settings().breaker
        latest: list[RatedExecution] = []
        if rules_now.first:
            since = min(found.kept.judged_from, now)
            latest = await self._ledger.jobs.brakes.latest(self.run.id, rules_now.window, since=since)
        self._kept = self._written = found.kept
        if found.kept.continued_at > now or found.kept.judged_from > now:  # of a process whose clock was ahead
            continued_at, judged_from = min(found.kept.continued_at, now), min(found.kept.judged_from, now)
            self._kept = msgspec.structs.replace(found.kept, continued_at=continued_at, judged_from=judged_from)
        self._asked_at = found.continued_at
        state = found.kept.breaker
        if not state.base and (self._progress.count(State.SUCCEEDED) or self._progress.count(CONTINUED_SEGMENTS)):
            state = msgspec.structs.replace(state, has_succeeded=True)
        self._breaker = Breaker(state, failed=self._progress.count(FAILED_EXECUTIONS), latest=latest)
        self._breaker.begin(rules_now, now, left=self.left)

    async def choose(self) -> None:
        """Chooses the rows that go first, where some do and none were chosen; and heeds what people asked for while
        nobody was at work.
        """
        if rows := self._settings().canary.rows:
            await self._canary.choose(rows, self._settings().canary.share)
        self.go_on(self._asked_at)

    # --- what happens

    def on_step(self, step: Transition, ended: EndedExecution | None, now: int) -> None:
        """A job of the run has taken a step, which has `ended` an execution."""
        job = step.after
        if step.event is Event.CLAIMED:
            self._breaker.claimed(now)
            self.pace.sending_since = self.pace.sending_since or now
        elif step.event is Event.DEFERRED:
            self._breaker.given_back()
        elif step.event is Event.REOPENED:
            self._breaker.try_again()
            self._kept = msgspec.structs.replace(self._kept, judged_from=now)
        elif ended is not None and ended.execution is not None:
            self._tell(self._breaker.observe(ended.execution, self._settings().breaker, now))
        if ended is not None and ended.took.timed:
            self.pace.on_execution(ended.took.total_ms, is_last=job.state in TERMINAL)
        if job.state in TERMINAL:
            self.pace.on_end(now)
        if job.id in self._canary.ids and (facts := self._canary.observe(job, self._settings().canary.share)):
            self._tell_canary(facts)

    def _tell(self, what: str | None) -> None:
        if what is not None:
            self._console.warn(f"{self.run.name}: {what}")
            self._progress.nudge()

    def _tell_canary(self, facts: rules.CanaryFacts) -> None:
        took = self._spent.of_run(self.run.id)
        each = f" They took {took.mean_s:.3g} s each" if took.timed else ""
        if each and (costs := self._spent.costs(self.run.id, self._settings())) is not None:
            left = self._progress.count(State.QUEUED)
            each += f" and cost {costs.spent}; the other {counted(left, 'row')} would cost {costs.expected(left)}"
        self._console.info(
            f"{self.run.name}: the canary is back: {facts.succeeded:,} of {facts.chosen:,} succeeded."
            f"{each}{'.' if each else ''} The rest goes"
        )

    @property
    def awaits_canary(self) -> bool:
        """Whether rows go first that have not succeeded yet."""
        return self._canary.is_awaited

    def go_on(self, at: int) -> None:
        """People had the run go on at that time: what has stopped it counts anew, or not any more."""
        settings, now = self._settings(), self._ledger.now()
        if at <= self._kept.continued_at or (settings.canary.rows and not self._canary.is_known):
            return  # how the canary stands is not known yet: this is called again once it is
        facts = self._facts(None, 0, None)
        shut: list[tuple[Setting[Any], GateResult]] = [
            (run_settings.MAX_FAILURES, rules.failures_gate(facts, now)),
            (run_settings.CANARY, rules.canary_gate(facts, now)),
        ]
        overruled = dict(self._kept.overruled)
        for setting, result in shut:
            if isinstance(result, Closed):
                overruled[setting.key] = _text(setting, settings)
        self._breaker.go_on()
        self._kept = msgspec.structs.replace(self._kept, overruled=overruled, continued_at=at, judged_from=now)

    async def write_down(self, *, is_last: bool = False) -> None:
        """Leaves to the next process what has changed, or all where that `is_last`, and says what people should hear.
        Raises `StorageError`.
        """
        self._tell_late()
        held_by = self.hold(None) if self.left else None
        kept = msgspec.structs.replace(self._kept, breaker=self._breaker.state)
        if kept != self._written or held_by != self._stood[1] or is_last:
            left = None if held_by is None else Hold(held_by.gate, held_by.why)  # with nobody at work it sends nothing
            await self._ledger.jobs.brakes.keep(self.run.id, kept, left)
            self._written = kept
        self._tell_whether_stopped(held_by)

    def _tell_whether_stopped(self, held_by: Hold | None) -> None:
        """Whoever waits for the end of the run looks again where time alone has stopped it, which no step tells."""
        before, self._stood = self._stood, (self.why_stopped is not None, held_by)
        if (before[0], before[1] is None) != (self._stood[0], held_by is None):
            self._progress.nudge()

    def _tell_late(self) -> None:
        if (late := self.pace.lateness(self._settings(), self._ledger.now())) is not None:
            self._console.warn(f"{self.run.name}: {late}")

    # --- what they say

    @contextmanager
    def claiming(self, most: int) -> Iterator[None]:
        """So many jobs are about to be claimed: until then they count as if they were."""
        self._claiming += most
        try:
            yield
        finally:
            self._claiming -= most

    def gate_results(
        self, endpoint: Endpoint | None, *, at_endpoint: int = 0, by_retry: bool | None = None
    ) -> list[GateResult]:
        """What they say to jobs that are to be sent to `endpoint`, which has so many; `by_retry`: None for whichever
        way.
        """
        now, settings = self._ledger.now(), self._settings()
        breaker = self._breaker.gate_result(
            settings.breaker,
            now,
            at_service=self._progress.at_service,
            claiming=self._claiming,
            left=self.left,
            name=self.run.name,
            word=self._word,
        )
        return [breaker, *rules.of_brakes(self._facts(endpoint, at_endpoint, by_retry), now)]

    @property
    def left(self) -> int:
        """Jobs that are to be sent."""
        return self._progress.count(State.QUEUED)

    @property
    def find_out(self) -> bool:
        """Whether it is to be found out with a few rows whether executions work, before all others go."""
        return self.only() is not None or not self._breaker.is_convinced(self._settings().breaker)

    @property
    def crawl_us(self) -> int | None:
        """How long a job takes at the pace at which single ones go; see `Breaker.crawl_us`."""
        return self._breaker.crawl_us(self._settings().breaker, self.left)

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more comes of the run before somebody does something."""
        at_service = self._progress.at_service + self._claiming
        return rules.stops(self.gate_results(None), at_service=at_service)

    @property
    def why_late(self) -> str | None:
        """That it will probably not be finished in time, or is not; None where there is no such time, or it will."""
        deadline, now = self.pace.deadline(self._settings(), self._ledger.now()), self._ledger.now()
        return None if deadline is None else rules.lateness(deadline, now)

    @property
    def why_spent(self) -> str | None:
        """That most of its budget is spent."""
        return self._spent.why_spent(self.run.id, self._settings())

    def hold(self, endpoint: Endpoint | None, *, at_endpoint: int = 0) -> Hold | None:
        """Which of them holds the run: nothing more comes of it by itself, or single jobs at most. The budget of a day
        counts where its endpoint is told.
        """
        return rules.hold(
            self.gate_results(endpoint, at_endpoint=at_endpoint),
            at_service=self._progress.at_service + self._claiming,
            is_tripped=bool(self._settings().breaker.first) and self._breaker.state.phase is not BreakerPhase.CLOSED,
        )

    def only(self) -> Sequence[int] | None:
        """The jobs of which alone any may be claimed; None for all."""
        canary = self._canary_out(self._settings(), None)
        return None if canary is None or canary.has_passed else self._canary.chosen

    def _facts(self, endpoint: Endpoint | None, at_endpoint: int, by_retry: bool | None) -> rules.BrakeFacts:
        settings, progress = self._settings(), self._progress
        max_failures: rules.MaxFailures | None = settings.max_failures
        if max_failures == rules.MaxFailures() or self._is_overruled(run_settings.MAX_FAILURES, settings):
            max_failures = None
        return rules.BrakeFacts(
            name=self.run.name,
            word=self._word,
            max_failures=max_failures,
            failed=progress.count(State.FAILED),
            ended=progress.total - progress.unfinished,
            succeeded=progress.count(State.SUCCEEDED),
            outstanding=progress.at_service + self._claiming,
            sending_since=self.pace.sending_since,
            canary=self._canary_out(settings, by_retry),
            budgets=tuple(
                self._spent.budgets(
                    self.run,
                    settings,
                    at_service=progress.at_service + self._claiming,
                    endpoint=None if endpoint is None else endpoint.id,
                    per_day=_per_day(self.run, settings, endpoint),
                    at_endpoint=at_endpoint + self._claiming,
                    now=self._ledger.now(),
                )
            ),
            deadline=self._deadline(settings, endpoint) if settings.finish_by else None,
        )

    def _is_overruled(self, setting: Setting[Any], settings: RunSettings) -> bool:
        return self._kept.overruled.get(setting.key) == _text(setting, settings)

    def _canary_out(self, settings: RunSettings, by_retry: bool | None) -> rules.CanaryFacts | None:
        """How the rows stand that go first; None where none do, or people went past that."""
        has_canary = self._canary.is_known and settings.canary.rows
        is_out = has_canary and not self._is_overruled(run_settings.CANARY, settings)
        if not is_out:
            return None
        return self._canary.facts(settings.canary.share, by_retry=by_retry, claiming=self._claiming)

    def _deadline(self, settings: RunSettings, endpoint: Endpoint | None) -> rules.DeadlineFacts | None:
        typical_us = None if endpoint is None else endpoint.estimates.durations.execution.p50_us
        return self.pace.deadline(settings, self._ledger.now(), typical_us=typical_us)


def _text(setting: Setting[Any], settings: RunSettings) -> str:
    return " ".join(setting.value_type.write(getattr(settings, setting.name)))


def _per_day(run: Run, settings: RunSettings, endpoint: Endpoint | None) -> float:
    """What all runs may spend in a day at `endpoint`; 0 for any amount."""
    if not settings.members or endpoint is None:
        return settings.budget_per_day
    return settings.budget_per_day_at(endpoint.retries.name_of(run.id, endpoint.id))
