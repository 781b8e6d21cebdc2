"""Both ends and both prices of a plan whose jobs leave in batches."""

from msgspec.structs import replace

from orchestrator.core.gates.costs import Price
from orchestrator.core.planning.bottlenecks import SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers
from orchestrator.core.planning.plan_types import NO_START, Batch, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from orchestrator.units import HOUR_US, SECOND_US

TERMS = Terms(ttl_us=24 * HOUR_US, execution_timeout_us=600 * SECOND_US, price=Price(0.001))
KNOWN = Known(times=ExecutionSample.given(10 * SECOND_US), workers=Workers(most=10, warm=10))
JOBS = 7_000
BATCH = Batch(rows=JOBS, done=0, repeats=0, oversize=0, input_bytes=1_000)


def plan(terms: Terms = TERMS, known: Known = KNOWN, discount: int | None = 200_000, jobs: int = JOBS) -> Plan:
    terms = replace(terms, batch_rows=5_000, batch_discount=discount)
    return plan_of(replace(BATCH, done=JOBS - jobs), "abc", SendingLimits(), terms, known)


def test_both_prices_are_told_and_the_end_by_run_and_that_of_batches_nobody_knows() -> None:
    found = plan()
    assert found.batch is not None
    assert found.cost is not None
    assert (found.batch.batches, found.batch.finish_s) == (2, None)
    assert found.batch.price_per_s == 0.0008
    assert found.batch.cost is not None
    assert 0.7 < found.batch.cost / found.cost.likely < 0.9
    assert found.verdict.startswith("7,000 jobs in 2 batches for about ")
    assert NO_START in found.verdict
    assert "; by /run they end in about 1" in found.verdict
    assert [line.split(":")[0] for line in found.batch.lines] == ["in batches", "cost in batches"]


def test_what_nobody_says_is_not_told() -> None:
    unpriced = plan(discount=None)
    assert unpriced.batch is not None
    assert (unpriced.batch.cost, unpriced.batch.price_per_s) == (None, None)
    assert "not known" in [*unpriced.batch.lines][1]
    free = plan(replace(TERMS, price=None))
    assert free.batch is not None
    assert (free.cost, free.batch.cost, len([*free.batch.lines])) == (None, None, 1)
    assert " for about " not in free.verdict
    unknown = plan(known=Known())
    assert unknown.batch is not None
    assert unknown.batch.cost is None
    assert unknown.verdict.endswith("by /run nobody knows yet either when they end")


def test_what_cannot_be_kept_by_run_cannot_be_kept_and_of_nothing_nothing_is_said() -> None:
    late = plan(replace(TERMS, finish_within_us=SECOND_US))
    assert late.verdict.startswith("not like this")
    assert plan(jobs=0).verdict == "nothing is left to do"
