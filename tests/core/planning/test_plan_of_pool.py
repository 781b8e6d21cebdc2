"""The plan of a batch that several endpoints share: what each takes, what that costs, and what is said of them."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from orchestrator.core.gates.costs import Price
from orchestrator.core.lanes.direct_answers import WHAT_A_LOST_ANSWER_IS
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.core.planning.plan_parts import Part
from orchestrator.core.planning.plan_types import Batch, Candidate, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of_pool
from orchestrator.core.planning.pool_forecast import PoolRule
from orchestrator.core.pools.member import Prefer
from orchestrator.core.pools.member_health import THROTTLED
from tests.factories import S

DAY = 86_400 * S
CHEAP = PoolRule(prefer=Prefer.CHEAP)


def there(endpoint: str, workers: int = 10, seconds: int = 10, *, price: float | None = None, **more: Any) -> Candidate:
    times = ExecutionSample(executions_us=(seconds * S,) * 20, source=TimesSource.HISTORY)
    known = Known(times=times, workers=Workers(most=workers, warm=workers), workers_from="seen")
    return Candidate(
        endpoint=endpoint,
        line=SendingLimits(),
        known=known,
        price=None if price is None else Price(price),
        **more,
    )


def planned(*candidates: Candidate, jobs: int = 1_000, rule: PoolRule = PoolRule(), **terms: Any) -> Plan:  # noqa: B008
    kept = Terms(**{"ttl_us": DAY, "execution_timeout_us": 600 * S, **terms})
    return plan_of_pool(Batch(rows=jobs), candidates, kept, rule)


def test_all_of_it_ends_as_one_and_each_has_its_share() -> None:
    found = planned(there("slow", seconds=20), there("quick", seconds=5))
    assert found.verdict == "1,000 jobs in about 7 min (6 min to 7 min); the workers bind"
    assert [each.endpoint for each in found.members] == ["slow", "quick"]
    assert [each.jobs for each in found.members] == [pytest.approx(200, abs=5), pytest.approx(800, abs=5)]
    assert sum(each.share for each in found.members) == pytest.approx(1)
    assert found.jobs_per_s == pytest.approx(2.5)
    assert (found.workers, found.workers_from, found.executions_known) == (20, "", 40)
    assert found.execution_s == pytest.approx(8, rel=0.02)
    assert (found.prefer, found.binds, found.members[1].bound_by) == (
        Prefer.FAST,
        Bottleneck.WORKERS,
        "the workers bind",
    )
    assert found.members[0].finish_s == pytest.approx(found.finish_s, rel=0.05)


def test_each_member_is_reckoned_with_its_own_lane() -> None:
    limit = Limit(requests=500, window_s=10, concurrent=10)
    server = replace(there("server"), line=SendingLimits(run=limit, via=Via.HTTP))
    found = planned(there("queue"), server)
    assert [each.via for each in found.members] == [Via.QUEUE, Via.HTTP]
    assert [each.jobs for each in found.members] == [pytest.approx(500, abs=15)] * 2
    assert found.doubtful == (f"server: {WHAT_A_LOST_ANSWER_IS}",)


def test_the_cheapest_that_makes_the_end_is_one_rule_for_all_lanes() -> None:
    patient = PoolRule(prefer=Prefer.CHEAP, spill_after_us=DAY)
    server = replace(there("server", price=0.1), line=SendingLimits(via=Via.HTTP))
    alone = planned(server, there("queue", price=0.4), rule=patient, finish_within_us=DAY)
    assert [each.jobs for each in alone.members] == [1_000, 0]
    in_time = planned(server, there("queue", price=0.4), rule=patient, finish_within_us=700 * S)
    assert in_time.finish_s is not None
    assert in_time.finish_s <= 700
    assert 200 < in_time.members[1].jobs < 450, "and it does all that it can"


def test_a_ttl_ends_nothing_where_nothing_waits() -> None:
    server = replace(there("server", seconds=60), line=SendingLimits(via=Via.HTTP))
    assert not planned(server, ttl_us=30 * S).refused
    assert planned(there("queue", seconds=60), ttl_us=30 * S).refused


def test_a_single_endpoint_has_no_members() -> None:
    found = planned(there("alone"))
    assert (found.members, found.prefer, found.workers_from) == ((), None, "seen")


def test_each_costs_its_own_price() -> None:
    found = planned(there("a", price=0.01), there("b", price=0.03))
    assert found.cost is not None
    assert [each.cost for each in found.members] == [pytest.approx(50, rel=0.01), pytest.approx(150, rel=0.01)]
    assert found.cost.likely == pytest.approx(200, rel=0.01)
    assert found.cost.price_per_s == pytest.approx(0.02, rel=0.01)
    assert found.cost.price_from == "in the mean"
    dear = planned(there("a", price=0.01), there("b", price=0.03), jobs=0)
    assert (dear.cost, dear.members[0].cost, dear.members[0].share) == (None, None, 0)


def test_where_a_price_is_not_known_of_one_that_takes_jobs_there_is_no_sum() -> None:
    found = planned(there("a", price=0.01), there("b"))
    assert (found.cost, found.members[1].cost) == (None, None)
    assert found.members[0].cost == pytest.approx(50, rel=0.01)
    assert planned(there("a", price=0.01), there("b"), jobs=20, rule=CHEAP).cost is not None


def test_what_costs_nothing_of_anybodys_time_has_a_price_all_the_same() -> None:
    found = planned(there("a", seconds=0, price=0.01), there("b", seconds=0, price=0.03))
    assert found.cost is not None
    assert (found.cost.likely, found.cost.price_per_s) == (0, 0.01)


def test_workers_that_start_are_paid_at_the_member_where_they_do() -> None:
    cold = Known(times=there("a").known.times, workers=Workers(most=10, start_us=100 * S))
    found = planned(msgspec.structs.replace(there("a", price=0.01), known=cold), there("b", price=0.03))
    assert found.cost is not None
    assert found.cost.starting == pytest.approx(10)
    assert Part(candidate=there("a", price=0.01), way=None).starting == 0


def test_who_is_not_well_takes_nothing_and_that_is_said() -> None:
    found = planned(there("a"), there("b", unwell=THROTTLED))
    assert [(each.jobs, each.unwell) for each in found.members] == [(1_000, None), (0, THROTTLED)]
    assert found.doubtful == (f"b is not well ({THROTTLED}); it is reckoned without it",)
    assert found.would_help == ("20 workers instead of 10: done 8 min sooner",)
    none = planned(there("a", unwell=THROTTLED), there("b", unwell=THROTTLED))
    assert [each.jobs for each in none.members] == [500, 500]
    assert none.doubtful[0] == f"a is not well ({THROTTLED}); none of them is well: it is reckoned as if they were"


def test_who_is_not_known_takes_nothing_and_that_is_said() -> None:
    new = Candidate(endpoint="new", line=SendingLimits(), known=Known(workers=Workers(most=3)))
    found = planned(there("a"), new)
    assert (found.members[1].jobs, found.members[1].jobs_per_s, found.members[1].workers) == (0, None, 3)
    assert found.doubtful == ("new: nobody knows how long a job takes; it is reckoned without it",)
    nobody = planned(new, new)
    assert nobody.doubtful == ()
    assert nobody.would_help == ("to know how long a job takes",)
    assert nobody.verdict == "1,000 jobs are sent within 5 s at the soonest; when they end nobody knows yet"


def test_what_is_said_of_one_member_names_it() -> None:
    found = planned(there("a"), there("b", seconds=1_300))
    assert found.refused == (), "it takes nothing"
    found = planned(there("a", seconds=650), there("b", seconds=700))
    assert [each.split(":")[0] for each in found.refused] == ["a", "b"]
    assert found.verdict.startswith("not like this: a: the execution timeout (10 min) ends nearly every job")


def test_more_workers_are_told_of_the_member_where_they_help_the_most() -> None:
    found = planned(there("slow", seconds=20), there("quick", seconds=5))
    assert found.would_help[0].startswith("20 workers instead of 10 at quick: done ")


MEMBERS = there("a", price=0.01), there("b", price=0.05)
IN_TIME: dict[str, Any] = {"finish_within_us": 1_100 * S}


def test_by_price_it_costs_less_where_there_is_time() -> None:
    told = 'prefer = "cheap" and spill-after = "19m" in the table of the pool: costs 200.00 less, 8 min later'
    assert planned(*MEMBERS, **IN_TIME).would_help[-1] == told
    [late] = planned(*MEMBERS, finish_within_us=400 * S).refused
    assert late == "it ends 101 s too late: it takes 8 min, and there are 7 min; it would take about 26 workers"


@pytest.mark.no_cover
def test_of_less_cost_nothing_is_told_where_it_would_be_late_or_is_so_already() -> None:
    assert (
        planned(*MEMBERS, rule=CHEAP, **IN_TIME).would_help[-1].startswith('prefer = "cheap" and spill-after = "19m"')
    )
    patient = planned(*MEMBERS, rule=PoolRule(prefer=Prefer.CHEAP, spill_after_us=DAY), **IN_TIME)
    assert patient.members[1].jobs == 0
    for found in (patient, planned(*MEMBERS), planned(*MEMBERS, finish_within_us=400 * S)):
        assert not any("cheap" in each for each in found.would_help)
