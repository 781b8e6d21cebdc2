"""What executions cost, and what those to come will."""

import random
from statistics import fmean, variance

import msgspec
import pytest

from orchestrator.core.gates.costs import FEW_TIMED, MORE_MAX, NOTHING, Cost, Costs, DurationTotals
from orchestrator.core.text.figures import money

LONGEST_MS = 600_000


def taken(*seconds: float) -> DurationTotals:
    return DurationTotals.together(DurationTotals.one(round(each * 1_000)) for each in seconds)


def test_what_has_ended_is_added_up() -> None:
    seconds = [1.0, 2.0, 4.5, 3.25]
    took = taken(*seconds)
    assert (took.timed, took.total_ms) == (4, 10_750)
    assert took.mean_s == pytest.approx(fmean(seconds))
    assert took.variance_s2 == pytest.approx(variance(seconds))
    assert DurationTotals.together([took, DurationTotals.one(None, failed=True)]).ended == 5


def test_failures_are_counted_whether_their_time_was_told_or_not() -> None:
    took = DurationTotals.together(
        [
            DurationTotals.one(5, failed=True),
            DurationTotals.one(None, failed=True),
            DurationTotals.one(5),
            DurationTotals.one(None),
        ]
    )
    assert (took.failed, took.timed, took.untimed) == (2, 2, 2)


def test_what_was_executed_for_less_is_taken_off_and_what_is_to_come_costs_the_most_it_may() -> None:
    full = Costs(price=2.0, took=taken(1.0, 2.0, 3.0, 2.0, 2.0), longest_ms=LONGEST_MS)
    less = msgspec.structs.replace(full, discount=5.0)
    assert (full.spent.amount, less.spent.amount) == (20.0, 15.0)
    assert less.expected(3).amount == full.expected(3).amount == pytest.approx(12.0)


def test_of_none_and_of_one_nothing_is_known_of_how_they_differ() -> None:
    assert (DurationTotals().mean_s, DurationTotals().variance_s2, taken(3.0).variance_s2) == (0.0, 0.0, 0.0)


def test_what_was_spent_is_the_time_times_the_price() -> None:
    costs = Costs(price=0.002, took=taken(*[10.0] * 6), longest_ms=LONGEST_MS)
    assert costs.spent.amount == pytest.approx(0.12)
    assert costs.spent.error == 0.0


def test_what_ended_without_a_time_costs_what_is_expected_of_it() -> None:
    took = DurationTotals.together([taken(*[10.0] * 6), DurationTotals.one(None)])
    assert Costs(price=0.002, took=took, longest_ms=LONGEST_MS).spent.amount == pytest.approx(0.14)


def test_the_expectation_is_of_the_run_itself_once_it_knows_enough() -> None:
    like = taken(*[2.0] * 50)
    few = Costs(price=1.0, took=taken(*[10.0] * (FEW_TIMED - 1)), like=like, longest_ms=LONGEST_MS)
    enough = Costs(price=1.0, took=taken(*[10.0] * FEW_TIMED), like=like, longest_ms=LONGEST_MS)
    assert few.expected(3).amount == pytest.approx(6.0)
    assert enough.expected(3).amount == pytest.approx(30.0)


def test_while_nothing_is_known_each_may_take_as_long_as_it_is_allowed_to() -> None:
    costs = Costs(price=0.001, longest_ms=LONGEST_MS)
    assert not costs.is_known
    assert costs.expected(5).amount == costs.expected(5).error == pytest.approx(3.0)
    assert costs.more(1.5, 0) == 2


def test_nothing_is_expected_of_nothing() -> None:
    assert Costs(price=1.0, longest_ms=LONGEST_MS).expected(0) is NOTHING


def test_the_error_covers_what_then_happens() -> None:
    """Nineteen of twenty samples of an expectation lie within two deviations."""
    chance = random.Random(7)
    inside = 0
    for _ in range(400):
        known = taken(*(chance.expovariate(0.2) for _ in range(30)))
        expected = Costs(price=1.0, took=known, longest_ms=LONGEST_MS).expected(40)
        came = sum(chance.expovariate(0.2) for _ in range(40))
        inside += abs(came - expected.amount) <= expected.error
    assert 360 <= inside <= 398


def test_so_many_more_fit_into_a_budget() -> None:
    costs = Costs(price=0.1, took=taken(*[10.0] * 10), longest_ms=LONGEST_MS)
    assert costs.spent.amount == pytest.approx(10.0)
    assert [costs.more(25.0, outstanding) for outstanding in (0, 5, 14, 15, 30)] == [15, 10, 1, 0, 0]


def test_what_costs_nothing_is_in_any_budget() -> None:
    free = Costs(price=0.0, took=taken(*[10.0] * 10), longest_ms=LONGEST_MS)
    assert free.more(0.01, 1_000) == MORE_MAX
    dust = Costs(price=1e-15, took=taken(*[0.001] * 10), longest_ms=LONGEST_MS)
    assert dust.more(1.0, 1_000) == MORE_MAX


def test_errors_of_two_amounts_add_as_those_of_independent_things_do() -> None:
    assert Cost(1.0, 3.0) + Cost(2.0, 4.0) == Cost(3.0, 5.0)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0.00"),
        (25, "25.00"),
        (1234.5, "1,234.50"),
        (0.5, "0.50"),
        (0.0123, "0.012"),
        (0.00031, "0.00031"),
        (1e-9, "0.00"),
    ],
)
def test_amounts_are_written_to_the_digits_that_matter(amount: float, text: str) -> None:
    assert money(amount) == text


def test_an_amount_is_shown_with_its_error_where_it_has_one() -> None:
    assert (str(Cost(3.0)), str(Cost(3.0, 0.25))) == ("3.00", "3.00 ± 0.25")


def test_executions_whose_time_is_not_known_count_as_much_as_the_others() -> None:
    assert DurationTotals(timed=2, total_ms=3_000, untimed=2).seconds == 6.0
    assert DurationTotals(untimed=3).seconds == 0.0


def test_what_pods_cost_is_spent_whatever_was_executed() -> None:
    costs = Costs(price=0.0, longest_ms=1_000, standing=2.5)
    assert costs.spent == Cost(2.5)
    assert costs.more(2.0, outstanding=0) == 0
    assert costs.more(3.0, outstanding=9) > 1_000
