"""How the limits are divided between a batch and the requests that people send by hand beside it.

The limits hold for an endpoint, whoever uses it, so each process keeps to its part. Of `/run` and `/runsync` a batch
takes all there is: one job more or less by hand is what its pacing has room for.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.ownership.lease import LATE_US_MAX
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.client.jobs.rate_limiter import RateLimiter

PEOPLE_SHARE: Final = 0.05
"""The part for people."""

BATCH_OPERATIONS: Final = (Operation.RUN, Operation.STATUS, Operation.RETRY, Operation.CANCEL)
"""What a batch sends many of; or of those whose answers are held, and then next to none of these."""

SYNC_OPERATIONS: Final = (Operation.RUNSYNC, Operation.OPENAI, Operation.HTTP)
"""Those whose answers are held until a job has ended."""

CLAIMED: Final = frozenset({Operation.RUN, *SYNC_OPERATIONS})
"""Those of whose requests the ledger knows before they leave."""

_USUAL: Final = sum(CONTRACT_LIMITS[operation].concurrent or 0 for operation in BATCH_OPERATIONS)


def for_people(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for requests by hand: at least one in each window, and one at once."""
    return {operation: _peoples_part(limit) for operation, limit in limits.items()}


def for_a_batch(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for a batch: all of `/run` and `/runsync`, of everything else what is not for people, at least one."""
    return {
        operation: limit if operation in (Operation.RUN, Operation.RUNSYNC) else _rest(limit, _peoples_part(limit))
        for operation, limit in limits.items()
    }


def within_connections(limits: Mapping[Operation, Limit], connections: int) -> dict[Operation, Limit]:
    """`limits` with so few requests at once that a batch keeps to so many connections.

    Each of its operations has a fixed part of them, by what the contract allows at once; `/health` asks one at a time.
    """
    return {operation: _within(operation, limit, connections) for operation, limit in limits.items()}


def for_an_owner(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """`limits` for a process whose place another one may take: half as many at once of what no ledger counts.

    Its last requests may arrive when its successor sends already. Of what is claimed first the successor finds how many
    there can be; of everything else it knows that both together keep to the limit.
    """
    return {
        operation: limit if operation in CLAIMED or limit.concurrent is None else _half_at_once(limit)
        for operation, limit in limits.items()
    }


def reserve_for_predecessor(limiter: "RateLimiter", *, unanswered: int, now: int) -> None:
    """What the process that owned the ledger before may have sent, and still arrives, keeps its part of the limits: of
    what is claimed first there are `unanswered`, of everything else as many as it may have had at once.
    """
    for operation in Operation:
        limit = limiter.limit(operation)
        until = now + LATE_US_MAX + round(limit.window_s * SECOND_US)
        if operation in CLAIMED:
            limiter.reserve(operation, unanswered, until, places=unanswered)
        elif limit.concurrent is not None:
            limiter.reserve(operation, limit.concurrent, until)


def _half_at_once(limit: Limit) -> Limit:
    return Limit(limit.requests, limit.window_s, max(1, (limit.concurrent or 1) // 2))


def _within(operation: Operation, limit: Limit, connections: int) -> Limit:
    usual = CONTRACT_LIMITS[operation].concurrent
    if operation not in (*BATCH_OPERATIONS, *SYNC_OPERATIONS) or usual is None:
        return limit
    most = max(1, connections * usual // _USUAL)
    at_once = most if limit.concurrent is None else min(most, limit.concurrent)
    return Limit(limit.requests, limit.window_s, at_once)


def _peoples_part(limit: Limit) -> Limit:
    at_once = None if limit.concurrent is None else max(1, int(limit.concurrent * PEOPLE_SHARE))
    return Limit(max(1, int(limit.requests * PEOPLE_SHARE)), limit.window_s, at_once)


def _rest(limit: Limit, part: Limit) -> Limit:
    at_once = None if limit.concurrent is None or part.concurrent is None else limit.concurrent - part.concurrent
    return Limit(
        max(1, limit.requests - part.requests), limit.window_s, at_once if at_once is None else max(1, at_once)
    )
