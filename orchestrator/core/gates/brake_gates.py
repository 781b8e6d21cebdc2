"""The brakes that people set, and the gates that they close: canary, failures, budget (cost) and deadline.

Each gate looks at facts and at the time, like those of `core.gates`. What a brake counts is in the ledger, so it holds
over restarts. Shares are in millionths of the whole; times are microseconds UTC.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.costs import Cost, Costs
from orchestrator.core.gates.gates import ANY, Closed, GateResult, Hold, Open, narrowest
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.figures import money
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording
from orchestrator.core.text.wording import counted
from orchestrator.units import DAY_US, SECOND_US, WHOLE

JUDGED_FROM: Final = 20
"""From so many rows on it is looked which share of them has failed."""


SHOWN_AFTER_US: Final = 30 * SECOND_US
"""That the first jobs are waited for is normal, and told once it lasts."""

FIRST_OUT: Final = "as many rows are out as may fail, and the rest waits until one has succeeded (max-failures)"

UNRATED_MAX: Final = 40
"""So many are outstanding, where none may be late, before it is known how fast they end."""


class Canary(msgspec.Struct, frozen=True):
    """So many rows go first, and this share of them has to succeed before the rest goes; none: all go."""

    rows: int = 0
    share: int = WHOLE


class MaxFailures(msgspec.Struct, frozen=True):
    """How many rows may fail before nothing more is sent, or which share of those that have ended; None: any."""

    rows: int | None = None
    share: int | None = None

    @property
    def at_first(self) -> int | None:
        """So many are outstanding at most before one has succeeded: if they all fail, it is known to be too many."""
        if self.rows is not None:
            return self.rows + 1
        return None if self.share is None else JUDGED_FROM

    def are_exceeded(self, failed: int, ended: int) -> bool:
        """Whether so many of the rows that have ended are more than may fail."""
        if self.rows is not None:
            return failed > self.rows
        return self.share is not None and ended >= JUDGED_FROM and failed * WHOLE > self.share * ended


class Brake(StrEnum):
    """A brake of a run, in their order."""

    BREAKER = "breaker"
    FAILURES = "failures"
    CANARY = "canary"
    BUDGET = "budget"
    DEADLINE = "deadline"


class CanaryFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the rows stand that go first."""

    chosen: int
    succeeded: int
    failed: int
    """Those that failed, or were cancelled."""

    due: int
    """Those that may be sent now by the operation that is asked about."""

    next_at: int | None = None
    """When the next one may be; None where none waits for a time."""

    share: int = WHOLE

    @property
    def needed(self) -> int:
        """How many have to succeed."""
        return -(-self.chosen * self.share // WHOLE)

    @property
    def has_passed(self) -> bool:
        """Whether enough have succeeded, the others being over, too."""
        return self.succeeded >= self.needed and self.succeeded + self.failed >= self.chosen

    @property
    def has_failed(self) -> bool:
        """Whether so many failed that not enough can succeed any more."""
        return self.chosen - self.failed < self.needed


class BudgetFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of an amount and of what comes out of it."""

    budget: float
    costs: Costs
    outstanding: int
    """Executions that are to be paid out of it: at the service, claimed or on their way."""

    of_day: bool = False
    """Whether it is a day's of its endpoint, rather than the run's."""

    @property
    def expected(self) -> Cost:
        """What was spent, and is to be expected of what is outstanding."""
        return self.costs.spent + self.costs.expected(self.outstanding)

    @property
    def more(self) -> int:
        """How many more may be sent. While nothing is known of what one takes, a few find that out."""
        more = self.costs.more(self.budget, self.outstanding)
        if self.costs.is_known or self.costs.spent.amount >= self.budget:
            return more
        return max(more, self.costs.to_find_out - self.outstanding, 0)


class DeadlineFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When a run is to be finished, and how fast it goes."""

    finish_by: int
    stops_late: bool
    left: int
    """Jobs without an outcome."""

    at_service: int
    jobs_per_s: float | None
    """Those that end in a second, of late; None while that is not known."""

    typical_us: int | None
    """What one takes from its submission on, in the mean; None while that is not known."""

    late_in_turn_us: int | None = None
    """By how much it is late though its turn comes by its deadline; 0: it is in time by that. None: turns do not go by
    deadlines.
    """

    zone: tzinfo = UTC

    def ends_at(self, now: int) -> int | None:
        """When the run ends at its present rate; None while there is none."""
        return None if not self.jobs_per_s else now + int(self.left / self.jobs_per_s * SECOND_US)

    def next_ends_at(self, now: int) -> int:
        """When a job ends at the earliest that is sent now."""
        in_line_us = int(self.at_service / self.jobs_per_s * SECOND_US) if self.jobs_per_s else 0
        return now + max(in_line_us, self.typical_us or 0)


class BrakeFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of the brakes of one run; None for those that it does not have."""

    name: str
    """The run's."""

    word: Wording
    """How the step is worded that goes on past a brake."""

    max_failures: MaxFailures | None = None
    failed: int = 0
    ended: int = 0
    succeeded: int = 0
    outstanding: int = 0
    """Jobs that are at the service, claimed or on their way."""

    sending_since: int | None = None
    """When the first one was claimed here; None while none was."""

    canary: CanaryFacts | None = None
    budgets: tuple[BudgetFacts, ...] = ()
    deadline: DeadlineFacts | None = None


def failures_gate(brakes: BrakeFacts, now: int) -> GateResult:
    """More rows have failed than may; or so many are out, and none has succeeded, that more could."""
    if brakes.max_failures is None:
        return ANY
    if brakes.max_failures.are_exceeded(brakes.failed, brakes.ended):
        return _stopped(
            Brake.FAILURES,
            f"{brakes.failed:,} of the first {counted(brakes.ended, 'row')} have failed, more than max-failures"
            f" allows; {way_past(brakes.name, brakes.word)}",
        )
    at_first = brakes.max_failures.at_first
    if brakes.succeeded or at_first is None:
        return ANY
    more = at_first - brakes.failed - brakes.outstanding
    if more > 0:
        return Open(more)
    is_told = brakes.sending_since is not None and now >= brakes.sending_since + SHOWN_AFTER_US
    return Open(0, Hold(Brake.FAILURES, FIRST_OUT, stops=False) if is_told else None)


def canary_gate(brakes: BrakeFacts, _now: int) -> GateResult:
    """Some rows go first, and the rest once enough of them have succeeded."""
    rows = brakes.canary
    if rows is None or rows.has_passed:
        return ANY
    stand = f"{rows.succeeded:,} of {rows.chosen:,} succeeded"
    if rows.has_failed:
        return _stopped(
            Brake.CANARY,
            f"the canary failed: {stand}, {rows.failed:,} failed, and {rows.needed:,} have to succeed;"
            f" {way_past(brakes.name, brakes.word)}",
        )
    out = Hold(Brake.CANARY, f"the canary is out: {stand} so far, and the rest waits for it", stops=False)
    return Open(rows.due, out) if rows.due else Closed(out, rows.next_at)


def budget_gate(brakes: BrakeFacts, now: int) -> GateResult:
    """What was spent, and is to be expected, reaches an amount."""
    return narrowest(_budget(each, brakes, now) for each in brakes.budgets)


def _budget(facts: BudgetFacts, brakes: BrakeFacts, now: int) -> GateResult:
    more = facts.more
    if more:
        return Open(more)
    told = f"{facts.costs.spent} spent and {facts.costs.expected(facts.outstanding)} expected of"
    told = f"{told} {counted(facts.outstanding, 'outstanding job')} reach"
    if facts.of_day:
        midnight = (now // DAY_US + 1) * DAY_US
        return _stopped(Brake.BUDGET, f"{told} the endpoint's {money(facts.budget)} a day, until 00:00 UTC", midnight)
    way = way_to_change(brakes.name, brakes.word)
    return _stopped(Brake.BUDGET, f"{told} the budget of {money(facts.budget)}; {way}")


def deadline_gate(brakes: BrakeFacts, now: int) -> GateResult:
    """What would be finished too late is not sent, where that is wanted; else it is told that it will be."""
    facts = brakes.deadline
    if facts is None:
        return ANY
    by = f"finish-by {time_in_zone(facts.finish_by, facts.zone)}"
    if facts.stops_late and facts.jobs_per_s is None and now < facts.finish_by:
        return Open(max(0, UNRATED_MAX - facts.at_service))
    if facts.stops_late and facts.next_ends_at(now) > facts.finish_by:
        return _stopped(
            Brake.DEADLINE,
            f"it would end after {by}; {counted(facts.left, 'job')} have no outcome yet;"
            f" {way_to_change(brakes.name, brakes.word)}",
        )
    late = lateness(facts, now)
    return ANY if late is None else Open(None, Hold(Brake.DEADLINE, late, stops=False))


def _stopped(brake: Brake, why: str, until: int | None = None) -> GateResult:
    return Closed(Hold(brake, why), until)


def lateness(facts: DeadlineFacts, now: int) -> str | None:
    """In words, where the run will not be finished in time: when it will, and what would be needed."""
    by = f"finish-by {time_in_zone(facts.finish_by, facts.zone)}"
    if now >= facts.finish_by:
        return f"{by} is over, and {counted(facts.left, 'job')} have no outcome yet" if facts.left else None
    in_turn_us = facts.late_in_turn_us
    ends_at = facts.ends_at(now)
    if in_turn_us:
        return (
            f"it ends {rough_duration(in_turn_us)} after {by}, even where its turn comes by its deadline:"
            f" {counted(facts.left, 'job')} have no outcome yet"
        )
    if in_turn_us == 0 or ends_at is None or ends_at <= facts.finish_by:
        return None
    times = (ends_at - now) / (facts.finish_by - now)
    late_by = rough_duration(ends_at - facts.finish_by)
    return (
        f"at this rate it ends about {time_in_zone(ends_at, facts.zone)}, {late_by} after {by}: in time with"
        f" {times:.1f} times as many workers"
    )


def way_past(name: str, word: Wording) -> str:
    """What makes the run of that name go on past its brakes."""
    return f"{word(Suggestion(NextStep.CONTINUE_RUN, name))} goes on all the same"


def way_to_change(name: str, word: Wording) -> str:
    """What changes the brakes of the run of that name."""
    return f"{word(Suggestion(NextStep.CHANGE_BRAKES, name))} changes that"


def time_in_zone(at: int, zone: tzinfo) -> str:
    """A time for people, with its zone."""
    return f"{datetime.fromtimestamp(at // SECOND_US, zone):%Y-%m-%d %H:%M %Z}"


BRAKES: Final[tuple[Callable[[BrakeFacts, int], GateResult], ...]] = (
    failures_gate,
    canary_gate,
    budget_gate,
    deadline_gate,
)


def of_brakes(brakes: BrakeFacts, now: int) -> list[GateResult]:
    """What the brakes of a run say, in their order."""
    return [brake(brakes, now) for brake in BRAKES]


def hold(results: Sequence[GateResult], *, at_service: int, is_tripped: bool) -> Hold | None:
    """Which brake holds a run, of which so many jobs are outstanding; `results` are those of the brakes in their
    order, and `is_tripped` says whether the breaker is not closed. What is outstanding may end a budget's by itself.
    """
    for brake, result in zip(Brake, results, strict=True):
        if brake is Brake.BREAKER:
            is_held = is_tripped
        else:
            is_lasting = brake is Brake.BUDGET or getattr(result, "until", 0) is None
            is_held = isinstance(result, Closed) and not at_service and is_lasting
        if is_held and result.hold is not None:
            return result.hold
    return None


def stops(results: Iterable[GateResult], *, at_service: int) -> str | None:
    """Why nothing more can come of a run by itself: it is closed until somebody does something, and nothing is
    outstanding whose end could open it.
    """
    if at_service:
        return None
    return next((each.hold.why for each in results if isinstance(each, Closed) and each.until is None), None)
