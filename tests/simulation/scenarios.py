"""The scenarios: each makes a plan from a seed."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Fault, Faults, Spell
from tests.simulation.drawn import (
    HONEST,
    LARGE,
    SPELLS,
    at_rates,
    of_jobs,
    side_by_side,
    swarm,
    with_direct,
    with_held,
    with_long_jobs,
    with_url,
)
from tests.simulation.drawn_batches import with_batches
from tests.simulation.drawn_chunks import with_chunks
from tests.simulation.drawn_pods import with_pods
from tests.simulation.drawn_pools import with_pool
from tests.simulation.drawn_posted import with_posted
from tests.simulation.drawn_saves import with_saves
from tests.simulation.drawn_scaling import with_scaling
from tests.simulation.engines.drawn import engines
from tests.simulation.flows.drawn import flows
from tests.simulation.plan import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Crash,
    FailureClass,
    Kill,
    Lie,
    Plan,
    Rate,
    Weather,
)

Scenario = Callable[[int], Plan]

MAINTENANCES = 5
"""So many of the spells are maintenances."""

STRENGTHS = MappingProxyType(dict.fromkeys(Fault, 0.15) | {Fault.STUCK_WORKER: 0.05, Fault.DEAD_WORKER: 0.05})
"""How often a fault strikes that is there on its own."""


def clean(seed: int) -> Plan:
    """Nothing goes wrong; by polling or by webhook."""
    return Plan(scenario="clean", seed=seed, webhooks=seed % 2 == 1, all_succeed=True)


def one_fault(seed: int) -> Plan:
    """One fault after the other, each by polling and by webhook."""
    fault = HONEST[seed // 2 % len(HONEST)]
    return Plan(
        scenario="one-fault",
        seed=seed,
        retention_s=5 * MINUTE_S,
        ttl_s=10 * MINUTE_S,
        execution_timeout_s=30,
        faults=at_rates({fault: STRENGTHS[fault]}, late_webhook_s=20, silence_s=10),
        calm_at_s=5 * MINUTE_S,
        webhooks=seed % 2 == 1,
    )


def mixed_faults(seed: int) -> Plan:
    """All faults at once."""
    rates = {fault: STRENGTHS[fault] / 4 for fault in HONEST}
    return msgspec.structs.replace(
        one_fault(seed), scenario="mixed-faults", faults=at_rates(rates, late_webhook_s=20, silence_s=10)
    )


def commits(seed: int) -> Plan:
    """Killed before (even seeds) or after (odd ones) one commit after the other; then once more, soon after."""
    number, after = seed // 4 + 1, seed % 2 == 1
    kill = Kill.AFTER_COMMIT if after else Kill.BEFORE_COMMIT
    return Plan(
        scenario="commits",
        seed=seed,
        jobs=8,
        faults=Faults(lost_answer=0.1, handler_error=0.2),
        calm_at_s=30,
        webhooks=seed // 2 % 2 == 1,
        crashes=(Crash(kill, number), Crash(kill, 1 + number % 7)),
        away_s=1,
    )


def gone(seed: int, *, scenario: str, trouble: FailureClass, for_s: float) -> Plan:
    """Something is gone for a while, when a third of the jobs have been sent."""
    return Plan(
        scenario=scenario,
        seed=seed,
        jobs=60,
        workers=4,
        seconds=(5.0, 15.0),
        run_rate=Rate(10, 30, 5),
        all_succeed=True,
        weather=(Weather(trouble=trouble, at_s=60, size=for_s),),
        calm_at_s=60 + for_s,
        webhooks=seed % 2 == 1,
    )


def clock_jumps(seed: int) -> Plan:
    """The clock is set forward and back, by seconds, minutes and an hour; also while no process runs."""
    chance = random.Random(seed)
    sizes = [sign * size for size in (5.0, 120.0, HOUR_S) for sign in (1, -1)]
    chance.shuffle(sizes)
    jumps = [Weather(trouble=FailureClass.CLOCK_JUMP, at_s=10.0 + 20 * n, size=size) for n, size in enumerate(sizes)]
    stop = Weather(trouble=FailureClass.STOP, at_s=45, size=10)
    return Plan(
        scenario="clock-jumps",
        seed=seed,
        jobs=40,
        workers=2,
        seconds=(2.0, 10.0),
        all_succeed=True,
        weather=(*jumps, stop),
        calm_at_s=140,
        webhooks=seed % 2 == 1,
    )


def webhook_storm(seed: int) -> Plan:
    """Every webhook fifty times, and fifty times with a wrong token, while processes are killed."""
    return Plan(
        scenario="webhook-storm",
        seed=seed,
        storm=50,
        webhooks=True,
        faults=Faults(late_webhook=0.2, duplicate_webhook=0.5, late_webhook_s=10, lost_answer=0.1),
        calm_at_s=60,
        crashes=tuple(Crash(Kill.CALL, 100 + 60 * (seed % 5)) for _ in range(2)),
    )


def tight_ttl(seed: int) -> Plan:
    """Two workers, and a queue as long as the TTL: many jobs die in it."""
    return Plan(
        scenario="tight-ttl",
        seed=seed,
        jobs=30,
        workers=2,
        seconds=(4.0, 8.0),
        ttl_s=60,
        execution_timeout_s=20,
        retention_s=3 * MINUTE_S,
        webhooks=seed % 2 == 1,
    )


def seven_days(seed: int) -> Plan:
    """Jobs that run for days, at the contract's longest TTL; one process is stopped for ten minutes."""
    return Plan(
        scenario="seven-days",
        seed=seed,
        jobs=10,
        workers=10,
        seconds=(DAY_S, 6.5 * DAY_S),
        ttl_s=7 * DAY_S,
        execution_timeout_s=7 * DAY_S,
        weather=(Weather(trouble=FailureClass.STOP, at_s=3 * DAY_S, size=10 * MINUTE_S),),
        calm_at_s=7 * DAY_S,
        patience_s=8 * DAY_S,
        webhooks=seed % 2 == 1,
    )


def lying(seed: int, *, scenario: str, faults: Faults, jobs: int = 30) -> Plan:
    """The service lies, by polling (even seeds) or with webhooks (odd ones); each job has its result all the same."""
    return Plan(
        scenario=scenario,
        seed=seed,
        jobs=jobs,
        retention_s=5 * MINUTE_S,
        faults=faults,
        calm_at_s=5 * MINUTE_S,
        webhooks=seed % 2 == 1 or faults.contrary_webhook > 0,
        all_succeed=True,
    )


def maintenance(seed: int) -> Plan:
    """When the program comes back shortly before the results expire, all answers are no news for most of the time."""
    form = SPELLS[seed // 2 % MAINTENANCES]
    rates: dict[str, Any] = {fault.value: rate for fault, rate in form.items()}
    return Plan(
        scenario="maintenance",
        seed=seed,
        jobs=60,
        workers=60,
        seconds=(5.0, 20.0),
        retention_s=3 * MINUTE_S,
        faults=Faults(spells=(Spell(from_s=150, for_s=35, **rates),)),
        calm_at_s=185,
        all_succeed=True,
        weather=(Weather(trouble=FailureClass.STOP, at_s=20, size=135),),
        away_s=135,
        webhooks=seed % 2 == 1,
    )


def asleep(seed: int) -> Plan:
    """The process sleeps, for 40 s or for 40 minutes, while more than a hundred answers to `/run` are on their way."""
    return Plan(
        scenario="asleep",
        seed=seed,
        jobs=300,
        workers=300,
        seconds=(30.0, 90.0),
        travel_s=2.0,
        all_succeed=True,
        sure=True,
        weather=(Weather(trouble=FailureClass.ASLEEP, at_s=4, size=40.0 if seed // 2 % 2 else 40 * MINUTE_S),),
        calm_at_s=50 * MINUTE_S,
        retention_s=HOUR_S,
        webhooks=seed % 2 == 1,
    )


def clocks(seed: int) -> Plan:
    """One process after the other has another time: an hour ahead, right, an hour back."""
    chance = random.Random(seed)
    offsets = [HOUR_S, -HOUR_S, 0.0, HOUR_S]
    chance.shuffle(offsets)
    return Plan(
        scenario="clocks",
        seed=seed,
        jobs=40,
        workers=2,
        seconds=(5.0, 15.0),
        max_attempts=9,
        faults=Faults(throttled=0.2, server_error=0.2, handler_error=0.2, lost_request=0.1),
        all_succeed=True,
        clocks=tuple(offsets),
        weather=tuple(Weather(trouble=FailureClass.STOP, at_s=at_s, size=20) for at_s in (20.0, 60.0, 100.0, 140.0)),
        away_s=20,
        calm_at_s=165,
        patience_s=15 * MINUTE_S,
        webhooks=seed % 2 == 1,
    )


def large(seed: int) -> Plan:
    """Outputs of 1 KB to 10 MB."""
    return Plan(scenario="large", seed=seed, padding=LARGE, all_succeed=True, webhooks=seed % 2 == 1)


def neglected(seed: int) -> Plan:
    """Results are kept for a sixth of the agreed time, and the program is away for longer than that."""
    stop = Weather(trouble=FailureClass.STOP, at_s=4, size=80)
    plan = lying(seed, scenario="neglected", faults=Faults(short_retention=1.0))
    return msgspec.structs.replace(plan, weather=(stop,), away_s=stop.size, webhooks=False)


FOOLED = Faults(other_record=0.1, other_webhook=0.1, other_id_webhook=0.1, repeated_id=0.05, absurd_times=0.2)
FORGETFUL = Faults(short_retention=1.0, spells=(Spell(from_s=20, for_s=1, amnesia=1.0),))
REFUSED = Faults(spells=tuple(Spell(from_s=at_s, for_s=2, unauthorized=1.0) for at_s in (2.0, 20.0, 60.0)))


def long_jobs(seed: int) -> Plan:
    """Jobs that outlive their submissions, in a world of the swarm."""
    plan = with_long_jobs(of_jobs(seed), share=1.0)
    return msgspec.structs.replace(plan, scenario="long-jobs")


def pools(seed: int) -> Plan:
    """Several endpoints share the jobs of a run, in a world of the swarm, and none has batches."""
    plan = of_jobs(seed)
    via = Via.QUEUE if plan.via is Via.BATCH else plan.via
    return msgspec.structs.replace(
        with_pool(msgspec.structs.replace(plan, via=via, batches=None), share=1.0), scenario="pools"
    )


def scaling(seed: int) -> Plan:
    """The workers of an endpoint follow what a run needs, in a world of the swarm."""
    plan = of_jobs(seed)
    via = Via.QUEUE if plan.at_url or plan.direct else plan.via
    fit = msgspec.structs.replace(
        plan, pool=None, at_url=False, via=via, time_scale=1.0, resumable=False, finish_by_s=None, budget_share=None
    )
    return msgspec.structs.replace(with_scaling(fit, share=1.0), scenario="scaling")


def batches(seed: int) -> Plan:
    """Jobs that leave in batches of the service, in a world of the swarm."""
    plan = msgspec.structs.replace(
        of_jobs(seed), scenario="batches", resumable=False, via=Via.QUEUE, at_url=False, time_scale=1.0, pods=None
    )
    return with_batches(plan, share=1.0)


def pods(seed: int) -> Plan:
    """Pods in the place of an endpoint, in a world of the swarm."""
    plan = of_jobs(seed)
    via = Via.QUEUE if plan.batches is not None else plan.via
    fit = msgspec.structs.replace(plan, scaling=None, batches=None, via=via, time_scale=1.0, resumable=False)
    return msgspec.structs.replace(with_pods(fit, share=1.0), scenario="pods")


def chunks(seed: int) -> Plan:
    """Rows that travel together, in a world of the swarm."""
    plan = _by_queue(seed, scenario="chunks")
    return with_chunks(plan, share=1.0)


def saves(seed: int) -> Plan:
    """Outputs that become files, in a world of the swarm, in one of three beside chunks."""
    if seed % 3:
        plan = msgspec.structs.replace(of_jobs(seed), scenario="saves", yields=False)
    else:
        plan = msgspec.structs.replace(chunks(seed), scenario="saves")
    return with_saves(plan, share=1.0)


def posted(seed: int) -> Plan:
    """Programs that post batches, in a world of the swarm."""
    return with_posted(_by_queue(seed, scenario="posted"))


def _by_queue(seed: int, *, scenario: str) -> Plan:
    """A world of the swarm in which ordinary jobs leave by the queue."""
    return msgspec.structs.replace(
        of_jobs(seed),
        scenario=scenario,
        resumable=False,
        yields=False,
        via=Via.QUEUE,
        at_url=False,
        batches=None,
        pods=None,
        pool=None,
    )


def direct(seed: int) -> Plan:
    """Jobs that go past the queue, in a world of the swarm."""
    return msgspec.structs.replace(
        with_direct(msgspec.structs.replace(of_jobs(seed), resumable=False), share=1.0), scenario="direct"
    )


def told(seed: int) -> Plan:
    """People are told of a run that is stopped, and killed, and by whoever goes on; and they lie in every way."""
    stops = tuple(Weather(trouble=FailureClass.INTERRUPT, at_s=at_s, size=0) for at_s in (10.0, 30.0, 60.0, 90.0))
    return Plan(
        scenario="told",
        seed=seed,
        jobs=12,
        workers=1,
        seconds=(8.0, 12.0),
        calm_at_s=5 * MINUTE_S,
        receivers=tuple((lie, 0.16) for lie in Lie),
        crashes=(Crash(Kill.AFTER_COMMIT, 20 + seed % 20),),
        weather=stops,
    )


def urls(seed: int) -> Plan:
    """The same at servers that are URLs."""
    return msgspec.structs.replace(with_url(direct(seed), share=1.0), scenario="urls")


def held(seed: int) -> Plan:
    """Jobs that leave by `/runsync`, in a world of the swarm."""
    plan = msgspec.structs.replace(of_jobs(seed), resumable=False, via=Via.QUEUE, at_url=False, scale_is_told=True)
    return msgspec.structs.replace(with_held(plan, share=1.0), scenario="held")


WISHFUL = Faults(long_pause=0.1, long_pause_s=15 * MINUTE_S, handler_error=0.1)
"""Of every operation some requests are answered with the wish for a rest that is longer than results are kept."""

CONTRARY = Faults(contrary_webhook=0.4, late_webhook=0.2, late_webhook_s=30, slow_run=0.2)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "clean": clean,
        "one-fault": one_fault,
        "mixed-faults": mixed_faults,
        "swarm": swarm,
        "side-by-side": side_by_side,
        "commits": commits,
        "network-20": partial(gone, scenario="network-20", trouble=FailureClass.NETWORK_GONE, for_s=20 * MINUTE_S),
        "network-40": partial(gone, scenario="network-40", trouble=FailureClass.NETWORK_GONE, for_s=40 * MINUTE_S),
        "service-hour": partial(gone, scenario="service-hour", trouble=FailureClass.SERVICE_GONE, for_s=HOUR_S),
        "hidden": partial(gone, scenario="hidden", trouble=FailureClass.ENDPOINT_HIDDEN, for_s=2 * MINUTE_S),
        "clock-jumps": clock_jumps,
        "webhook-storm": webhook_storm,
        "tight-ttl": tight_ttl,
        "seven-days": seven_days,
        "maintenance": maintenance,
        "swapped": partial(lying, scenario="swapped", faults=FOOLED),
        "forgetful": partial(lying, scenario="forgetful", faults=FORGETFUL),
        "neglected": neglected,
        "refused": partial(lying, scenario="refused", faults=REFUSED, jobs=120),
        "wishful": partial(lying, scenario="wishful", faults=WISHFUL, jobs=20),
        "contrary": partial(lying, scenario="contrary", faults=CONTRARY),
        "asleep": asleep,
        "clocks": clocks,
        "large": large,
        "long-jobs": long_jobs,
        "direct": direct,
        "told": told,
        "pools": pools,
        "scaling": scaling,
        "urls": urls,
        "held": held,
        "batches": batches,
        "chunks": chunks,
        "posted": posted,
        "saves": saves,
        "pods": pods,
        "engines": engines,
        "flows": flows,
    }
)
"""By name, as the command line takes them."""
