"""How the limits are divided between a batch and the requests that people send by hand beside it.

The limits hold for an endpoint, whoever uses it, so each process keeps to its part. Of `/run` a batch takes all there
is: one job more or less by hand is what its pacing has room for.
"""

from collections.abc import Mapping
from typing import Final

from orchestrator.core.pacing import Limit, Operation

PEOPLE_SHARE: Final = 0.05
"""The part for people."""


def for_people(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for requests by hand: at least one in each window, and one at once."""
    return {operation: _peoples_part(limit) for operation, limit in limits.items()}


def for_a_batch(limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
    """What is for a batch: all of `/run`, and of everything else what is not for people, but at least one as well."""
    return {
        operation: limit if operation is Operation.RUN else _rest(limit, _peoples_part(limit))
        for operation, limit in limits.items()
    }


def _peoples_part(limit: Limit) -> Limit:
    at_once = None if limit.concurrent is None else max(1, int(limit.concurrent * PEOPLE_SHARE))
    return Limit(max(1, int(limit.requests * PEOPLE_SHARE)), limit.window_s, at_once)


def _rest(limit: Limit, part: Limit) -> Limit:
    at_once = None if limit.concurrent is None or part.concurrent is None else limit.concurrent - part.concurrent
    return Limit(
        max(1, limit.requests - part.requests), limit.window_s, at_once if at_once is None else max(1, at_once)
    )
