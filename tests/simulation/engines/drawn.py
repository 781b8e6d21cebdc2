"""What is drawn of the engines of a world: how many there are, and what befalls them."""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.core.lanes.via import Via
from tests.simulation.drawn import of_jobs, several
from tests.simulation.drawn_crashes import crash
from tests.simulation.engines.plan import Befalls, EnginesPlan, Trouble
from tests.simulation.plan import CLOSED, FailureClass, Kill, Plan

FROZEN_S: Final = (2.0, 8.0, 30.0)
CUT_S: Final = (3.0, 8.0, 20.0, 45.0)
CLOCK_S: Final = (-3_600.0, -10.0, 10.0, 3_600.0)
REST_S_MAX: Final = 60.0
"""Whoever stands by looks four times a second: an hour of nothing else costs a minute."""

PATIENCE_S: Final = 900.0
TTL_S_MAX: Final = 300.0
"""What is held is settled when its TTL is over, and a world has to come to its end while it is waited for."""

DRIFT_MAX: Final = 200e-6


def with_engines(plan: Plan) -> Plan:
    """The same world on a server, with several engines."""
    chance = random.Random(f"engines {plan.seed}")
    number = chance.choice((2, 2, 3, 4))
    begin_s = (0.0, *(chance.choice((0.0, chance.uniform(0, plan.calm_at_s))) for _ in range(number - 1)))
    befalls = [_befalls(chance, plan, number) for _ in range(chance.choice((1, 2, 3)))]
    return msgspec.structs.replace(
        several(plan, side_by_side=True),
        crashes=tuple(_at_commits(chance)),
        weather=tuple(each for each in plan.weather if each.trouble in CLOSED - {FailureClass.ASLEEP}),
        clocks=(),
        patience_s=PATIENCE_S,
        engines=EnginesPlan(
            begin_s=begin_s,
            befalls=tuple(sorted(befalls, key=lambda each: each.at_s)),
            again_s=chance.choice((1.0, 10.0)),
            drifts=tuple(chance.uniform(-DRIFT_MAX, DRIFT_MAX) for _ in range(number)),
            are_of_one_machine=chance.random() < 1 / 3,
        ),
    )


def _befalls(chance: random.Random, plan: Plan, number: int) -> Befalls:
    trouble = chance.choice(tuple(Trouble))
    size = 0.0
    if trouble is Trouble.FROZEN:
        size = chance.choice(FROZEN_S)
    elif trouble is Trouble.CLOCK:
        size = chance.choice(CLOCK_S)
    elif trouble not in {Trouble.KILLED, Trouble.ASKED}:
        size = chance.choice(CUT_S)
    at_s = chance.uniform(1.0, plan.calm_at_s)
    return Befalls(trouble=trouble, at_s=at_s, size=size, who=chance.choice((None, None, *range(number))))


def _at_commits(chance: random.Random) -> Iterator[object]:
    """Some processes are killed at one of their commits."""
    for _ in range(chance.choice((0, 0, 1, 2))):
        yield msgspec.structs.replace(crash(chance), kill=chance.choice((Kill.BEFORE_COMMIT, Kill.AFTER_COMMIT)))


def engines(seed: int) -> Plan:
    """Several engines on one ledger on a server, in a world of the swarm."""
    plan = of_jobs(seed)
    via = Via.QUEUE if plan.at_url or plan.via is Via.BATCH else plan.via
    return with_engines(
        msgspec.structs.replace(
            plan,
            scenario="engines",
            time_scale=1.0,
            ttl_s=min(plan.ttl_s, TTL_S_MAX),
            scaling=None,
            pods=None,
            batches=None,
            pool=None,
            resumable=False,
            at_url=False,
            via=via,
            faults=msgspec.structs.replace(plan.faults, long_pause_s=min(plan.faults.long_pause_s, REST_S_MAX)),
            clocks=(),
        )
    )
