"""The files of the swarm: in which worlds a member of each output becomes one, and what goes wrong with that."""

import random
from collections.abc import Iterator

import msgspec

from orchestrator.settings.words_and_defaults import OnUnsaved
from tests.simulation.plan import Plan
from tests.simulation.save_plan import Given, SavePlan

STRANGERS_MAX = 2
LARGE = 1_500_000
"""More than is in memory of what a link leads to."""


def with_saves(plan: Plan, *, share: float = 1 / 9) -> Plan:
    """Some worlds of the swarm: a member of each output becomes a file: Base64, a data URL, a link that is slow, cut or
    gone, or leads to a page, to another row's file or into our network. The disk is full now and then, or not there,
    and some names are taken.
    """
    chance = random.Random(f"saves {plan.seed}")
    if random.Random(f"files of rows {plan.seed}").random() >= share or plan.yields:
        return plan
    kinds = (Given.BASE64, Given.DATA_URL, Given.LINK, *chance.sample(tuple(Given), chance.randint(0, 4)))
    rows = range(1, plan.jobs + sum(run.jobs for run in plan.others) + 1)
    saves = SavePlan(
        given=kinds,
        bytes_max=chance.choice((200, 20_000, 20_000, LARGE)),
        on_unsaved=chance.choice((OnUnsaved.KEEP, OnUnsaved.KEEP, OnUnsaved.FAIL)),
        full_share=chance.choice((0.0, 0.0, 0.3)),
        away=tuple(_away(chance, plan.calm_at_s)),
        strangers=tuple(sorted(chance.sample(rows, min(len(rows), chance.randint(0, STRANGERS_MAX))))),
    )
    return msgspec.structs.replace(plan, saves=saves, padding=(0, 0))


def _away(chance: random.Random, calm_at_s: float) -> Iterator[tuple[float, float]]:
    if chance.random() < 1 / 2:
        at_s = chance.choice((0.0, chance.uniform(0, calm_at_s / 4), chance.uniform(0, calm_at_s)))
        yield at_s, min(calm_at_s, at_s + chance.choice((3.0, 20.0)))
