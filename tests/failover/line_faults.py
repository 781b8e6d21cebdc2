"""What becomes of the lines of the process that owns a ledger: to that, and to the service."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from tests.failover.fault import Act
from tests.failover.machine import Machine
from tests.failover.world import World
from tests.postgres.proxy import AtCommit, Halt, Proxy

HALTED_S_MAX: Final = 60.0
"""So soon there is a transaction in which somebody can fall silent."""

CUT_EVERY_S: Final = 0.25
SLOW_S: Final = 0.05


def cut(*, reset: bool) -> Act:
    """Its connections to the ledger are closed for some seconds, as soon as there are any."""

    async def does(_: World, owner: Machine) -> None:
        for _each in range(12):
            owner.ledger.cut(reset=reset)
            await anyio.sleep(CUT_EVERY_S)

    return does


def refused(lasts_s: float) -> Act:
    """Nobody takes its connections to the ledger for so long."""

    async def does(_: World, owner: Machine) -> None:
        owner.ledger.refuse()
        await anyio.sleep(lasts_s)
        await owner.ledger.listen()

    return does


def delayed(lasts_s: float) -> Act:
    """All that travels between it and the ledger takes longer for so long."""

    async def does(_: World, owner: Machine) -> None:
        owner.ledger.delay_s = SLOW_S
        await anyio.sleep(lasts_s)
        owner.ledger.delay_s = 0.0

    return does


def swallowed(lasts_s: float, *, ledger: bool, service: bool) -> Act:
    """What it sends arrives nowhere for so long, and nobody tells it."""

    async def does(_: World, owner: Machine) -> None:
        lines = [line for line, is_meant in ((owner.ledger, ledger), (owner.service, service)) if is_meant]
        for line in lines:
            line.is_swallowing = True
        await anyio.sleep(lasts_s)
        for line in lines:
            line.is_swallowing = False
            line.fall_silent()  # what was begun meanwhile leads nowhere

    return does


def held(lasts_s: float) -> Act:
    """What travels between it and the ledger arrives so much later, all at once."""

    async def does(_: World, owner: Machine) -> None:
        owner.ledger.goes_on = anyio.Event()
        await anyio.sleep(lasts_s)
        owner.ledger.goes_on.set()

    return does


def at_commit(fate: AtCommit, times: int) -> Act:
    """That becomes of its next commits."""

    async def does(_: World, owner: Machine) -> None:
        are_over = anyio.Event()

        def fates() -> Iterator[AtCommit]:
            yield from [fate] * times
            are_over.set()

        owner.ledger.at_commit = fates()
        await are_over.wait()

    return does


@contextmanager
def halted(line: Proxy, then: Callable[[], object], *, at_commit: bool) -> Iterator[Halt]:
    """Whoever comes to that moment on the `line` falls silent, and goes on when the block is left."""
    line.halt = Halt(then, at_commit=at_commit)
    yield line.halt
    line.halt.goes_on.set()
    line.halt = None
