"""The brakes of the runs that are served: what each goes by, from the ledger and the feed, and what it says.

The rules are in `core.gates.failure_breaker` and `core.gates.brakes`. All that is counted is in the ledger, or
follows from it: a process that goes on in another's place knows what that one knew.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from orchestrator.clock import Clock, local_zone
from orchestrator.core.gates import brakes as rules
from orchestrator.core.gates.brakes import BrakeFacts, BudgetFacts, CanaryFacts, DeadlineFacts, MaxFailures
from orchestrator.core.gates.costs import Costs, DurationTotals
from orchestrator.core.gates.executions import EndedExecution, ended_by
from orchestrator.core.gates.failure_breaker import Breaker, BreakerPhase, RatedExecution
from orchestrator.core.gates.gates import Closed, GateResult, Hold
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State
from orchestrator.core.jobs.run_counters import CONTINUED_SEGMENTS, FAILED_EXECUTIONS
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.text.next_step import Wording
from orchestrator.core.text.wording import counted
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.spending import Spending
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.brakes import Kept
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place, place_of
from orchestrator.settings import run_settings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.units import DAY_US, MINUTE_US, SECOND_US

RATED_FROM: Final = 20
"""From so many ends on it is told how fast a run goes."""

RATE_WINDOW_US: Final = 10 * MINUTE_US
LATE_WARNING_EVERY_US: Final = 10 * MINUTE_US


class RunBrakes:
    """Of one run. `settings` are asked each time: a changed setting counts at once."""

    def __init__(
        self,
        *,
        run: Run,
        ledger: Ledger,
        clock: Clock,
        settings: Callable[[], RunSettings],
        progress: Progress,
        spent: Spending,
        console: Console,
        word: Wording,
    ) -> None:
        self.run = run
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._progress = progress
        self._spent = spent
        self._console, self._word = console, word
        self._zone = local_zone()
        self._kept = self._written = Kept()
        self._asked_at = self._continued_at = 0
        self._breaker = Breaker(self._kept.breaker, failed=0)
        self._canary: dict[int, Job] | None = None
        self._chosen: tuple[int, ...] = ()
        self._canary_ids: frozenset[int] = frozenset()
        self._is_canary_told = False
        self._claiming = 0
        self._sending_since: int | None = None
        self._ends: deque[int] = deque()
        self._late_told_at: int | None = None
        self._stood = False, False
        """Whether it was stopped, and held, when that was looked at last."""

        self._held_by: Hold | None = None
        """What held it when that was looked at last."""

    async def load(self) -> None:
        """Goes on from what the ledger has."""
        found, now = await self._ledger.jobs.brakes.of(self.run.id), self._clock.now()
        rules_now = self._settings().breaker
        latest: list[RatedExecution] = []
        if rules_now.first:
            since = min(found.kept.judged_from, now)
            latest = await self._ledger.jobs.brakes.latest(self.run.id, rules_now.window, since=since)
        self._kept = self._written = found.kept
        if found.kept.continued_at > now or found.kept.judged_from > now:  # of a process whose clock was ahead
            continued_at, judged_from = min(found.kept.continued_at, now), min(found.kept.judged_from, now)
            self._kept = msgspec.structs.replace(found.kept, continued_at=continued_at, judged_from=judged_from)
        self._chosen, self._asked_at = found.canary or (), found.continued_at
        self._continued_at = self._kept.continued_at
        state = found.kept.breaker
        if not state.base and (self._progress.count(State.SUCCEEDED) or self._progress.count(CONTINUED_SEGMENTS)):
            state = msgspec.structs.replace(state, has_succeeded=True)
        self._breaker = Breaker(state, failed=self._progress.count(FAILED_EXECUTIONS), latest=latest)
        self._breaker.begin(rules_now, now, left=self._left)

    async def choose(self) -> None:
        """Chooses the rows that go first, where some do and none were chosen; and heeds what people asked for while
        nobody was at work.
        """
        if rows := self._settings().canary.rows:
            await self._choose(rows)
        self.go_on(self._asked_at)

    async def _choose(self, rows: int) -> None:
        if not self._chosen:  # a run whose rows are yet to come has none that could go first
            self._chosen = await self._ledger.jobs.brakes.choose(self.run.id, rows)
        if self._canary is None and self._chosen:
            self._canary_ids = frozenset(self._chosen)
            self._canary = {}  # what steps tell from now on is newer
            known = await self._ledger.jobs.of(self._chosen)
            self._canary = {**known, **self._canary}
            self._is_canary_told = self._canary_facts(None).has_passed

    # --- what happens

    def on_step(self, step: Transition, ended: EndedExecution | None, now: int) -> None:
        """A job of the run has taken a step, which has `ended` an execution."""
        job = step.after
        if step.event is Event.CLAIMED:
            self._breaker.claimed(now)
            self._sending_since = self._sending_since or now
        elif step.event is Event.DEFERRED:
            self._breaker.given_back()
        elif step.event is Event.REOPENED:
            self._breaker.try_again()
            self._kept = msgspec.structs.replace(self._kept, judged_from=now)
        elif ended is not None and ended.execution is not None:
            self._tell(self._breaker.observe(ended.execution, self._settings().breaker, now))
        if job.state in TERMINAL:
            self._ends.append(now)
            self._forget_old_ends(now)
        if self._canary is not None and job.id in self._canary_ids:
            self._canary[job.id] = job
            self._tell_canary()

    def _tell(self, what: str | None) -> None:
        if what is not None:
            self._console.warn(f"{self.run.name}: {what}")
            self._progress.nudge()

    def _forget_old_ends(self, now: int) -> None:
        while self._ends and self._ends[0] <= now - RATE_WINDOW_US:
            self._ends.popleft()

    def _tell_canary(self) -> None:
        if self._is_canary_told or not (facts := self._canary_facts(None)).has_passed:
            return
        self._is_canary_told = True
        took = self._spent.of_run(self.run.id)
        each = f" They took {took.mean_s:.3g} s each" if took.timed else ""
        if each and (price := self._settings().price_per_second):
            costs = Costs(price=price, took=took, longest_ms=self._longest_ms)
            left = self._progress.count(State.QUEUED)
            each += f" and cost {costs.spent}; the other {counted(left, 'row')} would cost {costs.expected(left)}"
        self._console.info(
            f"{self.run.name}: the canary is back: {facts.succeeded:,} of {facts.chosen:,} succeeded."
            f"{each}{'.' if each else ''} The rest goes"
        )

    @property
    def awaits_canary(self) -> bool:
        """Whether rows go first that have not succeeded yet."""
        return self._canary is not None and not self._is_canary_told

    def go_on(self, at: int) -> None:
        """People had the run go on at that time: what has stopped it counts anew, or not any more."""
        settings, now = self._settings(), self._clock.now()
        if at <= self._continued_at or (settings.canary.rows and self._canary is None):
            return  # how the canary stands is not known yet: this is called again once it is
        self._continued_at = at
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
        held_by = self.hold(None) if self._left else None
        kept = msgspec.structs.replace(self._kept, breaker=self._breaker.state)
        if kept != self._written or held_by != self._held_by or is_last:
            await self._ledger.jobs.brakes.keep(self.run.id, kept, held_by)
            self._written = kept
        self._held_by = held_by
        self._tell_whether_stopped()

    def _tell_whether_stopped(self) -> None:
        """Whoever waits for the end of the run looks again where time alone has stopped it, which no step tells."""
        stands = self.why_stopped is not None, self._held_by is not None
        if stands != self._stood:
            self._stood = stands
            self._progress.nudge()

    def _tell_late(self) -> None:
        now, deadline = self._clock.now(), self._deadline(None)
        late = None if deadline is None else rules.lateness(deadline, now)
        if late is None:
            return
        if self._late_told_at is None or now >= self._late_told_at + LATE_WARNING_EVERY_US:
            self._late_told_at = now
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
        now, settings = self._clock.now(), self._settings()
        breaker = self._breaker.gate_result(
            settings.breaker,
            now,
            at_service=self._progress.at_service,
            claiming=self._claiming,
            left=self._left,
            name=self.run.name,
            word=self._word,
        )
        return [breaker, *rules.of_brakes(self._facts(endpoint, at_endpoint, by_retry), now)]

    @property
    def _left(self) -> int:
        """Jobs that are to be sent."""
        return self._progress.count(State.QUEUED)

    @property
    def crawl_us(self) -> int | None:
        """How long a job takes at the pace at which single ones go; see `Breaker.crawl_us`."""
        return self._breaker.crawl_us(self._settings().breaker, self._left)

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more comes of the run before somebody does something."""
        at_service = self._progress.at_service + self._claiming
        return rules.stops(self.gate_results(None), at_service=at_service)

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
        return None if canary is None or canary.has_passed else self._chosen

    def _facts(self, endpoint: Endpoint | None, at_endpoint: int, by_retry: bool | None) -> BrakeFacts:
        settings, progress = self._settings(), self._progress
        max_failures: MaxFailures | None = settings.max_failures
        if max_failures == MaxFailures() or self._is_overruled(run_settings.MAX_FAILURES, settings):
            max_failures = None
        return BrakeFacts(
            name=self.run.name,
            word=self._word,
            max_failures=max_failures,
            failed=progress.count(State.FAILED),
            ended=progress.total - progress.unfinished,
            succeeded=progress.count(State.SUCCEEDED),
            outstanding=progress.at_service + self._claiming,
            sending_since=self._sending_since,
            canary=self._canary_out(settings, by_retry),
            budgets=tuple(self._budgets(settings, endpoint, at_endpoint)),
            deadline=self._deadline(endpoint),
        )

    def _is_overruled(self, setting: Setting[Any], settings: RunSettings) -> bool:
        return self._kept.overruled.get(setting.key) == _text(setting, settings)

    def _canary_out(self, settings: RunSettings, by_retry: bool | None) -> CanaryFacts | None:
        """How the rows stand that go first; None where none do, or people went past that."""
        has_canary = self._canary is not None and settings.canary.rows
        is_out = has_canary and not self._is_overruled(run_settings.CANARY, settings)
        return self._canary_facts(by_retry) if is_out else None

    def _canary_facts(self, by_retry: bool | None) -> CanaryFacts:
        jobs, now = list((self._canary or {}).values()), self._clock.now()
        queued = [job for job in jobs if job.state is State.QUEUED]
        mine = [job for job in queued if by_retry is None or ((job.retry_until or 0) > now) is by_retry]
        due = sum(job.due_at <= now for job in mine)
        return CanaryFacts(
            chosen=len(jobs),
            succeeded=sum(job.state is State.SUCCEEDED for job in jobs),
            failed=sum(job.state in (State.FAILED, State.CANCELLED) for job in jobs),
            due=max(0, due - self._claiming) if by_retry is not None else due,
            next_at=min((job.due_at for job in queued if job.due_at > now), default=None),
            share=self._settings().canary.share,
        )

    @property
    def _longest_ms(self) -> int:
        return self._settings().policy.timeout_ms

    def _budgets(self, settings: RunSettings, endpoint: Endpoint | None, at_endpoint: int) -> Iterator[BudgetFacts]:
        price = settings.price_per_second
        if price is None:
            return
        own = self._spent.of_run(self.run.id)
        like = self._spent.of_endpoint(self.run.endpoint_id if endpoint is None else endpoint.id)
        if settings.budget:
            costs = Costs(price=price, took=own, like=like, longest_ms=self._longest_ms)
            outstanding = self._progress.at_service + self._claiming
            yield BudgetFacts(budget=settings.budget, costs=costs, outstanding=outstanding)
        if settings.budget_per_day and endpoint is not None:
            today = self._spent.of_day(endpoint.id, self._clock.now() // DAY_US)
            costs = Costs(price=price, took=today, like=like, longest_ms=self._longest_ms)
            outstanding = at_endpoint + self._claiming
            yield BudgetFacts(budget=settings.budget_per_day, costs=costs, outstanding=outstanding, of_day=True)

    def _deadline(self, endpoint: Endpoint | None) -> DeadlineFacts | None:
        settings, now = self._settings(), self._clock.now()
        if not settings.finish_by:
            return None
        return DeadlineFacts(
            finish_by=settings.finish_by,
            stops_late=settings.stop_late,
            left=self._progress.unfinished,
            at_service=self._progress.at_service,
            jobs_per_s=self._per_s(now),
            typical_us=None if endpoint is None else endpoint.estimates.durations.execution.p50_us,
            zone=self._zone,
        )

    def _per_s(self, now: int) -> float | None:
        """Jobs that end in a second, of late; None while too few have."""
        self._forget_old_ends(now)
        if len(self._ends) < RATED_FROM:
            return None
        since = max(self._sending_since or self._ends[0], now - RATE_WINDOW_US)
        return len(self._ends) * SECOND_US / max(now - since, SECOND_US)


def _text(setting: Setting[Any], settings: RunSettings) -> str:
    return " ".join(setting.value_type.write(getattr(settings, setting.name)))


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
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._settings_of = settings_of
        self._console, self._word = console, word
        self._spent = Spending()
        self._is_counted = False
        self._runs: dict[int, RunBrakes] = {}
        ledger.writer.subscribe(self._on_steps)

    async def of(self, run: Run, progress: Progress) -> RunBrakes:
        """Those of `run`, which is served from now on."""
        if not self._is_counted:
            await self._ledger.jobs.brakes.recount(self._recount)
        found = RunBrakes(
            run=run,
            ledger=self._ledger,
            clock=self._clock,
            settings=lambda: self._settings_of[run.id],
            progress=progress,
            spent=self._spent,
            console=self._console,
            word=self._word,
        )
        await found.load()
        self._runs[run.id] = found
        return found

    def _recount(self, executions: Mapping[Place, DurationTotals]) -> None:
        self._is_counted = True
        self._spent.recount(executions)

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

    def _on_steps(self, taken: Sequence[Transition]) -> None:
        now = self._clock.now()
        for step in taken:
            ended = ended_by(step)
            if self._is_counted and ended is not None:
                self._spent.add(place_of(step), ended.took)
            if (of_run := self._runs.get(step.after.run)) is not None:
                of_run.on_step(step, ended, now)
