"""A plan whose jobs leave in batches of the service's own: both ends, and both prices.

When a batch begins the service promises nothing of, so nobody can tell its end. What is told instead holds in any case:
the end and the price by `/run`, which is where rows go that would be late; and the price in batches.
"""

from msgspec.structs import replace

from orchestrator.core.gates.costs import batch_price
from orchestrator.core.planning.plan_judgement import about
from orchestrator.core.planning.plan_types import NO_START, BatchPlan, Plan, Terms
from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted
from orchestrator.units import SECOND_US


def planned_in_batches(plan: Plan, jobs: int, terms: Terms) -> Plan:
    """`plan`, by `/run`, of so many jobs that are left, with what batches make of it where jobs leave in such."""
    if terms.batch_rows is None:
        return plan
    discount = terms.batch_discount
    by_run = None if plan.cost is None or discount is None else plan.cost.price_per_s
    price_per_s = None if by_run is None else batch_price(by_run, discount)
    made = BatchPlan(
        batches=-(-jobs // terms.batch_rows),
        discount=discount,
        price_per_s=price_per_s,
        cost=None if price_per_s is None or plan.executing_s is None else plan.executing_s * price_per_s,
    )
    if not plan.is_feasible or not jobs:
        return replace(plan, batch=made)
    return replace(plan, batch=made, verdict=f"{_in_batches(made, jobs)}; by /run {_by_run(plan)}")


def _in_batches(made: BatchPlan, jobs: int) -> str:
    what = f"{counted(jobs, 'job')} in {counted(made.batches, 'batch', 'batches')}"
    priced = "" if made.cost is None else f" for about {money(made.cost)}"
    return f"{what}{priced}: {NO_START}"


def _by_run(plan: Plan) -> str:
    if plan.finish_s is None:
        return "nobody knows yet either when they end"
    priced = "" if plan.cost is None else f" for about {money(plan.cost.likely)}"
    return f"they end in about {about(plan.finish_s * SECOND_US)}{priced}"
