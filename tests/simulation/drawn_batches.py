"""The service's own Batch in the swarm: which worlds have runs whose jobs leave in batches, what these are like there,
and what somebody else does at the same endpoint.
"""

import random
from collections.abc import Mapping

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.batches.batch_rules import BatchOrder
from orchestrator.emulator.contract.faults import Faults
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.simulation.plan import BatchPlan, Plan, Rate

STUCK = ("stuck_batch", "stuck_request")
"""What is never executed and never said to be over: it stays until somebody cancels the batch."""

TIMEOUT_S = 600.0
"""Of every request of a batch: they have no policy of their own."""

STUCK_SHARE = 1 / 3
LEAVES_S = 900.0
"""By then what is in batches is to be done, where some may be stuck: else it leaves by `/run`."""

RATES = ("failed_batch", "repeated_append", "lost_job", "short_retention")


def with_batches(plan: Plan, *, share: float = 1 / 7) -> Plan:
    """Some worlds of the swarm: all jobs leave in batches, which begin late, fail, are stuck, lose requests, take
    some twice, and name them or not, and where they do show them in any order. Another program has batches of its own
    there. What goes by `/run` has the service's own time to live, a day: nobody waits for that.
    """
    chance = random.Random(f"batches {plan.seed}")
    if chance.random() >= share or plan.resumable or plan.via is not Via.QUEUE or plan.time_scale != 1.0:
        return plan
    has_active_drafts = random.Random(f"drafts {plan.seed}").random() < 1 / 4
    has_ids, stuck = chance.random() < 1 / 2, _stuck(plan.seed)
    return msgspec.structs.replace(
        plan,
        via=Via.BATCH,
        batches=BatchPlan(
            rows=chance.choice((2, 5, 40)),
            delay_s=chance.choice((0.0, 5.0, 60.0)),
            workers=chance.choice((1, 3, 10)),
            append_ids=has_ids,
            order=chance.choice(tuple(BatchOrder) if has_ids else (BatchOrder.APPENDED, BatchOrder.BY_STATUS)),
            kept_s=chance.choice((240.0, 600.0)),
            wait_s=chance.choice((1.0, 15.0)),
            repeats=chance.choice((0, 50)),
            active_max=max(chance.choice((2, 10)), 10 * has_active_drafts),  # those of nobody are never ended
            limit_status=chance.choice((400, 409, 429)),
            has_active_drafts=has_active_drafts,
            page_max=chance.choice((3, 50)),
            strangers=chance.choice((0, 0, 1, 3)),
            leaves_s=LEAVES_S if stuck else None,
        ),
        execution_timeout_s=TIMEOUT_S,
        batch_rate=Rate(chance.choice((20, 100)), 10.0, chance.choice((1, 3, 10))),
        faults=_faults(chance, plan.faults, stuck),
        on_uncertain=OnUncertain.RESUBMIT,
        others=tuple(msgspec.structs.replace(each, on_uncertain=OnUncertain.RESUBMIT) for each in plan.others),
        pool=None,
        yields=False,
        secrets=False,
        escalate=(),
        askings=tuple(msgspec.structs.replace(each, elsewhere=False) for each in plan.askings),
    )


def _stuck(seed: int) -> dict[str, float]:
    """How often something is stuck, in some worlds: there what is left leaves by `/run` in the end."""
    chance = random.Random(f"stuck {seed}")
    if chance.random() >= STUCK_SHARE:
        return {}
    return {name: chance.choice((0.0, 0.2, 0.5)) for name in STUCK}


def _faults(chance: random.Random, faults: Faults, stuck: Mapping[str, float]) -> Faults:
    """Those of the plan, but for jobs that nobody can wait out, and what befalls batches."""
    rates: dict[str, float] = {name: chance.choice((0.0, 0.0, 0.05, 0.2)) for name in RATES}
    return msgspec.structs.replace(faults, **rates, **stuck, stuck_in_queue=0.0)
