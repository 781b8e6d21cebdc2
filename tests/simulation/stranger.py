"""Another program with batches of its own at the endpoint of a simulated world; nothing of it is anybody else's."""

import random

import anyio
import msgspec

from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.settings.run_request import RunRequest
from orchestrator.units import SECOND_US
from tests.simulation.clock import EPOCH_AT
from tests.simulation.facts import Facts, StrangeBatch
from tests.simulation.plan import Plan
from tests.simulation.world import ENDPOINT, SimulatedService

ROWS_MAX = 6


def for_batches(request: RunRequest, plan: Plan) -> RunRequest:
    """The request with what a run is told of batches, whose requests have no policy."""
    batches = plan.batches
    if batches is None or request.settings is None:
        return request
    leaves_at = 0 if batches.leaves_s is None else EPOCH_AT + round(batches.leaves_s * SECOND_US)
    settings = msgspec.structs.replace(
        request.settings,
        policy=Policy(),
        finish_by=request.settings.finish_by or leaves_at,
        batch_rows=batches.rows,
        batch_active=batches.active_max,
        batch_retention_us=round(batches.kept_s * SECOND_US),
        batch_wait_us=round(batches.wait_s * SECOND_US),
        batch_repeats=batches.repeats,
    )
    return msgspec.structs.replace(request, settings=settings)


async def live_beside(facts: Facts, service: SimulatedService) -> None:
    """Makes the plan's strange batches until all is calm: empty drafts, drafts with rows, and some that are
    finalized.
    """
    plan, chance = facts.plan, random.Random(f"stranger {facts.plan.seed}")
    for number in range(0 if plan.batches is None else plan.batches.strangers):
        await anyio.sleep_until(chance.uniform(0, plan.calm_at_s) if number else 0.0)
        rows = [b'{"stranger":%d}' % n for n in range(chance.choice((0, 1, ROWS_MAX)))]
        try:
            made = service.batches.create(ENDPOINT, rows, facts.true.now())
        except ServiceRefusal:  # there is no room for it
            continue
        is_final = bool(rows) and chance.random() < 1 / 3
        try:
            if is_final:
                service.batches.finalize(ENDPOINT, made.id, facts.true.now())
        except ServiceRefusal:
            is_final = False
        try:
            summary = service.batches.get(ENDPOINT, made.id, facts.true.now())
        except ServiceRefusal:  # the service has forgotten it already
            continue
        facts.trace.say("stranger", f"leaves {summary.status} with {summary.request_total} rows", made.id)
        facts.strange.append(StrangeBatch(made.id, summary.status, summary.request_total))
