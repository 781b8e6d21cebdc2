"""The chunks of the swarm: which worlds have runs whose rows travel together, and what their handler does with these."""

import random

import msgspec

from orchestrator.core.lanes.via import Via
from tests.simulation.chunk_plan import ChunkPlan
from tests.simulation.plan import Plan

SIZES = (ChunkPlan(rows=3), ChunkPlan(rows=8), ChunkPlan(rows=16), ChunkPlan(bytes=40), ChunkPlan(bytes=120))
ODD_ROWS_MAX = 2
"""So many rows of a world are poisonous, at the most, and as many are bad."""


def with_chunks(plan: Plan, *, share: float = 1 / 9) -> Plan:
    """Some worlds of the swarm: the rows of all runs travel together, some of them are bad or poisonous, and the handler
    leaves parts of its outputs out, doubles them, or gives them to nobody. That an id is another chunk's nobody can
    tell where parts go by place.
    """
    chance = random.Random(f"chunks {plan.seed}")
    is_fit = plan.vias <= {Via.QUEUE} and not (plan.resumable or plan.yields) and plan.pods is None
    if random.Random(f"rows together {plan.seed}").random() >= share or not is_fit:
        return plan
    jobs = plan.jobs + chance.choice((0, 15, 40))
    rows = range(1, jobs + sum(run.jobs for run in plan.others) + 1)
    chunks = msgspec.structs.replace(
        chance.choice(SIZES),
        is_by_id=chance.random() < 1 / 2,
        poisonous=tuple(sorted(chance.sample(rows, chance.randint(0, ODD_ROWS_MAX)))),
        bad=tuple(sorted(chance.sample(rows, chance.randint(0, ODD_ROWS_MAX)))),
        spoilt_share=chance.choice((0.0, 0.1, 0.3)),
    )
    spells = tuple(msgspec.structs.replace(each, repeated_id=0.0) for each in plan.faults.spells)
    missing = chance.choice((0.0, 0.1))
    faults = msgspec.structs.replace(plan.faults, repeated_id=0.0, missing_part=missing, spells=spells)
    return msgspec.structs.replace(plan, jobs=jobs, chunks=chunks, faults=faults)
