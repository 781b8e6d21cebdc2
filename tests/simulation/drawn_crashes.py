"""When processes of the swarm are killed."""

import random

from tests.simulation.plan import Crash, Kill

CALLS_MAX = 200
"""A drawn crash comes within so many calls of the database; a small run makes about as many."""

COMMITS_MAX = 60


def crash(chance: random.Random, *, calls: int = CALLS_MAX, commits: int = COMMITS_MAX) -> Crash:
    kill = chance.choice(tuple(Kill))
    return Crash(kill, chance.randint(1, calls if kill is Kill.CALL else commits))
