"""The workers by need of the swarm: which worlds have them, and what their account does wrong."""

import random

import msgspec

from orchestrator.core.gates.scaling_override import WorkerRange
from tests.simulation.plan import HOUR_S, AccountTrouble, FailureClass, Plan, RunPlan, ScalingPlan, Where

LONG_S = (20.0, 50.0)
"""How long executions take, so that there are minutes in which workers can be changed."""


def with_scaling(plan: Plan, *, share: float = 1 / 12) -> Plan:
    """Some worlds of the swarm: the workers of the first run's endpoint follow what it needs, in half of them with what
    another one needs at the same time.
    """
    chance = random.Random(f"scaling {plan.seed}")
    is_fit = plan.pool is None and not (plan.at_url or plan.direct) and plan.time_scale == 1.0 and not plan.resumable
    if chance.random() >= share or not is_fit or plan.finish_by_s is not None or plan.budget_share is not None:
        return plan
    jobs = plan.jobs + chance.choice((20, 40))
    workers = chance.choice((1, 2, 3))
    least_s = jobs * sum(LONG_S) / 2 / workers
    scaling = ScalingPlan(
        range=WorkerRange(1, chance.choice((3, 6))),
        finish_by_s=chance.choice((0.4, 0.8, 1.5, 3.0)) * least_s,
        share=chance.choice((0.0, 0.3, 0.8)),
        troubles=tuple(chance.sample(tuple(AccountTrouble), chance.randint(1, len(AccountTrouble)))),
        by_hand_at_s=chance.uniform(30, least_s) if chance.random() < 1 / 4 else None,
    )
    if chance.random() < 1 / 2:
        scaling = msgspec.structs.replace(scaling, is_shared=True)
        first, *others = plan.others or (RunPlan(name="second", begins_s=chance.uniform(0, least_s)),)
        first = msgspec.structs.replace(first, where=Where.HERE, jobs=first.jobs + chance.choice((10, 20)))
        plan = msgspec.structs.replace(plan, others=(first, *others), side_by_side=True)
    return msgspec.structs.replace(
        plan,
        jobs=jobs,
        workers=workers,
        seconds=LONG_S,
        execution_timeout_s=max(plan.execution_timeout_s, 4 * max(LONG_S)),
        ttl_s=max(plan.ttl_s, HOUR_S),
        clocks=(),
        weather=tuple(each for each in plan.weather if each.trouble is not FailureClass.CLOCK_JUMP),
        scaling=scaling,
    )
