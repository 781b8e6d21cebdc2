"""What becomes of the process that owns a ledger, of its lines, its clock, its server, or of others who use that."""

import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from tests.failover.database import Standby
from tests.failover.machine import Machine, away
from tests.failover.world import World, taken_in
from tests.postgres.proxy import AtCommit, Halt, Proxy, proxied

SILENCE_S_MAX: Final = 10.0
"""So long nothing may be sent after its owner is gone, however it went."""

HANDED_OVER_S_MAX: Final = 2.0
"""The same where it was asked to stop, beside what its last answers take."""

HALTED_S_MAX: Final = 20.0
"""So soon there is a transaction in which somebody can fall silent."""

LAG_S: Final = 3.0
"""What is committed in that time is lost with a server."""

STOPPED: Final = 3
"""How a process ends that can do nothing until somebody changes something."""

PEOPLE_S: Final = 90.0
"""So long people take to look, and to decide."""

ANSWERED_S: Final = 20.0
"""So long an answer of the server is waited for."""

NO_ANSWER_S: Final = 30.0
"""So long an answer of the service is waited for."""

HOUR_S: Final = 3_600.0
STEP_S: Final = 0.5
CUT_EVERY_S: Final = 0.25
SLOW_S: Final = 0.05

Act = Callable[[World, Machine], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What `does` happen to the machine that owns the ledger; on return it is over."""

    does: Act
    silence_s_max: float = SILENCE_S_MAX
    """So long nothing may be sent."""

    is_replaced: bool = False
    """Whether another one must own the ledger afterwards."""

    lasts_s: float = 0.0
    """For how long, where others can send meanwhile."""

    weight: float = 1.0
    """How often it is drawn."""


# --- the process


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


# --- its lines


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


# --- its clock


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


# --- the server


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


# --- others


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


@contextmanager
def halted(line: Proxy, then: Callable[[], object], *, at_commit: bool) -> Iterator[Halt]:
    """Whoever comes to that moment on the `line` falls silent, and goes on when the block is left."""
    line.halt = Halt(then, at_commit=at_commit)
    yield line.halt
    line.halt.goes_on.set()
    line.halt = None


def _for_all(lasts_s: float, does: Callable[[float], Act], *, weight: float = 1.0) -> Fault:
    """Of that nobody is spared, so nothing is sent for as long as it lasts."""
    return Fault(does=does(lasts_s), silence_s_max=lasts_s + SILENCE_S_MAX, weight=weight)


FAULTS: Final[Mapping[str, Fault]] = {
    "killed": Fault(does=killed, is_replaced=True, weight=3),
    "power-cut": Fault(does=without_power, is_replaced=True, weight=3),
    "asked": Fault(does=asked, is_replaced=True, silence_s_max=HANDED_OVER_S_MAX, weight=3),
    "stopped:2": Fault(does=stopped(2), weight=2),
    "stopped:8": Fault(does=stopped(8), is_replaced=True, weight=3, lasts_s=8),
    "stopped:30": Fault(does=stopped(30), is_replaced=True, lasts_s=30),
    "half-a-message:8": Fault(does=stopped_in_transaction(8, at_commit=False), is_replaced=True, weight=2, lasts_s=8),
    "half-a-message:30": Fault(does=stopped_in_transaction(30, at_commit=False), is_replaced=True, lasts_s=30),
    "with-locks:2": Fault(does=stopped_in_transaction(2, at_commit=True), weight=2),
    "with-locks:8": Fault(does=stopped_in_transaction(8, at_commit=True), is_replaced=True, weight=2, lasts_s=8),
    "cut": Fault(does=cut(reset=False), weight=2),
    "reset": Fault(does=cut(reset=True), weight=2),
    "refused:3": Fault(does=refused(3), weight=2),
    "refused:20": Fault(does=refused(20), is_replaced=True, lasts_s=20),
    "delayed:10": Fault(does=delayed(10), lasts_s=10),
    "held:3": Fault(does=held(3), weight=2),
    "held:12": Fault(does=held(12), is_replaced=True, lasts_s=12),
    "no-ledger:20": Fault(does=swallowed(20, ledger=True, service=False), is_replaced=True, lasts_s=20),
    # It waits for answers for as long as usual.
    "no-service:20": Fault(does=swallowed(20, ledger=False, service=True), silence_s_max=NO_ANSWER_S + SILENCE_S_MAX),
    "isolated:20": Fault(does=swallowed(20, ledger=True, service=True), is_replaced=True, lasts_s=20),
    "commit-lost": Fault(does=at_commit(AtCommit.LOST, 3)),
    "commit-unanswered": Fault(does=at_commit(AtCommit.UNANSWERED, 3)),
    "commit-late": Fault(does=at_commit(AtCommit.LATE, 3)),
    # The line is found to be dead once an answer has not come for long, while beats go on over another one.
    "commit-swallowed": Fault(does=at_commit(AtCommit.SWALLOWED, 1), silence_s_max=ANSWERED_S + SILENCE_S_MAX),
    "answer-swallowed": Fault(does=at_commit(AtCommit.ANSWER_SWALLOWED, 1), silence_s_max=ANSWERED_S + SILENCE_S_MAX),
    "clock:+1h": Fault(does=clock_off(HOUR_S), is_replaced=True),
    "clock:-1h": Fault(does=clock_off(-HOUR_S), is_replaced=True),
    "clock-steps": Fault(does=clock_steps),
    "restart": _for_all(0, server_away, weight=2),
    "away:3": _for_all(3, server_away, weight=2),
    "away:60": _for_all(60, server_away, weight=0.3),
    "full:10": _for_all(10, server_full),
    "read-only:10": _for_all(10, server_read_only),
    "crowded:10": _for_all(10, server_crowded),
    "promoted": Fault(does=promoted, silence_s_max=PEOPLE_S, weight=0.5),
    "stranger:20": Fault(does=long_transaction(20), silence_s_max=HANDED_OVER_S_MAX, lasts_s=20),
    "asleep:30": Fault(does=client_asleep(30), lasts_s=30),
}
