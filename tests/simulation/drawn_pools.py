"""The pools of the swarm: which worlds have one, how fast their members are, and what befalls these."""

import math
import random
from collections.abc import Iterator, Sequence

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import Prefer
from orchestrator.emulator.contract.faults import Faults
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.simulation.plan import Plan
from tests.simulation.pool_plan import MemberTrouble, MemberWeather, PoolPlan

LONG_S = (1.0, 6.0)
"""How long executions take where jobs are to wait."""

BEGUN_S = 2.0
"""Rows have been taken in by then."""


def with_pool(plan: Plan, *, share: float = 1 / 5) -> Plan:
    """Some worlds of the swarm: two or three endpoints, or servers at URLs, share the jobs of the first run. Each may be
    refused, broken, throttled or without workers for a while, one of them for good; and not every process is told of all.
    """
    chance = random.Random(f"pool {plan.seed}")
    if chance.random() >= share:
        return plan
    members = chance.choice((2, 3))
    last = chance.randrange(members) if _may_end_without_one(plan) and chance.random() < 1 / 2 else None
    named = chance.choice(((members,), (members,), (1, members), (members, members - 1, members)))
    workers = tuple(chance.choice((1, 1, 2)) for _ in range(members))
    plan = msgspec.structs.replace(
        plan, jobs=plan.jobs + chance.choice((0, 15, 30)), seconds=chance.choice((plan.seconds, LONG_S, LONG_S))
    )
    pool = PoolPlan(
        workers=workers,
        speeds=tuple(chance.choice((1.0, 0.5, 0.25)) for _ in range(members)),
        named=named if last is None else (members,),
        prefer=chance.choice(tuple(Prefer)),
        weather=tuple(_weather(chance, plan, workers, last)),
    )
    plan = msgspec.structs.replace(plan, pool=pool, via=Via.OPENAI if plan.direct and not plan.at_url else plan.via)
    return _with_lanes(plan)


def _with_lanes(plan: Plan, *, share: float = 1 / 2) -> Plan:
    """Half of these: some members have lanes of their own. The first one stays at the service, where the run is then.
    What an answer past the queue, or a held one, says that is not so nobody can tell from it.
    """
    chance = random.Random(f"lanes {plan.seed}")
    if plan.pool is None or plan.at_url or plan.resumable or chance.random() >= share:
        return plan
    queues: tuple[Via | None, ...] = (None, Via.QUEUE) if plan.is_untold else (None, Via.QUEUE, Via.SYNC, Via.BOTH)
    past = () if plan.yields else ((Via.OPENAI,) if plan.direct else (Via.HTTP, Via.HTTP))
    others = [chance.choice((*queues, *past)) for _ in plan.pool.workers[1:]]
    pool = msgspec.structs.replace(plan.pool, vias=(chance.choice(queues), *others))
    return msgspec.structs.replace(
        plan,
        pool=pool,
        faults=_believable(plan.faults),
        secrets=False,
        escalate=(),
        askings=tuple(msgspec.structs.replace(each, elsewhere=False) for each in plan.askings),
    )


def _believable(faults: Faults) -> Faults:
    spells = tuple(
        msgspec.structs.replace(each, bare_error=0.0, other_record=0.0, repeated_id=0.0) for each in faults.spells
    )
    return msgspec.structs.replace(faults, bare_error=0.0, other_record=0.0, repeated_id=0.0, spells=spells)


def _may_end_without_one(plan: Plan) -> bool:
    """Whether all that is left of the world can be done though one of the endpoints is never well again."""
    is_needed = plan.others or plan.escalate or any(asking.elsewhere for asking in plan.askings)
    return not is_needed and plan.on_uncertain is OnUncertain.RESUBMIT


def _weather(chance: random.Random, plan: Plan, workers: Sequence[int], last: int | None) -> Iterator[MemberWeather]:
    """While jobs are there to be hit by it, mostly."""
    until_s = BEGUN_S + plan.jobs * max(plan.seconds) / sum(workers)
    for member in range(len(workers)):
        for _ in range(chance.choice((0, 1, 1, 2))):
            yield _trouble(chance, member, until_s, for_s=chance.choice((5.0, 40.0, 200.0)))
    if last is not None:
        yield _trouble(chance, last, until_s, for_s=math.inf)


def _trouble(chance: random.Random, member: int, until_s: float, *, for_s: float) -> MemberWeather:
    at_s = chance.choice((0.0, *(chance.uniform(0, until_s) for _ in range(3))))
    trouble = chance.choice(tuple(MemberTrouble))
    return MemberWeather(member=member, trouble=trouble, at_s=at_s, until_s=at_s + for_s)
