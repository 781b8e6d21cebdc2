"""What executions cost: the seconds for which a worker had them, times a price; and what those to come will.

The service bills a worker's time, so a job's share of that is its execution time, which it tells with the answer. What
is not in it: workers that start, wait or load a model, storage, and other parties' charges. Amounts are in whatever
currency the price is in. Of what is outstanding only an expectation is known, so it has an error: two standard
deviations of what may come, of the mean's own uncertainty too.
"""

import math
from collections.abc import Iterable
from typing import Final, Self

import msgspec

from orchestrator.core.text.figures import money
from orchestrator.units import WHOLE

MILLISECONDS: Final = 1_000

FEW_TIMED: Final = 5
"""From fewer executions nothing is concluded: each that is outstanding may take as long as it is allowed to."""

DEVIATIONS: Final = 2.0

ROUNDING: Final = 1e-9
"""The part of a job by which a sum of floats may be off."""


class Price(msgspec.Struct, frozen=True, gc=False):
    """What a second of a worker costs, and where that was found, for people."""

    per_s: float
    source: str = "as given"


def batch_price(price: float, batch_discount: int | None) -> float:
    """What a second costs in a batch of the service: less by so many millionths; None: nobody says that it does."""
    return price * (1 - (batch_discount or 0) / WHOLE)


class DurationTotals(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The executions that have ended of a run, an endpoint or a day, added up."""

    timed: int = 0
    """Those whose time is known."""

    total_ms: int = 0
    """That of all these."""

    batch_ms: int = 0
    """Of that: in batches of the service, where a second may cost less."""

    squares: float = 0.0
    """The sum of their squares, in seconds."""

    untimed: int = 0
    """Those that were executed, or may have been, and whose time is not known."""

    failed: int = 0
    """Those of all these that failed, timed out or gave no usable output."""

    @classmethod
    def one(cls, execution_ms: int | None, *, failed: bool = False, in_batch: bool = False) -> Self:
        """A single one; None where its time is not known."""
        if execution_ms is None:
            return cls(untimed=1, failed=int(failed))
        seconds = execution_ms / MILLISECONDS
        batch_ms = execution_ms if in_batch else 0
        return cls(timed=1, total_ms=execution_ms, batch_ms=batch_ms, squares=seconds * seconds, failed=int(failed))

    @classmethod
    def together(cls, parts: Iterable["DurationTotals"]) -> Self:
        """All of these."""
        timed = total_ms = batch_ms = untimed = failed = 0
        squares = 0.0
        for part in parts:
            timed, total_ms, untimed = timed + part.timed, total_ms + part.total_ms, untimed + part.untimed
            squares, failed, batch_ms = squares + part.squares, failed + part.failed, batch_ms + part.batch_ms
        return cls(timed=timed, total_ms=total_ms, batch_ms=batch_ms, squares=squares, untimed=untimed, failed=failed)

    @property
    def ended(self) -> int:
        """All of them."""
        return self.timed + self.untimed

    @property
    def mean_s(self) -> float:
        """What one took, in the mean; 0 where none is known."""
        return self.total_ms / MILLISECONDS / self.timed if self.timed else 0.0

    @property
    def seconds(self) -> float:
        """What all took: those whose time is not known as much as the others, in the mean."""
        return self.total_ms / MILLISECONDS + self.untimed * self.mean_s

    def saved_s(self, batch_discount: int | None) -> float:
        """For so many seconds nothing is paid, since those in batches cost less."""
        return self.batch_ms / MILLISECONDS * (1 - batch_price(1.0, batch_discount))

    def cost(self, price: float, batch_discount: int | None) -> float:
        """What all cost at this price for a second, and in batches at less."""
        return price * (self.seconds - self.saved_s(batch_discount))

    @property
    def variance_s2(self) -> float:
        """How much they differ, as the variance of the kind that they are drawn from."""
        if self.timed < 2:  # noqa: PLR2004
            return 0.0
        return max(0.0, self.squares - self.timed * self.mean_s**2) / (self.timed - 1)


class Cost(msgspec.Struct, frozen=True, gc=False):
    """An amount, and by how much it may be off either way."""

    amount: float
    error: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.amount + other.amount, math.hypot(self.error, other.error))

    def __str__(self) -> str:
        return money(self.amount) if money(self.error) == money(0) else f"{money(self.amount)} ± {money(self.error)}"


NOTHING: Final = Cost(0.0)


class Costs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a run, or all that is at an endpoint, costs at a price for each second of execution."""

    price: float
    took: DurationTotals = DurationTotals()
    """What has ended of it."""

    like: DurationTotals = DurationTotals()
    """What has ended of its like: of its endpoint. It tells what to expect until `took` does."""

    longest_ms: int
    """For how long the service lets a job be executed."""

    standing: float = 0.0
    """What was paid besides, whatever was executed: for pods, as long as they were there."""

    discount: float = 0.0
    """By how much less `took` cost where other endpoints than the dearest executed it, or batches did."""

    @property
    def _known(self) -> DurationTotals | None:
        """What tells how long an execution takes; None where too little does."""
        return next((each for each in (self.took, self.like) if each.timed >= FEW_TIMED), None)

    @property
    def is_known(self) -> bool:
        """Whether enough has ended to expect something of what is outstanding."""
        return self._known is not None

    @property
    def to_find_out(self) -> int:
        """How many more have to end until something is known; 0 once it is."""
        return 0 if self.is_known else max(0, FEW_TIMED - self.took.ended)

    @property
    def each(self) -> float:
        """What one more execution is expected to cost; while nothing is known, what it may cost at most."""
        known = self._known
        return self.price * (self.longest_ms / MILLISECONDS if known is None else known.mean_s)

    @property
    def spent(self) -> Cost:
        """What has ended: of that whose time is not known, what is to be expected of it."""
        known = Cost(self.price * self.took.total_ms / MILLISECONDS - self.discount + self.standing)
        return known + self.expected(self.took.untimed)

    def expected(self, executions: int) -> Cost:
        """What so many executions will cost; while nothing is known, what they may cost at most, or anything less."""
        if not executions:
            return NOTHING
        known = self._known
        amount = self.each * executions
        if known is None:
            return Cost(amount, amount)
        variance = known.variance_s2 * executions * (1 + executions / known.timed)
        return Cost(amount, DEVIATIONS * self.price * math.sqrt(variance))

    def more(self, budget: float, outstanding: int) -> int:
        """How many more may be sent while so many are: what was spent and what is to be expected stay within it."""
        left = budget - self.spent.amount - self.expected(outstanding).amount
        if left < 0:
            return 0
        each = self.each
        return int(min(left / each + ROUNDING, MORE_MAX)) if each else MORE_MAX


MORE_MAX: Final = 1_000_000_000
"""As many as anybody could send: what costs nothing is in any budget."""
