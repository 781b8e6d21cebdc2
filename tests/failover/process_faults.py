"""What becomes of the process that owns a ledger, and of its clock."""

import signal
from functools import partial
from typing import Final

import anyio

from tests.failover.fault import Act
from tests.failover.line_faults import HALTED_S_MAX, halted
from tests.failover.machine import Machine
from tests.failover.world import World

HOUR_S: Final = 3_600.0
STEP_S: Final = 0.5


async def killed(_: World, owner: Machine) -> None:
    """SIGKILL."""
    await owner.kill()


async def without_power(_: World, owner: Machine) -> None:
    """Its machine goes down: nothing is closed, and no mark of what has left is found again."""
    await owner.lose_power()


async def asked(_: World, owner: Machine) -> None:
    """SIGTERM."""
    ended = await owner.stop()
    assert ended.exit_code == 0, ended


def stopped(lasts_s: float) -> Act:
    """It stands still for so long, and goes on."""

    async def does(_: World, owner: Machine) -> None:
        owner.signal(signal.SIGSTOP)
        await anyio.sleep(lasts_s)
        owner.signal(signal.SIGCONT)

    return does


def stopped_in_transaction(lasts_s: float, *, at_commit: bool) -> Act:
    """The same in the midst of a transaction, whose locks it holds: half of a message has left, or it is to commit."""

    async def does(_: World, owner: Machine) -> None:
        with halted(owner.ledger, partial(owner.signal, signal.SIGSTOP), at_commit=at_commit) as halt:
            with anyio.fail_after(HALTED_S_MAX):
                await halt.has_come.wait()
            await anyio.sleep(lasts_s)
            owner.signal(signal.SIGCONT)

    return does


def clock_off(ahead_s: float) -> Act:
    """The machine that is to take its place has a clock that is wrong."""

    async def does(world: World, owner: Machine) -> None:
        [other] = (machine for machine in world.machines.values() if machine is not owner)
        await other.stop()
        other.clock.set_s(ahead_s)
        await other.start()
        await owner.kill()

    return does


async def clock_steps(_: World, owner: Machine) -> None:
    """Its clock is set, again and again."""
    for ahead_s in (HOUR_S, 0.0, -HOUR_S, 2.0, HOUR_S, -2.0, 0.0) * 2:
        owner.clock.set_s(ahead_s)
        await anyio.sleep(STEP_S)
