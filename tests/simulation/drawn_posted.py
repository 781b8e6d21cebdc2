"""The posted batches of simulated worlds: which programs there are, and what they do."""

import random

import msgspec

from orchestrator.settings.words_and_defaults import OnUncertain
from tests.simulation.drawn_crashes import crash
from tests.simulation.plan import FailureClass, Plan
from tests.simulation.posted_plan import TEAMS, PostedPlan, ProgramPlan, Wrong

A_DAY_S = 86_400


def with_posted(plan: Plan) -> Plan:
    """The world, with programs that post batches in the place of its runs: some cancel them, some give them too little
    time, some delete their file, some have written it wrong.
    """
    chance = random.Random(f"posted {plan.seed}")
    programs = tuple(_program(chance, plan.calm_at_s) for _ in range(chance.choice((1, 2, 3, 5))))
    return msgspec.structs.replace(
        plan,
        posted=PostedPlan(programs=programs),
        crashes=(*plan.crashes, *(crash(chance) for _ in range(chance.choice((0, 1, 2))))),
        jobs=0,
        others=(),
        askings=(),
        side_by_side=False,
        on_uncertain=OnUncertain.RESUBMIT,
        scaling=None,
        time_scale=1.0,
        secrets=False,
        escalate=(),
        retry_budget=None,
        canary=None,
        budget_share=None,
        day_share=None,
        max_failures=None,
        finish_by_s=None,
        receivers=None,
        clocks=(),
        weather=tuple(each for each in plan.weather if each.trouble is not FailureClass.CLOCK_JUMP),
        padding=(0, 0),
    )


def _program(chance: random.Random, calm_at_s: float) -> ProgramPlan:
    return ProgramPlan(
        team=chance.randrange(len(TEAMS)),
        begins_s=chance.choice((0.0, chance.uniform(0, calm_at_s))),
        rows=chance.choice((1, 3, 8, 20)),
        window_s=chance.choice((A_DAY_S, A_DAY_S, 1, 20, 120)),
        wrong=chance.choice((*Wrong,)) if chance.random() < 1 / 6 else None,
        cancels_after_s=chance.choice((0.0, 2.0, 30.0)) if chance.random() < 1 / 4 else None,
        deletes_after_s=chance.choice((0.0, 1.0, 40.0)) if chance.random() < 1 / 4 else None,
        again=chance.choice((1, 1, 2)),
    )
