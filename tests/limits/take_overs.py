"""One process sends after another, each at full speed, and each takes the place of one that is gone without a word, or
that has handed over: what a service that counts all of them together would refuse.

python -m tests.limits.take_overs [--times 20] [--seed 0] [--record]

Every operation is counted in every way. A process knows of what its predecessor sent what the engine does: of what is
claimed first, the ledger has which were answered, and when; of everything else it has nothing. What is on its way as a
process is gone comes late now and then: at any time until nothing of it can come any more. Half of the processes hear
nothing for the last seconds of their time, so that all that they may send at once is on its way; and half meet a service
that is slow, so that they send as many at once as they may. One that hands over hears all of its answers.
"""

import argparse
import heapq
import random
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum, auto
from typing import Final

import msgspec

from orchestrator.client.jobs.allowance import CLAIMED, follow_predecessor, for_a_batch, for_an_owner
from orchestrator.client.jobs.rate_limiter import Permit, RateLimiter
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.handover import EndpointLeft
from orchestrator.core.ownership.lease import LATE_US_MAX, TRUST_US
from orchestrator.core.service.http_answers import Answer
from tests.guarantees import record
from tests.limits.simulated import SECOND, START, refused

GAP_US_MIN: Final = SILENCE_US - TRUST_US
"""The shortest time between the last request of a process that cannot reach the ledger and the first of its successor."""

GAP_US_MAX: Final = 8 * SECOND
TENURE_S: Final = (15, 60)
"""How long a process sends: now and then its successor comes while places are reserved for the one before."""

TRIPS_US: Final = ((1_000, 280_000), (2_000_000, 4_000_000))
"""Those of a quick service, and of a slow one."""

KNOWN_US: Final = 70 * SECOND
"""Of so long ago a successor asks the ledger for what has no answer."""

HELD_S: Final = 4
"""For so long before its end a process hears nothing, if it does so."""

LATE_SHARE: Final = 0.2
"""Of the others, how much of what is on its way at the end comes late."""

LIMITS: Final = for_a_batch(CONTRACT_LIMITS)
OPERATIONS: Final = tuple(each for each in Operation if (LIMITS[each].concurrent or 0) > 1)
"""Those of which several are on their way at once. Of one alone there is no half, and of the others one goes now and
then: what comes late of these may meet one of the successor's."""


class Way(StrEnum):
    """How a process ends."""

    GONE = auto()
    HANDS_OVER = auto()


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    operation: Operation
    way: Way
    limit: Limit
    sent: int
    refused: dict[str, int]
    """How many by each way of counting that refuses any."""

    at_once: int
    """The most that were at the service together."""


class _Clock:
    def __init__(self) -> None:
        self.at = START

    def now(self) -> int:
        return self.at


class _Request(msgspec.Struct):
    sent_at: int
    stamped_at: int
    answered_at: int


class _Process:
    """One that sends as fast as it may, from `begun_at` on."""

    def __init__(
        self, operation: Operation, limits: dict[Operation, Limit], chance: random.Random, begun_at: int
    ) -> None:
        self.clock = _Clock()
        self.clock.at = begun_at
        self.limiter = RateLimiter(self.clock, limits)
        self.answered: list[int] = []
        self.is_held = False
        """Whether it heard nothing in the end."""

        self.operation = operation
        self._chance = chance
        self._trip_us = chance.choice(TRIPS_US)
        self._on_way: list[tuple[int, int, _Request, Permit]] = []
        self._number = 0

    @property
    def unanswered(self) -> list[_Request]:
        return [request for _, _, request, _ in self._on_way]

    def send(self, until: int, held_from: int) -> Iterator[_Request]:
        """Sends until that time; yields each request as it leaves. Of what is on its way at `held_from`, or leaves
        later, it hears nothing.
        """
        now = self.clock.at
        while now < until:
            permit = self.limiter.permit_at_once(self.operation)
            if permit is not None:
                yield self._sent(permit)
                continue
            free_at = self.limiter.figures(self.operation).free_at
            answered_at = self._on_way[0][0] if self._on_way else until
            answered_at = until if answered_at >= held_from else answered_at
            if free_at is None or answered_at <= free_at:
                now = self.clock.at = answered_at
                if now < until:
                    self._hear()
            else:
                now = self.clock.at = free_at + self._chance.randint(0, 10_000)
        self.clock.at = until

    def finish(self) -> None:
        """Hears what is on its way."""
        while self._on_way:
            self.clock.at = max(self.clock.at, self._on_way[0][0])
            self._hear()

    def _sent(self, permit: Permit) -> _Request:
        now = self.clock.at
        permit.use(self.operation)
        answered_at = now + self._chance.randint(*self._trip_us)
        request = _Request(now, self._chance.randint(now, answered_at), answered_at)
        self._number += 1
        heapq.heappush(self._on_way, (answered_at, self._number, request, permit))
        return request

    def _hear(self) -> None:
        now, _, request, permit = heapq.heappop(self._on_way)
        permit.answered(Answer(status=200, body=b"", sent_at=request.sent_at, answered_at=now))
        self.answered.append(now)


def play(operation: Operation, way: Way, *, times: int, seed: int) -> Played:
    """So many processes end in that way, and are followed by another one."""
    chance = random.Random(f"{operation} {way} {seed}")
    limits, limit = for_an_owner(LIMITS), LIMITS[operation]
    requests: list[_Request] = []
    unheard: list[_Request] = []
    process = _Process(operation, limits, chance, START)
    for _ in range(times + 1):
        requests += _send(process, way, chance)
        gap_us = chance.randint(GAP_US_MIN, GAP_US_MAX) if way is Way.GONE else chance.randint(0, GAP_US_MIN)
        successor = _Process(operation, limits, chance, process.clock.at + gap_us)
        if way is Way.GONE:
            unheard += _come_late(process, successor.clock.at, chance)
            _follow(successor, process, [each for each in unheard if each.sent_at > successor.clock.at - KNOWN_US])
        else:
            left = EndpointLeft(process.clock.at, process.limiter.left())
            follow_predecessor(
                successor.limiter, answered=(), unanswered=(), now=successor.clock.at, is_successor=False, left=left
            )
        process = successor
    stamps = sorted(request.stamped_at for request in requests)
    return Played(
        operation=operation,
        way=way,
        limit=limit,
        sent=len(requests),
        refused=refused(limit, stamps),
        at_once=_at_once(requests),
    )


def _send(process: _Process, way: Way, chance: random.Random) -> list[_Request]:
    until = process.clock.at + chance.randint(*TENURE_S) * SECOND
    if way is Way.HANDS_OVER:
        sent = list(process.send(until, until))
        process.finish()
        return sent
    process.is_held = chance.random() < 1 / 2
    return list(process.send(until, until - HELD_S * SECOND if process.is_held else until))


def _come_late(gone: _Process, taken_at: int, chance: random.Random) -> list[_Request]:
    """What was on its way, of which some comes late."""
    for request in gone.unanswered:
        if gone.is_held or chance.random() < LATE_SHARE:
            lasts_us = request.answered_at - request.stamped_at
            request.stamped_at = chance.randint(request.stamped_at, taken_at + LATE_US_MAX)
            request.answered_at = request.stamped_at + lasts_us
    return gone.unanswered


def _follow(successor: _Process, gone: _Process, unheard: list[_Request]) -> None:
    """It learns what the ledger tells of this operation: of the `unheard`, whichever process had sent them."""
    operation = successor.operation
    follow_predecessor(
        successor.limiter,
        answered=gone.answered if operation is Operation.RUN else (),
        unanswered=[successor.clock.at] * len(unheard) if operation in CLAIMED else [],
        now=successor.clock.at,
        is_successor=True,
    )


def _at_once(requests: list[_Request]) -> int:
    """The most that the service was at, at any time. What is on its way is not there yet."""
    changes = sorted([(each.stamped_at, 1) for each in requests] + [(each.answered_at, -1) for each in requests])
    there = most = 0
    for _, change in changes:
        there += change
        most = max(most, there)
    return most


def play_all(*, times: int, seed: int = 0) -> Iterator[Played]:
    """Every operation of which several are on their way at once, in each way."""
    for way in Way:
        for operation in OPERATIONS:
            yield play(operation, way, times=times, seed=seed)


def is_kept(played: Played) -> bool:
    """Whether nothing was refused, and no more were there at once than may be."""
    return not played.refused and played.at_once <= (played.limit.concurrent or played.at_once)


def main() -> None:
    """Plays, prints a line for each operation, and exits with 1 where anything was refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.limits.take_overs", description="Limits at take-overs.")
    parser.add_argument("--times", type=int, default=20, help="take-overs of each operation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    all_played = list[Played]()
    for played in play_all(times=chosen.times, seed=chosen.seed):
        told = ", ".join(f"{way}: {number}" for way, number in played.refused.items()) or "none"
        print(
            f"{played.way:10} /{played.operation:9} {played.sent:8,} sent, {played.at_once:3} of {played.limit.concurrent} at once,"
            f" refused: {told}",
            flush=True,
        )
        all_played.append(played)
    if chosen.record:
        _record(all_played, f"python -m tests.limits.take_overs --times {chosen.times} --seed {chosen.seed}")
    sys.exit(0 if all(map(is_kept, all_played)) else 1)


def _record(all_played: Sequence[Played], command: str) -> None:
    for way, of_what in ((Way.GONE, "where an owner is gone"), (Way.HANDS_OVER, "where an owner hands over")):
        of_way = [played for played in all_played if played.way is way]
        record(f"requests, {of_what} again and again", sum(played.sent for played in of_way), "requests", command)
        worst = sum(max(played.refused.values(), default=0) for played in of_way)
        record(f"answered 429, {of_what}, worst of five ways to count", worst, "requests", command, at_most=0)


if __name__ == "__main__":
    main()
