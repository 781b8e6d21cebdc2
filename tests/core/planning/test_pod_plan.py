"""Plans whose jobs are executed by pods: their start is in all times, and they are paid from the beginning to the end."""

import pytest
from msgspec.structs import replace

from orchestrator.core.planning.bottlenecks import SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers
from orchestrator.core.planning.plan_types import Batch, Known, KnownPods, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from orchestrator.core.planning.pod_plan import START_US_ASSUMED, latest_of, observed_start
from orchestrator.core.pods.pod_lease import ready
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.core.pods.leases import T0, TEMPLATE, lease

PODS = KnownPods(
    template="vllm", count=2, start_us=6 * MINUTE_US, start_from="assumed", per_hour=0.5, price_from="as given"
)
TERMS = Terms(ttl_us=24 * HOUR_US, execution_timeout_us=HOUR_US, pods=PODS)
KNOWN = Known(times=ExecutionSample.given(10 * SECOND_US), workers=Workers(most=8, warm=8))


def plan(terms: Terms = TERMS, jobs: int = 2_880) -> Plan:
    return plan_of(Batch(rows=jobs), "pods:vllm", SendingLimits(), terms, KNOWN)


def test_the_start_is_in_the_end_and_all_of_that_is_paid_of_each_pod() -> None:
    found, without = plan(), plan(replace(TERMS, pods=None))
    assert found.finish_s is not None
    assert without.finish_s is not None
    assert found.finish_s == without.finish_s + 360
    assert found.cost is not None
    assert found.cost.likely == pytest.approx(found.finish_s / 3600)
    assert (found.cost.starting, found.cost.idle) == (0.1, 0.0)
    assert found.cost.best < found.cost.likely < found.cost.worst
    assert found.cost.price_per_s == pytest.approx(0.5 / 3600)
    assert found.pods is not None
    assert (found.pods.count, found.pods.start_s, found.pods.price_per_hour) == (2, 360, 0.5)
    assert any(each.startswith("4 pods instead of 2: done ") for each in found.would_help)


def test_where_nobody_knows_the_price_nothing_is_said_of_costs() -> None:
    found = plan(replace(TERMS, pods=replace(PODS, per_hour=None)))
    assert found.cost is None
    assert found.pods is not None
    assert found.pods.price_per_hour is None


def test_a_budget_and_a_time_are_kept_with_the_start_or_refused() -> None:
    [late] = plan(replace(TERMS, finish_within_us=HOUR_US + 2 * MINUTE_US)).refused
    assert "too late" in late
    assert "workers" not in late
    [dear] = plan(replace(TERMS, budget=0.5)).refused
    assert "the budget is 0.50" in dear
    assert plan(replace(TERMS, budget=5.0, finish_within_us=2 * HOUR_US)).is_feasible
    nothing = plan(jobs=0)
    assert (nothing.cost, nothing.verdict) == (None, "nothing is left to do")


def test_how_soon_pods_are_ready_is_told_by_those_that_were() -> None:
    made = [ready(lease(id=n, wanted_at=T0), T0 + n * MINUTE_US) for n in (1, 2, 7)]
    waits = lease(id=9, wanted_at=T0)
    assert observed_start([waits]) == (START_US_ASSUMED, "assumed")
    assert observed_start([waits, made[2]]) == (7 * MINUTE_US, "as one took")
    assert observed_start(made) == (2 * MINUTE_US, "as the latest 3 took")
    other = replace(made[0], template=replace(TEMPLATE, gpu="NVIDIA H100"))
    assert [each.id for each in latest_of([*made, other], replace(TEMPLATE, price_per_hour=9.0))] == [7, 2, 1]
