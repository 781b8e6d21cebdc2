"""Services that refuse for several reasons, and a sender that always has something to send, in virtual time.

A world is an hour, mostly, of one limit, one way of counting, and what else happens: strays, a neighbour, a limit that
is not the one that we know of. Requests arrive in the order in which they left, half a round trip later.
"""

import random
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import Limit, Pacer
from tests.limits.simulated import SECOND, START, TokenBucket, servers

WAYS: Final = tuple(servers(Limit(10, 10)))
"""The ways of counting."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What refuses. Shares are of the limit that we know of; times are seconds."""

    limit: Limit = Limit(1000, 10)
    way: str = WAYS[0]
    stray: float = 0.0
    """The share of requests that is refused whatever the rate."""

    neighbour: float = 0.0
    """What somebody else sends to the same limit."""

    turns_s: float = 0.0
    """The neighbour is away and there in turns of so long; 0: always there."""

    true: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """The limit's true share, from each time on."""

    seconds: float = 3600.0
    round_trip_s: float = 0.02
    seed: int = 1


class Outcome(msgspec.Struct, frozen=True):
    """What came of an hour: what was taken of what could have been, and the share of requests that was refused."""

    used: float
    refused: float


def play(world: World) -> Outcome:
    """Sends as fast as the pacer lets it."""
    chance = random.Random(f"{world}")
    pacer = Pacer(world.limit)
    service = _Service(world, chance)
    half_us, end = round(world.round_trip_s * SECOND / 2), START + round(world.seconds * SECOND)
    on_way: deque[tuple[int, int, int]] = deque()
    now, sent, taken = START, 0, 0
    while now < end:
        wait = pacer.wait_us(now)
        if wait == 0:
            pacer.take(now)
            is_taken = service.allows(now + half_us)
            on_way.append((now + 2 * half_us, now, 200 if is_taken else 429))
            sent, taken = sent + 1, taken + is_taken
        elif on_way and (wait is None or on_way[0][0] <= now + wait):
            now, sent_at, status = on_way.popleft()
            pacer.answered(now, sent_at, status)
        else:
            assert wait is not None
            now += wait
    return Outcome(taken / _possible(world), 1 - taken / max(1, sent))


class _Service:
    def __init__(self, world: World, chance: random.Random) -> None:
        self._world, self._chance = world, chance
        self._window = round(world.limit.window_s * SECOND)
        self._counter = servers(world.limit)[world.way]
        self._full = getattr(self._counter, "size", 0)
        self._changes = deque((START + round(at * SECOND), share) for at, share in world.true)
        self._turn = round(world.turns_s * SECOND)
        self._gap = round(self._window / (world.neighbour * world.limit.requests)) if world.neighbour else 0
        self._neighbour_at = START + chance.randrange(self._gap) if self._gap else 1 << 62

    def allows(self, at: int) -> bool:
        while self._changes and at >= self._changes[0][0]:
            self._change(self._changes.popleft()[1])
        while self._neighbour_at <= at:
            if not self._turn or (self._neighbour_at - START) // self._turn % 2:
                self._counter.allows(self._neighbour_at)
            self._neighbour_at += self._gap + self._chance.randrange(-self._gap // 3, self._gap // 3 + 1)
        if self._world.stray and self._chance.random() < self._world.stray:
            return False
        return self._counter.allows(at)

    def _change(self, share: float) -> None:
        requests = int(self._world.limit.requests * share)
        counter = self._counter
        if isinstance(counter, TokenBucket):
            counter.size, counter.rate = max(1, int(self._full * share)), requests / self._window
            counter.tokens = min(counter.tokens, counter.size)
        else:
            counter.limit = requests  # type: ignore[attr-defined]


def _possible(world: World) -> float:
    """How many requests could be taken, beside the neighbour's and the strays."""
    per_s, possible = world.limit.requests / world.limit.window_s, 0.0
    for second in range(round(world.seconds)):
        share = [share for at, share in world.true if at <= second][-1]
        is_there = not world.turns_s or int(second // world.turns_s) % 2
        left = share - (world.neighbour if is_there else 0.0)
        possible += per_s * min(left, 1 - world.stray)
    return possible


class Wanted(msgspec.Struct, frozen=True):
    """What a kind of world asks for: used at least, refused at most."""

    used: float
    refused: float


class Kind(msgspec.Struct, frozen=True):
    """Worlds of a name, one for each way of counting and each limit."""

    name: str
    world: World
    wanted: Wanted

    def worlds(self, limit: Limit, *, seconds: float, seed: int) -> Iterator[World]:
        for way in WAYS:
            yield msgspec.structs.replace(self.world, limit=limit, way=way, seconds=seconds, seed=seed)


def _stray(share: float) -> Kind:
    return Kind(f"stray {share:.1%}", World(stray=share), Wanted(0.96, share * 1.15 + 0.001))


def _neighbour(share: float, turns_s: float = 0.0, stray: float = 0.0) -> Kind:
    turns = f", in turns of {turns_s:g} s" if turns_s else ""
    more = f", stray {stray:.1%}" if stray else ""
    world = World(neighbour=share, turns_s=turns_s, stray=stray)
    return Kind(f"neighbour {share:.0%}{turns}{more}", world, Wanted(0.9, 0.04 + stray * 1.15))


def _true(*shares: float, each_s: float = 900.0, stray: float = 0.0) -> Kind:
    true = tuple((number * each_s, share) for number, share in enumerate(shares))
    more = f", stray {stray:.1%}" if stray else ""
    name = f"true limit {', '.join(f'{share:.0%}' for share in shares)}{more}"
    return Kind(name, World(true=true, stray=stray), Wanted(0.94, 0.025 + stray * 1.15))


CLEAN: Final = Kind("nothing refused", World(), Wanted(0.975, 0.0))

KINDS: Final = (
    CLEAN,
    *(_stray(share) for share in (0.001, 0.005, 0.01, 0.03, 0.1)),
    *(_neighbour(share, turns_s) for share in (0.2, 0.5) for turns_s in (0.0, 60.0)),
    *(_true(share) for share in (0.85, 0.6, 0.25)),
    _neighbour(0.2, stray=0.03),
    _neighbour(0.5, 60.0, stray=0.01),
    _true(1.0, 0.5, 0.8, 1.0),
)
"""Those by which the controller was found."""

HELD_OUT: Final = (
    *(_stray(share) for share in (0.002, 0.02, 0.05, 0.07)),
    *(_neighbour(share, turns_s) for share in (0.1, 0.35, 0.6) for turns_s in (0.0, 37.0, 180.0)),
    *(_true(share) for share in (0.95, 0.72, 0.4, 0.15)),
    _true(0.7, stray=0.02),
    _neighbour(0.3, stray=0.05),
    _true(1.0, 0.35, 0.9, 0.55, each_s=420.0),
)
"""Others, with which it was only looked at."""
