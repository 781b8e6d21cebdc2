"""What is drawn of the flows of a world in which several engines share a ledger."""

import random
from typing import Final

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Fault
from orchestrator.units import WHOLE
from tests.simulation.drawn import APART, LIES, OF_LONG_JOBS
from tests.simulation.engines.drawn import engines
from tests.simulation.flows.plan import FlowsPlan
from tests.simulation.plan import Plan, RunPlan

JOBS: Final = 3
"""So few has the run beside the flows."""

NOT_OF_FLOWS: Final = frozenset({Fault.EMPTY_OUTPUT, Fault.STUCK_IN_QUEUE, Fault.STUCK_WORKER, Fault.DEAD_WORKER})
"""What fails the row behind, or lasts until the end of a TTL: a stage has that of the service, a day."""


def flows(seed: int) -> Plan:
    """Several engines carry out the flows of a pipeline, which is left half done, held and gone on with."""
    plan, chance = engines(seed), random.Random(f"flows {seed}")
    assert plan.engines is not None
    wanted = FlowsPlan(
        asked_s=tuple(chance.uniform(0, plan.calm_at_s * 2 / 3) for _ in range(chance.choice((1, 2, 3)))),
        rows=chance.choice((1, 4, 8)),
        has_command=chance.random() < 2 / 3,
        needs=chance.choice((WHOLE, WHOLE // 2)),
        side_by_side=chance.choice((1, 3)),
        are_looked_at_s=chance.choice(((2.0, 10.0), (5.0, 40.0))),
        paused=chance.choice((0.0, 0.3)),
        again_from=chance.choice((None, None, "first", "last")),
        only_failed=chance.random() < 1 / 2,
    )
    rates = {fault.value: 0.0 for fault in LIES | OF_LONG_JOBS | APART | NOT_OF_FLOWS}
    return msgspec.structs.replace(
        plan,
        scenario="flows",
        jobs=JOBS,
        others=tuple(
            RunPlan(name=each.name, jobs=JOBS, where=each.where, begins_s=each.begins_s) for each in plan.others[:1]
        ),
        engines=msgspec.structs.replace(plan.engines, flows=wanted),
        faults=msgspec.structs.replace(plan.faults, **rates, handler_error=chance.choice((0.0, 0.3, 0.6)), spells=()),
        via=Via.QUEUE,
        yields=False,
        secrets=False,
        padding=(0, 0),
        escalate=(),
        canary=None,
        budget_share=None,
        day_share=None,
        max_failures=None,
        finish_by_s=None,
        askings=(),
        receivers=None,
    )
