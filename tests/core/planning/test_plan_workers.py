"""A plan whose workers follow what it needs."""

from msgspec.structs import replace

from orchestrator.core.gates.costs import Price
from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.bottlenecks import SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers
from orchestrator.core.planning.plan_types import Batch, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from orchestrator.units import HOUR_US, MINUTE_US

TERMS = Terms(ttl_us=24 * HOUR_US, execution_timeout_us=HOUR_US, worker_range=WorkerRange(2, 30))
KNOWN = Known(times=ExecutionSample.given(MINUTE_US), workers=Workers(most=3, warm=3), workers_from="as given")


def a_plan(terms: Terms, known: Known = KNOWN, jobs: int = 3_000) -> Plan:
    return plan_of(Batch(rows=jobs), "ep", SendingLimits(webhooks=True), terms, known)


def test_it_reckons_with_as_many_as_make_the_deadline() -> None:
    found = a_plan(replace(TERMS, finish_within_us=6 * HOUR_US))
    assert (found.workers, found.workers_from) == (10, "of 2 to 30: finish-by needs 10 workers")
    assert found.finish_s is not None
    assert 5 * 3600 < found.finish_s < 6 * 3600
    assert found.is_feasible


def test_it_says_that_the_most_are_too_few() -> None:
    found = a_plan(replace(TERMS, finish_within_us=HOUR_US))
    assert found.workers == 30
    assert found.workers_from.startswith("of 2 to 30: even 30 are too few for finish-by, which is ")
    assert not found.is_feasible


def test_it_reckons_with_what_an_hourly_budget_pays_for() -> None:
    terms = replace(TERMS, per_hour=3.6, price=Price(0.0001))
    assert a_plan(terms).workers == 10


def test_without_times_it_reckons_with_what_a_run_begins_with() -> None:
    found = a_plan(replace(TERMS, finish_within_us=HOUR_US), Known())
    assert (found.workers, found.workers_from) == (8, "of 2 to 30: how long a job takes is not known yet")


def test_without_a_range_there_are_as_many_as_are_there() -> None:
    assert a_plan(replace(TERMS, worker_range=None, finish_within_us=6 * HOUR_US)).workers == 3
