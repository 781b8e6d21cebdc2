"""What becomes of the server on which a ledger is, or of others who use that."""

import signal
from functools import partial
from typing import Final

import anyio

from tests.failover.database import Standby
from tests.failover.fault import Act
from tests.failover.line_faults import HALTED_S_MAX, halted
from tests.failover.machine import Machine, away
from tests.failover.world import World, taken_in
from tests.postgres.proxy import proxied

LAG_S: Final = 3.0
"""What is committed in that time is lost with a server."""

STOPPED: Final = 3
"""How a process ends that can do nothing until somebody changes something."""


def server_away(lasts_s: float) -> Act:
    """The server is killed, and starts again after so long."""

    async def does(world: World, _: Machine) -> None:
        down = world.database.away()
        await away(down.__enter__)
        await anyio.sleep(lasts_s)
        await away(partial(down.__exit__, None, None, None))

    return does


def server_full(lasts_s: float) -> Act:
    """No table can grow for so long."""

    async def does(world: World, _: Machine) -> None:
        async with world.database.full():
            await anyio.sleep(lasts_s)

    return does


def server_read_only(lasts_s: float) -> Act:
    """Nobody can write for so long."""

    async def does(world: World, _: Machine) -> None:
        async with world.database.read_only():
            await anyio.sleep(lasts_s)

    return does


def server_crowded(lasts_s: float) -> Act:
    """Strangers have all connections, when its own are cut."""

    async def does(world: World, owner: Machine) -> None:
        async with world.database.crowded():
            owner.ledger.cut()
            await anyio.sleep(lasts_s)

    return does


async def promoted(world: World, owner: Machine) -> None:
    """A standby takes the place of the server, and lacks the last commits. Nobody sends until somebody accepts that."""
    before = await away(partial(world.service.counted, "accepted"))
    standby = await away(partial(Standby, world.database))
    world.stays.push_async_callback(away, standby.end)
    await anyio.sleep(LAG_S)
    await away(standby.promote)
    world.leads_to(world.database.url)
    for machine in world.machines.values():
        await _is_refused(machine)
    world.repeated_max += await away(partial(world.service.counted, "accepted")) - before
    await owner.start()
    await _is_refused(owner)
    await owner.start("--accept-lost-commits")


async def _is_refused(machine: Machine) -> None:
    ended = await machine.ended()
    assert ended.exit_code == STOPPED, ended
    assert "the server has lost what it had confirmed" in ended.stderr


def long_transaction(lasts_s: float) -> Act:
    """A stranger has written something in the database, and goes to lunch."""

    async def does(world: World, _: Machine) -> None:
        async with world.database.long_transaction():
            await anyio.sleep(lasts_s)

    return does


def client_asleep(lasts_s: float) -> Act:
    """A laptop falls asleep in the midst of a command, which was to commit."""

    async def does(world: World, _: Machine) -> None:
        async with proxied(world.database.url) as line:
            command = world.taking_in(20)
            program = await away(partial(world.start, *command, "--ledger", line.url))
            with halted(line, partial(program.signal, signal.SIGSTOP), at_commit=True) as halt:
                with anyio.fail_after(HALTED_S_MAX):
                    await halt.has_come.wait()
                await anyio.sleep(lasts_s)
                program.signal(signal.SIGCONT)
            try:
                await taken_in(program)
            except AssertionError:  # it has waited for too long, by its own clock; people give the command again
                await taken_in(await away(partial(world.start, *command)))

    return does
