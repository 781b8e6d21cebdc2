"""The breaker of a run: it stops sending while executions fail for one reason, and finds out by single ones when to go
on.

A broken image fails every job, and each failure is paid. So until the first execution of a run has succeeded no more
go than have to fail for the breaker to trip; later it trips where most of the latest ones failed, and most of these in
one way. For a minute nothing goes then, and after it one job a minute. The first success half opens it: as many go as
at the beginning, and if these do well, all. What has never worked will hardly mend itself: there, after a few such
jobs, it waits for people. So it does where no more are left than it takes to find out: single ones would only execute
all of them, one a minute. What people have tried again is judged by itself, whatever failed before.

Not to be confused with `core.gates.circuit_breaker`, which is about requests that the service does not answer.
"""

from collections import Counter, deque
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.brake_gates import SHOWN_AFTER_US, Brake, way_past
from orchestrator.core.gates.gates import ANY, Closed, GateResult, Hold, Open
from orchestrator.core.text.next_step import Wording
from orchestrator.core.text.wording import counted
from orchestrator.units import MINUTE_US, WHOLE

PROBE_EVERY_US: Final = MINUTE_US
PROBES_MAX: Final = 5
"""So many jobs find out whether something has been mended that has never worked."""


class BreakerRules(msgspec.Struct, frozen=True):
    """When it trips: as the `first` executions have failed, or more than `share` (millionths) of the last `window`."""

    first: int = 20
    """0: never."""

    share: int = WHOLE // 2
    window: int = 100


OFF: Final = BreakerRules(first=0)


class BreakerPhase(StrEnum):
    """Where it stands."""

    CLOSED = "closed"
    """All may go."""

    OPEN = "open"
    """One a minute may."""

    HALF_OPEN = "half-open"
    """One has succeeded: some may go."""


class BreakerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of it for the next process."""

    phase: BreakerPhase = BreakerPhase.CLOSED
    why: str = ""
    """Why it tripped last."""

    probe_at: int = 0
    """When the next single one may go."""

    probes: int = 0
    """How many of these went since it tripped."""

    may_try: bool = False
    """Whether one more may go though it waits for people: another process goes on with the run."""

    has_succeeded: bool = False
    """Whether any execution has, since people last let the run go on."""

    base: int = 0
    """So many executions of the run had failed then."""

    tried: int = 0
    """Executions that ended while it was half open."""

    tried_failed: int = 0


class RatedExecution(msgspec.Struct, frozen=True, gc=False):
    """The end of one: the kind of its failure, None where that is not known, and what it said; or a success."""

    is_failed: bool
    kind: int | None = None
    summary: str = ""


class Breaker:
    """Of one run. `failed`: how many of its executions have failed so far; `latest`: the latest ends, oldest first."""

    def __init__(self, state: BreakerState, *, failed: int, latest: Iterable[RatedExecution] = ()) -> None:
        self.state = state
        self._failed = failed
        self._latest = deque(latest)
        self._bound_since: int | None = None

    def begin(self, rules: BreakerRules, now: int, *, left: int) -> None:
        """Another process goes on with the run, of which so many jobs are to be sent: one may find out how it is. It
        trips at once where it had to.
        """
        if self.state.phase is BreakerPhase.OPEN:
            waits = self._waits_for_people(rules, left)
            probe_at = now if waits else min(self.state.probe_at, now + PROBE_EVERY_US)
            self._set(probe_at=probe_at, may_try=waits)
        else:
            self._judge(rules, now)

    def go_on(self) -> None:
        """People want the run to go on: everything is counted anew."""
        self.state = BreakerState(base=self._failed)
        self._latest.clear()

    def try_again(self) -> None:
        """People have some that failed tried again: how those do says whether more go."""
        if self.state.phase is BreakerPhase.CLOSED and self.state.has_succeeded:
            self._latest.clear()  # nor do failures of before count against them
        else:
            self.go_on()

    def observe(self, execution: RatedExecution, rules: BreakerRules, now: int) -> str | None:
        """An execution has ended; returns what people should hear, if anything."""
        self._failed += execution.is_failed
        self._latest.append(execution)
        while len(self._latest) > max(rules.window, rules.first):
            self._latest.popleft()
        if not rules.first:
            return None
        if not execution.is_failed and not self.state.has_succeeded:
            self._set(has_succeeded=True)
        match self.state.phase:
            case BreakerPhase.OPEN if not execution.is_failed and self._has_paused(now):
                self._latest.clear()
                self._set(phase=BreakerPhase.HALF_OPEN, tried=0, tried_failed=0, probes=0)
                return f"the breaker is half open, as an execution has succeeded: up to {rules.first:,} go at a time"
            case BreakerPhase.HALF_OPEN:
                return self._try(execution, rules, now)
            case BreakerPhase.CLOSED if execution.is_failed:
                return self._judge(rules, now)
            case _:
                return None

    def _try(self, execution: RatedExecution, rules: BreakerRules, now: int) -> str | None:
        self._set(tried=self.state.tried + 1, tried_failed=self.state.tried_failed + execution.is_failed)
        if self.state.tried_failed * WHOLE > rules.share * rules.first:
            return self._trip(
                f"{self.state.tried_failed:,} of {counted(self.state.tried, 'execution')} failed again", now
            )
        if self.state.tried < rules.first:
            return None
        self._latest.clear()
        self._set(phase=BreakerPhase.CLOSED, why="")
        return "the breaker is closed again: all may go"

    def _judge(self, rules: BreakerRules, now: int) -> str | None:
        if not rules.first:
            return None
        if not self.state.has_succeeded:
            failed = self._failed - self.state.base
            return (
                self._trip(f"the first {counted(failed, 'execution')} failed", now) if failed >= rules.first else None
            )
        failures = [each for each in self._latest if each.is_failed]
        if len(self._latest) < rules.window or len(failures) * WHOLE <= rules.share * len(self._latest):
            return None
        # After a restart it is not known of all of how they failed: those are no reason against it.
        if (self._dominant(failures)[1] + sum(each.kind is None for each in failures)) * 2 <= len(failures):
            return None
        return self._trip(f"{len(failures):,} of the last {counted(len(self._latest), 'execution')} failed", now)

    def _trip(self, what: str, now: int) -> str:
        kind, most, told = self._dominant([each for each in self._latest if each.is_failed])
        with_ = "" if kind is None else f", {most:,} of them with: {told}"
        self._latest.clear()
        self._set(phase=BreakerPhase.OPEN, why=f"{what}{with_}", probe_at=now + PROBE_EVERY_US, probes=0, may_try=False)
        return f"{self.state.why}\nThe breaker has tripped: single jobs at most go until one has succeeded"

    @staticmethod
    def _dominant(failures: Iterable[RatedExecution]) -> tuple[int | None, int, str]:
        """The largest kind of these: how many are of it, and what the last one of them said."""
        failures = list(failures)
        kinds = Counter(each.kind for each in failures if each.kind is not None)
        if not kinds:
            return None, 0, ""
        [(kind, most)] = kinds.most_common(1)
        return kind, most, next(each.summary for each in reversed(failures) if each.kind == kind)

    def claimed(self, now: int) -> None:
        """A job of the run was claimed: while it is open, that is the one for this minute."""
        if self.state.phase is BreakerPhase.OPEN:
            self._set(probe_at=now + PROBE_EVERY_US, probes=self.state.probes + 1, may_try=False)

    def given_back(self) -> None:
        """A claimed job has not been executed after all."""
        if self.state.phase is BreakerPhase.OPEN:
            self._set(probes=max(0, self.state.probes - 1))

    def _has_paused(self, now: int) -> bool:
        """Whether it was open for a while. A success of before is one among the failures that tripped it: where a part
        of all rows fails it would go on at once, and trip again, without end.
        """
        return self.state.probes > 0 or now >= self.state.probe_at

    def _waits_for_people(self, rules: BreakerRules, left: int) -> bool:
        """Whether only they can tell that it is mended, where so many jobs are left to be sent."""
        if self.state.phase is not BreakerPhase.OPEN or self.state.may_try:
            return False
        are_few, are_tried = left <= rules.first, self.state.probes >= PROBES_MAX
        return (are_few and are_tried) if self.state.has_succeeded else (are_few or are_tried)

    def is_convinced(self, rules: BreakerRules) -> bool:
        """Whether nothing more is to be found out before all may go."""
        return not rules.first or (self.state.phase is BreakerPhase.CLOSED and self.state.has_succeeded)

    def crawl_us(self, rules: BreakerRules, left: int) -> int | None:
        """How long a job takes at the pace at which jobs go while it is not closed: 0 for that of late. None where all
        may go, or none.
        """
        if not rules.first or self.state.phase is BreakerPhase.CLOSED or self._waits_for_people(rules, left):
            return None
        return PROBE_EVERY_US if self.state.phase is BreakerPhase.OPEN else 0

    def gate_result(
        self, rules: BreakerRules, now: int, *, at_service: int, claiming: int, left: int, name: str, word: Wording
    ) -> GateResult:
        """How many jobs may go, where so many are at the service, so many are about to be claimed, and so many left."""
        if not rules.first:
            return ANY
        more = rules.first - at_service - claiming
        if self.state.phase is BreakerPhase.OPEN:
            return self._open(rules, now, claiming, left, way_past(name, word))
        if self.state.phase is BreakerPhase.HALF_OPEN:
            half_open = Hold(Brake.BREAKER, f"{self.state.why}: the breaker is half open", stops=False)
            return Open(max(0, more - self.state.tried), half_open)
        return ANY if self.state.has_succeeded else self._first(more - (self._failed - self.state.base), now)

    def _open(self, rules: BreakerRules, now: int, claiming: int, left: int, way_on: str) -> GateResult:
        why, advice = self.state.why, f"the breaker has tripped; {way_on}"
        if self._waits_for_people(rules, left):
            if self.state.probes >= PROBES_MAX:
                why = f"{why}, and {counted(self.state.probes, 'single job')} since: {advice}"
                return Closed(Hold(Brake.BREAKER, why))
            few = f"of {counted(left, 'job')} that {'is' if left == 1 else 'are'} left none goes to find out more"
            return Closed(Hold(Brake.BREAKER, f"{why}, and {few}: {advice}"))
        why = f"{why}: {advice}, and one job a minute finds out whether that is needed"
        probing = Hold(Brake.BREAKER, why, stops=False)
        return Closed(probing, self.state.probe_at) if claiming or now < self.state.probe_at else Open(1, probing)

    def _first(self, more: int, now: int) -> GateResult:
        if more > 0:
            self._bound_since = None
            return Open(more)
        self._bound_since = self._bound_since or now
        is_told = now >= self._bound_since + SHOWN_AFTER_US
        why = "the first jobs are out, and the rest waits until one has succeeded (breaker)"
        return Open(0, Hold(Brake.BREAKER, why, stops=False) if is_told else None)

    def _set(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)
