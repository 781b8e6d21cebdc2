"""The pods of the swarm: which worlds have them in the place of an endpoint, and what befalls these and their account."""

import random
from collections.abc import Iterator

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Fault, Faults
from tests.simulation.drawn_pools import LONG_S
from tests.simulation.plan import Asking, Plan, PodsPlan, Word

OF_PODS = frozenset({Fault.NO_MACHINES, Fault.STUCK_POD, Fault.MUTE_POD, Fault.FAILED_POD, Fault.VANISHED_POD})
"""What befalls pods."""

OF_ACCOUNTS = (
    *(Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.RESET, Fault.SERVER_ERROR, Fault.SERVER_ERROR_AFTER),
    *(Fault.THROTTLED, Fault.SLOW_ANSWER, Fault.NOT_JSON, Fault.CUT_ANSWER),
)
"""What an account does that is asked for them."""

PAUSED_S = 200.0


def with_pods(plan: Plan, *, share: float = 1 / 9) -> Plan:
    """Some worlds of the swarm: the first run, and those at the same place, are worked on by pods, which do not start,
    never answer, fail or vanish, or are not to be had, of an account that loses requests and answers.
    """
    chance = random.Random(f"pods {plan.seed}")
    is_fit = plan.scaling is None and plan.batches is None and plan.time_scale == 1.0 and not plan.resumable
    if chance.random() >= share or not is_fit:
        return plan
    spells = tuple(msgspec.structs.replace(each, bare_error=0.0) for each in plan.faults.spells)
    count = chance.choice((1, 2, 3))
    pods = PodsPlan(
        counts=chance.choice(((count,), (count, 1, 3), (count, 2))),
        workers=(workers := chance.choice((1, 2, 5))),
        at_once=chance.choice((workers, workers, 100)),
        stops=chance.random() < 1 / 2,
        provisioning_s=chance.choice((1.0, 5.0, 30.0)),
        booting_s=chance.choice((0.0, 3.0, 20.0)),
        ready_within_s=chance.choice((60.0, 120.0)),
        capacity=chance.choice((None, None, count, max(1, count - 1))),
        faults=_faults(chance),
        late_share=chance.choice((0.0, 0.3)),
    )
    return msgspec.structs.replace(
        plan,
        pods=pods,
        jobs=plan.jobs + chance.choice((0, 10, 25)),
        seconds=chance.choice((plan.seconds, LONG_S, LONG_S)),
        via=chance.choice((Via.HTTP, Via.OPENAI)),
        at_url=True,
        pool=None,
        yields=False,
        secrets=False,
        escalate=(),
        budget_share=None,
        day_share=None,
        faults=msgspec.structs.replace(plan.faults, bare_error=0.0, spells=spells),
        askings=(*(msgspec.structs.replace(each, elsewhere=False) for each in plan.askings), *_pause(chance, plan)),
    )


def _pause(chance: random.Random, plan: Plan) -> Iterator[Asking]:
    """In some of them somebody pauses the first run for long."""
    if chance.random() < 1 / 3 and not plan.askings:
        at_s = chance.uniform(10.0, plan.calm_at_s)
        yield Asking(word=Word.PAUSE, run=0, at_s=at_s)
        yield Asking(word=Word.CONTINUE, run=0, at_s=at_s + PAUSED_S)


def _faults(chance: random.Random) -> Faults:
    rates = {fault.value: chance.choice((0.0, 0.1, 0.4)) for fault in sorted(OF_PODS) if chance.random() < 1 / 2}
    rates |= {fault.value: chance.choice((0.0, 0.05, 0.2)) for fault in OF_ACCOUNTS if chance.random() < 1 / 2}
    return msgspec.convert({**rates, "slow_answer_s": 20.0, "pod_ends_after_s": chance.choice((20.0, 60.0))}, Faults)
