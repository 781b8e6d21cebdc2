"""What is drawn of a world of the swarm: from a seed, each matter apart, so that one is the same without the others."""

import random
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Fault, Faults, Spell
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from tests.simulation.drawn_batches import with_batches
from tests.simulation.drawn_chunks import with_chunks
from tests.simulation.drawn_crashes import crash
from tests.simulation.drawn_pods import OF_PODS, with_pods
from tests.simulation.drawn_pools import with_pool
from tests.simulation.drawn_saves import with_saves
from tests.simulation.drawn_scaling import with_scaling
from tests.simulation.plan import (
    HOUR_S,
    MINUTE_S,
    Asking,
    FailureClass,
    Lie,
    Marks,
    Plan,
    Rate,
    RunPlan,
    Weather,
    Where,
    Word,
)

EVEN = frozenset({Algorithm.WEIGHTED_COUNTER, Algorithm.TOKEN_BUCKET_SMALL})

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

WEATHERS = tuple(trouble for trouble in FailureClass if trouble not in {FailureClass.ASLEEP, FailureClass.INTERRUPT})
"""What every world of the swarm may have."""

STORIES: tuple[tuple[Word, ...], ...] = (
    (Word.PAUSE, Word.CONTINUE),
    (Word.CANCEL,),
    (Word.CANCEL, Word.RETRY, Word.CONTINUE, Word.RETRY),
    (Word.RETRY, Word.RETRY),
    (Word.PRIORITY,),
    (Word.LIMITS_SET, Word.LIMITS_RESET),
)
"""What people ask one after the other. Who pauses continues."""

LARGE = (1_000, 10_000_000)

PAUSES_S = (5.0, 60.0, HOUR_S)
"""What a service may wish for by a `Retry-After`: the last is longer than any of the swarm keeps results."""

OF_LONG_JOBS = frozenset({Fault.KILLED_WORKER, Fault.STALE_PROGRESS})
"""What befalls work that outlives its worker."""

OF_BATCHES = frozenset({Fault.STUCK_BATCH, Fault.STUCK_REQUEST, Fault.FAILED_BATCH, Fault.REPEATED_APPEND})
"""What befalls the service's own Batch."""

OF_OUTPUTS = frozenset({Fault.MISSING_PART, Fault.PAGE_LINK, Fault.CUT_LINK, Fault.GONE_LINK})
"""What befalls parts of outputs, and what these link to."""

APART = (
    frozenset({Fault.BOMB_ANSWER, Fault.LONG_PAUSE, Fault.NEIGHBOUR, Fault.MARKED_ANSWER, Fault.STRANGE_TEXT})
    | OF_BATCHES
    | OF_PODS
    | OF_OUTPUTS
)
"""Those that are drawn by themselves."""

HONEST = tuple(fault for fault in Fault if fault not in LIES | OF_LONG_JOBS | APART)


RULES: tuple[tuple[str, ...], ...] = (
    ("timed_out: execution-timeout*2, then endpoint {other}",),
    ("failed, timed_out: endpoint {other}",),
    ("invalid_output, lost: endpoint {other} and execution-timeout*1.5, then give-up", "failed: give-up"),
    ("failed: map n={{{{ row.n }}}}, then endpoint {other}", "uncertain, expired: endpoint {other}"),
)
"""What jobs may be given after their troubles. What is made anew is what it was: outputs tell what was sent."""


def swarm(seed: int) -> Plan:
    """Everything drawn: rates, limits, ways to count, times, settings, weather, crashes; in every other world lies, in
    two of three several runs, one after the other or side by side; in one of three jobs go elsewhere after trouble, in
    nearly as many canaries and budgets; in one of five a run has a pool, whose members in half of these have lanes of
    their own; in one of eight answers are bombs, in as many they begin with a byte order mark, in as many their errors
    are no text to a database, in as many somebody else uses the same limits, in one of five the service wants a rest now
    and then; in one of four people are told, who lie as well; in one of ten jobs leave in batches, in as many runs have
    pods in the place of an endpoint; in one of twenty rows travel together; in one of ten outputs become files.
    """
    return with_saves(with_chunks(of_jobs(seed)))


def of_jobs(seed: int) -> Plan:
    """The same world without what is done with several rows at once, or with outputs."""
    plan = with_brakes(with_escalation(with_long_jobs(with_others(with_lies(with_scale(_swarm(seed)))))))
    plan = with_neighbour(
        with_taken_workers(with_few_retries(with_pauses(with_strange_texts(with_marks(with_bombs(plan))))))
    )
    plan = with_batches(with_held(with_scaling(with_pool(with_receivers(with_yields(with_direct(plan)))))))
    return with_pods(plan)


def with_neighbour(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: somebody else uses a part of each limit, all the time or for a while."""
    chance = random.Random(f"neighbour {plan.seed}")
    if chance.random() >= share:
        return plan
    part, faults = chance.choice((0.1, 0.3, 0.5)), plan.faults
    if chance.random() < 0.5:
        there = Spell(neighbour=part, from_s=chance.uniform(0, plan.calm_at_s), for_s=chance.uniform(5, 120))
        return msgspec.structs.replace(plan, faults=msgspec.structs.replace(faults, spells=(*faults.spells, there)))
    return msgspec.structs.replace(plan, faults=msgspec.structs.replace(faults, neighbour=part))


def with_receivers(plan: Plan, *, share: float = 1 / 4) -> Plan:
    """Some worlds of the swarm: people are told of the runs, by those who lie now and then, or for as long as anything
    goes wrong.
    """
    chance = random.Random(f"receivers {plan.seed}")
    if chance.random() >= share:
        return plan
    lies = chance.sample(tuple(Lie), chance.randint(0, len(Lie)))
    whole = chance.choice((0.3, 0.8, 1.0))
    return msgspec.structs.replace(plan, receivers=tuple((lie, whole / len(lies)) for lie in lies))


def with_direct(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: all jobs go past the queue, by `/openai/*`. What a service puts in the place of an
    answer so that it looks like one, nobody can tell from it.
    """
    chance = random.Random(f"direct {plan.seed}")
    if chance.random() >= share or plan.resumable:
        return plan
    spells = tuple(msgspec.structs.replace(each, bare_error=0.0) for each in plan.faults.spells)
    faults = msgspec.structs.replace(plan.faults, bare_error=0.0, spells=spells)
    plan = msgspec.structs.replace(plan, via=Via.OPENAI, faults=faults, secrets=False, escalate=())
    return with_url(plan)


def with_url(plan: Plan, *, share: float = 1 / 2) -> Plan:
    """Half of these: what takes the requests is a server at a URL, which has no other endpoints beside it."""
    chance = random.Random(f"url {plan.seed}")
    if chance.random() >= share:
        return plan
    askings = tuple(msgspec.structs.replace(each, elsewhere=False) for each in plan.askings)
    by = chance.choice((Via.OPENAI, Via.HTTP))
    return msgspec.structs.replace(plan, via=by, at_url=True, askings=askings, pool=None)


def with_held(plan: Plan, *, share: float = 1 / 6) -> Plan:
    """Some worlds of the swarm: jobs leave by `/runsync`, in half of them beside `/run`. What a held answer says is the
    first that anybody hears of its job: that it is another's, nobody can tell from it.
    """
    chance = random.Random(f"held {plan.seed}")
    if chance.random() >= share or plan.resumable or plan.direct or plan.is_untold:
        return plan
    spells = tuple(msgspec.structs.replace(each, other_record=0.0, repeated_id=0.0) for each in plan.faults.spells)
    faults = msgspec.structs.replace(plan.faults, other_record=0.0, repeated_id=0.0, spells=spells)
    return msgspec.structs.replace(plan, via=chance.choice((Via.SYNC, Via.BOTH)), faults=faults)


def with_few_retries(plan: Plan, *, share: float = 1 / 3) -> Plan:
    """Some worlds of the swarm: so few `/retry` may leave that some jobs go by a new `/run` instead."""
    chance = random.Random(f"retries {plan.seed}")
    if chance.random() >= share:
        return plan
    return msgspec.structs.replace(plan, retry_rate=Rate(chance.choice((1, 2, 4)), 10.0, chance.choice((1, 2))))


def with_bombs(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: a few answers are small, and hold a gigabyte once unpacked."""
    chance = random.Random(f"bombs {plan.seed}")
    if chance.random() >= share:
        return plan
    rate = chance.choice((0.02, 0.1))
    return msgspec.structs.replace(plan, faults=msgspec.structs.replace(plan.faults, bomb_answer=rate))


def with_marks(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: some answers, or all of them, begin with a byte order mark, which is no news at all."""
    chance = random.Random(f"marks {plan.seed}")
    if chance.random() >= share:
        return plan
    rate = chance.choice((0.1, 1.0))
    return msgspec.structs.replace(plan, faults=msgspec.structs.replace(plan.faults, marked_answer=rate))


def with_strange_texts(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: what is told of failures has in it what is no text to a database, or to JSON."""
    chance = random.Random(f"strange texts {plan.seed}")
    if chance.random() >= share:
        return plan
    rate = chance.choice((0.1, 1.0))
    return msgspec.structs.replace(plan, faults=msgspec.structs.replace(plan.faults, strange_text=rate))


def with_pauses(plan: Plan, *, share: float = 1 / 5) -> Plan:
    """Some worlds of the swarm: now and then the service wants no more requests of an operation, for up to an hour."""
    chance = random.Random(f"pauses {plan.seed}")
    if chance.random() >= share:
        return plan
    faults = msgspec.structs.replace(
        plan.faults, long_pause=0.01 * 10 ** chance.random(), long_pause_s=chance.choice(PAUSES_S) * plan.time_scale
    )
    return msgspec.structs.replace(plan, faults=faults)


def with_brakes(plan: Plan, *, share: float = 1 / 3) -> Plan:
    """Some worlds of the swarm: a few rows go first, runs may cost so much only, from too little to far too much, a few
    rows may fail, or all is to be finished soon. Not where the service has another time, nor where nobody knows how
    often a job is executed.
    """
    chance = random.Random(f"brakes {plan.seed}")
    if chance.random() >= share or plan.time_scale != 1.0 or plan.resumable:
        return plan
    found = chance.choice((None, "1", "3", "3:50%"))
    return msgspec.structs.replace(
        plan,
        canary=found,
        budget_share=chance.choice((None, 0.2, 0.7, 20.0)),
        day_share=chance.choice((None, 20.0)),
        max_failures=None if found is not None else chance.choice((None, "0", "2")),  # a canary would be there first
        finish_by_s=chance.choice((None, None, 3.0, 30.0, HOUR_S)),
    )


def with_escalation(plan: Plan, *, share: float = 1 / 3) -> Plan:
    """Some worlds of the swarm: after trouble jobs are given more time, another endpoint, or up, within a budget; and
    who tries jobs again may do so elsewhere.
    """
    chance = random.Random(f"escalation {plan.seed}")
    askings = tuple(
        msgspec.structs.replace(each, elsewhere=each.word is Word.RETRY and chance.random() < 1 / 2)
        for each in plan.askings
    )
    if chance.random() >= share:
        return msgspec.structs.replace(plan, askings=askings)
    return msgspec.structs.replace(
        plan,
        escalate=chance.choice(RULES),
        retry_budget=chance.choice((None, None, "20%", "60%")),
        askings=askings,
    )


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
        crashes=tuple(crash(chance) for _ in range(chance.choice((0, 0, 1, 2, 4)))),
        marks=random.Random(f"marks {seed}").choice((Marks.KEPT, Marks.KEPT, *Marks)),
        away_s=chance.choice((1.0, 10.0, 1.2 * retention_s)),
        weather=tuple(_weather(chance, calm_at_s, retention_s) for _ in range(chance.choice((0, 0, 1, 2)))),
    )


def with_scale(plan: Plan) -> Plan:
    """Every fifth world of the swarm: the services are emulators whose time runs fast. Most say so."""
    chance = random.Random(f"scale {plan.seed}")
    if chance.random() >= 1 / 5:
        return plan
    is_told = chance.random() < 2 / 3
    scale = chance.choice((2.0, 20.0) if is_told else (2.0, 10.0))
    return msgspec.structs.replace(plan, time_scale=scale, scale_is_told=is_told)


def with_long_jobs(plan: Plan, *, share: float = 1 / 6) -> Plan:
    """Some worlds of the swarm: jobs outlive their submissions, workers are taken away, and reports overtake others."""
    chance = random.Random(f"long {plan.seed}")
    if chance.random() >= share:
        return plan
    rates = {fault.value: chance.choice((0.0, 0.2, 0.5)) for fault in sorted(OF_LONG_JOBS)}
    faults = msgspec.structs.replace(plan.faults, **rates, killed_after_s=plan.execution_timeout_s)
    return msgspec.structs.replace(plan, resumable=True, faults=faults)


def with_yields(plan: Plan, *, share: float = 1 / 8) -> Plan:
    """Some worlds of the swarm: workers yield what they make, and runs gather it. Not where jobs outlive submissions."""
    chance = random.Random(f"yields {plan.seed}")
    return msgspec.structs.replace(plan, yields=chance.random() < share and not (plan.resumable or plan.direct))


def with_taken_workers(plan: Plan, *, share: float = 1 / 6) -> Plan:
    """Some worlds of the swarm: workers of ordinary jobs are taken away, too, which costs these no attempt; in some of
    them by a rule that gives them something else instead.
    """
    chance = random.Random(f"taken {plan.seed}")
    if chance.random() >= share or plan.resumable:
        return plan
    rules = chance.choice(((), ('failed~"Worker Was": free and execution-timeout*2',), ('failed~"taken": give-up',)))
    faults = msgspec.structs.replace(
        plan.faults, killed_worker=chance.choice((0.1, 0.3)), killed_after_s=plan.seconds[1]
    )
    return msgspec.structs.replace(plan, faults=faults, escalate=(*plan.escalate, *rules))


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


def with_others(plan: Plan) -> Plan:
    """In two of three worlds of the swarm there are several runs, and people who ask something of them; in one of three
    each has its own processes, side by side. Drawn apart, too.
    """
    kind = random.Random(f"others {plan.seed}").randrange(3)
    return plan if kind == 0 else several(plan, side_by_side=kind == 1)


def several(plan: Plan, *, side_by_side: bool) -> Plan:
    """The same world with several runs."""
    chance = random.Random(f"several {plan.seed}")
    runs = chance.choice((2, 2, 3, 4))
    return msgspec.structs.replace(
        plan,
        jobs=chance.randint(2, 6),
        others=tuple(_run(chance, plan, name) for name in ("second", "third", "fourth")[: runs - 1]),
        side_by_side=side_by_side,
        askings=tuple(chain.from_iterable(_story(chance, plan, runs) for _ in range(chance.choice((0, 1, 2, 3))))),
        crashes=(*plan.crashes, *(crash(chance) for _ in range(chance.choice((0, 1, 2))))),
        weather=(*(_aimed(chance, each, runs) for each in plan.weather), *_interruptions(chance, plan, runs)),
    )


def side_by_side(seed: int) -> Plan:
    """A world of the swarm in which each run has its own processes, side by side."""
    plan = msgspec.structs.replace(_swarm(seed), scenario="side-by-side")
    return several(with_lies(with_scale(plan)), side_by_side=True)


def _aimed(chance: random.Random, weather: Weather, runs: int) -> Weather:
    """What befalls processes befalls all, or those of one run."""
    return msgspec.structs.replace(weather, who=chance.choice((None, *range(runs))))


def _interruptions(chance: random.Random, plan: Plan, runs: int) -> Iterator[Weather]:
    for _ in range(chance.choice((0, 1, 2))):
        yield Weather(
            trouble=FailureClass.INTERRUPT, at_s=chance.uniform(0, plan.calm_at_s), size=0.0, who=chance.randrange(runs)
        )


def _run(chance: random.Random, plan: Plan, name: str) -> RunPlan:
    return RunPlan(
        name=name,
        jobs=chance.randint(1, 6),
        where=chance.choice((Where.HERE, *Where)),
        priority=chance.choice((0, 0, -10, 10)),
        max_attempts=chance.choice((1, 3)),
        on_uncertain=chance.choice(tuple(OnUncertain)),
        on_expired=chance.choice(tuple(OnExpired)),
        begins_s=chance.choice((0.0, chance.uniform(0, plan.calm_at_s))),
    )


def _story(chance: random.Random, plan: Plan, runs: int) -> Iterator[Asking]:
    """What somebody asks of one run, and what of it they take back."""
    run, at_s = chance.randrange(runs), chance.uniform(0, plan.calm_at_s)
    for word in chance.choice(STORIES):
        number = 0
        if word is Word.PRIORITY:
            number = chance.randint(-10, 10)
        elif word is Word.LIMITS_SET:
            number = chance.randint(1, plan.run_rate.requests)
        killed = crash(chance, calls=20, commits=3) if chance.random() < 1 / 5 else None
        yield Asking(word=word, run=run, at_s=at_s, number=number, crash=killed)
        at_s += chance.choice((0.0, 5.0, 20.0))


def _sleep(chance: random.Random, plan: Plan) -> Weather:
    return Weather(
        trouble=FailureClass.ASLEEP, at_s=chance.uniform(0, plan.calm_at_s), size=chance.choice((40.0, 40 * MINUTE_S))
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
    return at_rates(
        rates, late_webhook_s=chance.choice((5.0, 60.0)), silence_s=10.0, slow_answer_s=chance.choice((5.0, 40.0))
    )


def at_rates(rates: Mapping[Fault, float], **seconds: float) -> Faults:
    values: dict[str, Any] = {fault.value: rate for fault, rate in rates.items()} | seconds
    return Faults(**values)


def _weather(chance: random.Random, calm_at_s: float, retention_s: float) -> Weather:
    trouble = chance.choice(WEATHERS)
    at_s = chance.uniform(0, calm_at_s)
    if trouble is FailureClass.CLOCK_JUMP:
        return Weather(trouble=trouble, at_s=at_s, size=chance.choice((-1, 1)) * chance.choice((5.0, 100.0, 1_000.0)))
    size = (
        chance.choice((5.0, 30.0)) if trouble is not FailureClass.NETWORK_GONE else chance.uniform(5, 1.5 * retention_s)
    )
    return Weather(trouble=trouble, at_s=at_s, size=size)
