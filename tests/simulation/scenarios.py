"""The scenarios: each makes a plan from a seed."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from orchestrator.emulator.counters import Algorithm
from orchestrator.emulator.faults import Fault, Faults, Spell
from orchestrator.settings import OnExpired, OnUncertain
from tests.simulation.plan import DAY_S, HOUR_S, MINUTE_S, Crash, Kill, Marks, Plan, Rate, Trouble, Weather

CALLS_MAX = 200
"""A drawn crash comes within so many calls of the database; a small run makes about as many."""

COMMITS_MAX = 60

EVEN = frozenset({Algorithm.WEIGHTED_COUNTER, Algorithm.TOKEN_BUCKET_SMALL})

Scenario = Callable[[int], Plan]

LIES = frozenset(
    {
        Fault.EMPTY_ANSWER,
        Fault.HALF_ANSWER,
        Fault.UNAUTHORIZED,
        Fault.SLOW_RUN,
        Fault.HIDDEN_HEALTH,
        Fault.OTHER_RECORD,
        Fault.REPEATED_ID,
        Fault.ABSURD_TIMES,
        Fault.SHORT_RETENTION,
        Fault.AMNESIA,
        Fault.OTHER_WEBHOOK,
        Fault.OTHER_ID_WEBHOOK,
        Fault.CONTRARY_WEBHOOK,
    }
)
"""The faults by which the service says what is not so."""

SPELLS: tuple[Mapping[Fault, float], ...] = (
    {Fault.NOT_JSON: 1.0},
    {Fault.EMPTY_ANSWER: 1.0},
    {Fault.HALF_ANSWER: 1.0},
    {Fault.BARE_ERROR: 1.0},
    {Fault.NOT_JSON: 0.4, Fault.BARE_ERROR: 0.4, Fault.EMPTY_ANSWER: 0.4, Fault.CUT_ANSWER: 0.4},
    {Fault.UNAUTHORIZED: 1.0},
    {Fault.HIDDEN_HEALTH: 1.0},
    {Fault.SHORT_RETENTION: 1.0},
    {Fault.AMNESIA: 1.0},
)
"""What the service may do for a while: a maintenance in four forms and mixed, a key refused, ..."""

WEATHERS = tuple(trouble for trouble in Trouble if trouble is not Trouble.ASLEEP)
"""What every world of the swarm may have."""

MAINTENANCES = 5
"""So many of the spells are maintenances."""

LARGE = (1_000, 10_000_000)

HONEST = tuple(fault for fault in Fault if fault not in LIES)

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
        faults=_at_rates({fault: STRENGTHS[fault]}, late_webhook_s=20, silence_s=10),
        calm_at_s=5 * MINUTE_S,
        webhooks=seed % 2 == 1,
    )


def mixed_faults(seed: int) -> Plan:
    """All faults at once."""
    rates = {fault: STRENGTHS[fault] / 4 for fault in HONEST}
    return msgspec.structs.replace(
        one_fault(seed), scenario="mixed-faults", faults=_at_rates(rates, late_webhook_s=20, silence_s=10)
    )


def swarm(seed: int) -> Plan:
    """Everything drawn: rates, limits, ways to count, times, settings, weather, crashes; in every other world lies."""
    return with_lies(_swarm(seed))


def _swarm(seed: int) -> Plan:
    chance = random.Random(seed)
    calm_at_s = chance.choice((20.0, 40.0, 80.0))
    retention_s = chance.choice((60.0, 90.0, 180.0))
    execution_s = chance.choice((0.5, 2.0, 6.0))
    algorithm = chance.choice(tuple(Algorithm))
    # The guard alone is proven for any limit; those two also need the even pacing, whose slack is a share of the limit.
    requests = chance.choice((10, 30, 100)) if algorithm not in EVEN else 1000
    return Plan(
        scenario="swarm",
        seed=seed,
        jobs=chance.randint(3, 14),
        workers=chance.choice((1, 3, 10)),
        seconds=(execution_s / 10, execution_s),
        retention_s=retention_s,
        ttl_s=chance.choice((40.0, 90.0, 300.0)),
        execution_timeout_s=chance.choice((10.0, 30.0)),
        run_rate=Rate(requests, chance.choice((2.0, 10.0)), chance.choice((2, 5, 20))),
        status_rate=Rate(2 * requests, chance.choice((2.0, 10.0)), chance.choice((2, 5, 20))),
        algorithm=algorithm,
        faults=_faults(chance),
        calm_at_s=calm_at_s,
        travel_s=chance.choice((0.01, 0.1, 0.3)),
        database_s=chance.choice((0.001, 0.02)),
        webhooks=chance.random() < 0.5,
        storm=chance.choice((1, 1, 1, 5)),
        secrets=chance.random() < 0.3,
        max_attempts=chance.choice((1, 3)),
        on_uncertain=chance.choice((OnUncertain.RESUBMIT, OnUncertain.RESUBMIT, OnUncertain.HOLD, OnUncertain.FAIL)),
        on_expired=chance.choice((OnExpired.RESUBMIT, OnExpired.FAIL)),
        crashes=tuple(_crash(chance) for _ in range(chance.choice((0, 0, 1, 2, 4)))),
        marks=random.Random(f"marks {seed}").choice((Marks.KEPT, Marks.KEPT, *Marks)),
        away_s=chance.choice((1.0, 10.0, 1.2 * retention_s)),
        weather=tuple(_weather(chance, calm_at_s, retention_s) for _ in range(chance.choice((0, 0, 1, 2)))),
    )


def with_lies(plan: Plan) -> Plan:
    """Every other world of the swarm: the service lies, forgets or shuts for a while, clocks differ from process to
    process, processes sleep, outputs are large.

    Drawn apart from everything else, so that a world is the same without its lies.
    """
    chance = random.Random(f"lies {plan.seed}")
    if chance.random() < 0.5:
        return plan
    rates = {fault.value: 0.005 * 40 ** chance.random() for fault in Fault if fault in LIES and chance.random() < 1 / 4}
    if Fault.AMNESIA in rates:
        rates[Fault.AMNESIA] /= 20
    spells = tuple(_spell(chance, plan) for _ in range(chance.choice((0, 0, 1, 2))))
    sleeps = [_sleep(chance, plan)] if chance.random() < 1 / 8 else []
    has_clocks = chance.random() < 1 / 8
    return msgspec.structs.replace(
        plan,
        faults=msgspec.structs.replace(plan.faults, **rates, spells=spells),
        weather=(*plan.weather, *sleeps),
        clocks=tuple(chance.choice((HOUR_S, 0.0, -HOUR_S)) for _ in range(6)) if has_clocks else (),
        # A process whose clock is ahead takes the requests of the one before for old: it begins once they are.
        away_s=max(plan.away_s, plan.run_rate.window_s) if has_clocks else plan.away_s,
        padding=LARGE if chance.random() < 1 / 20 else (0, 0),
    )


def _sleep(chance: random.Random, plan: Plan) -> Weather:
    return Weather(
        trouble=Trouble.ASLEEP, at_s=chance.uniform(0, plan.calm_at_s), size=chance.choice((40.0, 40 * MINUTE_S))
    )


def _spell(chance: random.Random, plan: Plan) -> Spell:
    """Something that the service does for a while."""
    rates = chance.choice(SPELLS)
    longest_s = 3.0 if {Fault.UNAUTHORIZED, Fault.AMNESIA} & set(rates) else 0.8 * plan.retention_s
    times = {"from_s": chance.uniform(0, plan.calm_at_s), "for_s": chance.uniform(1, longest_s)}
    values: dict[str, Any] = {fault.value: rate for fault, rate in rates.items()} | times
    return Spell(**values)


def _faults(chance: random.Random) -> Faults:
    """A third of the faults, each at a rate between 0.5 and 30 %."""
    rates = {fault: 0.005 * 60 ** chance.random() for fault in HONEST if chance.random() < 1 / 3}
    return _at_rates(
        rates, late_webhook_s=chance.choice((5.0, 60.0)), silence_s=10.0, slow_answer_s=chance.choice((5.0, 40.0))
    )


def _at_rates(rates: Mapping[Fault, float], **seconds: float) -> Faults:
    values: dict[str, Any] = {fault.value: rate for fault, rate in rates.items()} | seconds
    return Faults(**values)


def _crash(chance: random.Random) -> Crash:
    kill = chance.choice(tuple(Kill))
    return Crash(kill, chance.randint(1, CALLS_MAX if kill is Kill.CALL else COMMITS_MAX))


def _weather(chance: random.Random, calm_at_s: float, retention_s: float) -> Weather:
    trouble = chance.choice(WEATHERS)
    at_s = chance.uniform(0, calm_at_s)
    if trouble is Trouble.CLOCK_JUMP:
        return Weather(trouble=trouble, at_s=at_s, size=chance.choice((-1, 1)) * chance.choice((5.0, 100.0, 1_000.0)))
    size = chance.choice((5.0, 30.0)) if trouble is not Trouble.NETWORK_GONE else chance.uniform(5, 1.5 * retention_s)
    return Weather(trouble=trouble, at_s=at_s, size=size)


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


def gone(seed: int, *, scenario: str, trouble: Trouble, for_s: float) -> Plan:
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
    jumps = [Weather(trouble=Trouble.CLOCK_JUMP, at_s=10.0 + 20 * n, size=size) for n, size in enumerate(sizes)]
    stop = Weather(trouble=Trouble.STOP, at_s=45, size=10)
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
        weather=(Weather(trouble=Trouble.STOP, at_s=3 * DAY_S, size=10 * MINUTE_S),),
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
        weather=(Weather(trouble=Trouble.STOP, at_s=20, size=135),),
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
        weather=(Weather(trouble=Trouble.ASLEEP, at_s=4, size=40.0 if seed // 2 % 2 else 40 * MINUTE_S),),
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
        weather=tuple(Weather(trouble=Trouble.STOP, at_s=at_s, size=20) for at_s in (20.0, 60.0, 100.0, 140.0)),
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
    stop = Weather(trouble=Trouble.STOP, at_s=4, size=80)
    plan = lying(seed, scenario="neglected", faults=Faults(short_retention=1.0))
    return msgspec.structs.replace(plan, weather=(stop,), away_s=stop.size, webhooks=False)


FOOLED = Faults(other_record=0.1, other_webhook=0.1, other_id_webhook=0.1, repeated_id=0.05, absurd_times=0.2)
FORGETFUL = Faults(short_retention=1.0, spells=(Spell(from_s=20, for_s=1, amnesia=1.0),))
REFUSED = Faults(spells=tuple(Spell(from_s=at_s, for_s=2, unauthorized=1.0) for at_s in (2.0, 20.0, 60.0)))
CONTRARY = Faults(contrary_webhook=0.4, late_webhook=0.2, late_webhook_s=30, slow_run=0.2)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "clean": clean,
        "one-fault": one_fault,
        "mixed-faults": mixed_faults,
        "swarm": swarm,
        "commits": commits,
        "network-20": partial(gone, scenario="network-20", trouble=Trouble.NETWORK_GONE, for_s=20 * MINUTE_S),
        "network-40": partial(gone, scenario="network-40", trouble=Trouble.NETWORK_GONE, for_s=40 * MINUTE_S),
        "service-hour": partial(gone, scenario="service-hour", trouble=Trouble.SERVICE_GONE, for_s=HOUR_S),
        "hidden": partial(gone, scenario="hidden", trouble=Trouble.ENDPOINT_HIDDEN, for_s=2 * MINUTE_S),
        "clock-jumps": clock_jumps,
        "webhook-storm": webhook_storm,
        "tight-ttl": tight_ttl,
        "seven-days": seven_days,
        "maintenance": maintenance,
        "swapped": partial(lying, scenario="swapped", faults=FOOLED),
        "forgetful": partial(lying, scenario="forgetful", faults=FORGETFUL),
        "neglected": neglected,
        "refused": partial(lying, scenario="refused", faults=REFUSED, jobs=120),
        "contrary": partial(lying, scenario="contrary", faults=CONTRARY),
        "asleep": asleep,
        "clocks": clocks,
        "large": large,
    }
)
"""By name, as the command line takes them."""
