"""Whoever owns a ledger on a server writes to it while another process takes its place, or it lets go, or somebody bids:
in every order of their statements.

What an owner was told is written was written before that; after it nothing of that owner is, whatever it was about.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

import anyio
import asyncpg

from orchestrator.clock import SystemClock
from orchestrator.core.ownership.shard_bids import KEEPERS
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import DeposedError
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.commands.command_repository import Commands
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.jobs.job_repositories import JobRepositories
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Process, Processes, ProcessName, ProcessNumber
from orchestrator.ledger.runs.run_repositories import RunRepositories
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.repository import Access
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.factories import STEPS, a_row
from tests.ledger.ledgers import a_run, added
from tests.postgres.databases import plain_connections
from tests.postgres.interleaving import Act, Actor, Choice, Play, each_order
from tests.postgres.meetings import at_service, claim
from tests.postgres.owners import joins, present, takes

NOTED: Final = "noted"
PATIENCE_S: Final = 60.0
OTHER: Final = ProcessName("other", " #other")
# All that the verbs below write, as one text, but for notices: these are good from anybody.
WRITTEN: Final = """
SELECT (SELECT string_agg(concat_ws(' ', id, state, submission_id, attempt), ';' ORDER BY id) FROM jobs)
  || (SELECT string_agg(concat_ws(' ', run_id, name, n), ';' ORDER BY run_id, name) FROM counts)
  || (SELECT string_agg(concat_ws(' ', id, intake_accepted, pause_requested), ';' ORDER BY id) FROM runs)
  || (SELECT concat_ws(' ', count(*), max(id)) FROM events) || ' ' || (SELECT count(done_at) FROM commands)
"""


class Owning(NamedTuple):
    """A process that owns the ledger, and proves it by each transaction."""

    actor: Actor
    number: ProcessNumber
    seen: Process
    """As others have seen it, and see it until now."""

    access: Access
    writer: GroupCommitWriter
    line: Any
    """The connection on which it beats."""

    farewell: Any
    """The one on which it lets go: whoever has it do that is stopped at its statements, not the owner."""

    @property
    def jobs(self) -> JobRepositories:
        return JobRepositories(self.access, slot=self.number.slot)

    @property
    def runs(self) -> RunRepositories:
        return RunRepositories(self.access)


Verb = Callable[[Owning, Ledger, str], Awaitable[Act]]
Rival = Callable[[Owning, Any, Any], Awaitable[bool]]
"""What is done by another process, on its connection, or by the owner, on the last one that it has; returns whether that
one has lost the ledger by it.
"""

VERBS: dict[str, Verb] = {}
"""By name: what prepares it in another run, by a ledger that proves nothing, and what the owner does then."""


def verb(prepare: Verb) -> Verb:
    """Lists it."""
    VERBS[prepare.__name__] = prepare
    return prepare


@verb
async def claims(owning: Owning, beside: Ledger, name: str) -> Act:
    run = await a_run(beside, 2, name=name)
    return lambda: claim(owning.jobs.claims, run)


@verb
async def steps(owning: Owning, beside: Ledger, name: str) -> Act:
    jobs = await at_service(beside, await a_run(beside, 2, name=name))
    ends = [STEPS["completed"][1](job, beside.now()) for job in jobs]
    return lambda: owning.writer.apply(ends)


@verb
async def notice(owning: Owning, beside: Ledger, name: str) -> Act:
    [job] = await at_service(beside, await a_run(beside, 1, name=name))
    told = Notice(submission=job.submission or 0, received_at=beside.now(), record=None)

    async def act() -> object:
        try:
            await owning.writer.record_notice(told)
        except DeposedError as error:
            raise AssertionError("it was not kept, though it is good from anybody") from error
        return NOTED

    return act


@verb
async def command(owning: Owning, beside: Ledger, name: str) -> Act:
    run = await a_run(beside, 1, name=name)
    commands = Commands(owning.access)
    asked = await beside.commands.one(await beside.commands.ask(Action.PAUSE, run=run.id))
    return lambda: commands.change_ledger(asked)


@verb
async def accept(owning: Owning, beside: Ledger, name: str) -> Act:
    run = await a_run(beside, 1, name=name)
    intake = await beside.runs.intakes.start(run)
    await added(beside, intake, [a_row(2, "more")])
    return lambda: owning.runs.intakes.accept(intake)


@verb
async def beat(owning: Owning, _beside: Ledger, _name: str) -> Act:
    async def act() -> object:
        try:
            return await Processes(owning.line).beat(owning.number) is not None
        except Exception as error:  # noqa: BLE001  whatever the driver raises
            return f"it says nothing: {error}"

    return act


async def take_over(owning: Owning, driver: Any, _farewell: Any) -> bool:
    """It has been silent until now."""
    if not await Processes(driver).declare_dead(owning.seen):
        return False
    await takes(driver, OTHER)
    return True


async def hand_over(owning: Owning, driver: Any, farewell: Any) -> bool:
    """It lets go, and somebody else takes what it had."""
    await Processes(farewell).leave(owning.number)
    await takes(driver, OTHER)
    return True


async def bid(owning: Owning, driver: Any, _farewell: Any) -> bool:
    """For what the owner has: it is not to be had."""
    number = await joins(driver, OTHER)
    leases = Leases(driver)
    its = [each.shard for each in (await leases.sighting()).leases if each.owner == owning.number.id]
    assert KEEPERS in its
    assert await leases.take(number, its) == []
    return False


RIVALS: Final[Mapping[str, Rival]] = {"take-over": take_over, "hand-over": hand_over, "bid": bid}


@asynccontextmanager
async def owning_process(url: str, mark: str) -> AsyncIterator[Owning]:
    """One that owns the ledger at `url`."""
    actor = Actor()
    named = _named(plain_connections(url), mark)
    connect = actor.connecting(named)
    async with AsyncExitStack() as stack:
        line, farewell = await connect({}, LineBounds()), await named({}, LineBounds())
        for each in (line, farewell):
            stack.callback(each.terminate)
        number = await takes(line, ProcessName("owner", mark))
        database = ServerDatabase("ledger", connect, metadata)
        stack.push_async_callback(database.aclose)
        database.fence = number.fence
        clock = SystemClock()
        writer = GroupCommitWriter(database, clock, Patience(clock, PATIENCE_S))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(writer.serve)
        await writer.flush()  # which connects
        [seen] = await present(line)
        yield Owning(actor, number, seen, Access(database, writer, clock), writer, line, farewell)


def _named(connect: Connect, mark: str) -> Connect:
    """By their names a successor finds the connections that it ends."""

    async def named(settings: Settings, bounds: LineBounds) -> Any:
        return await connect({**settings, "application_name": f"orchestrator{mark}"}, bounds)

    return named


async def contested(url: str, prepare: Verb, rival: Rival, *, made_way_max: int | None = None) -> int:
    """Has an owner's verb meet what the rival does, in all orders, in the ledger at `url`; returns in how many. Raises
    `AssertionError`.
    """
    names = (f"run-{number}" for number in itertools.count())
    async with AsyncExitStack() as stack:
        admin, looking, driver = [await asyncpg.connect(url) for _ in range(3)]
        for each in (admin, looking, driver):
            stack.callback(each.terminate)
        beside = await stack.enter_async_context(
            open_ledger(parse_ledger_url(url), clock=SystemClock(), connect=plain_connections(url))
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(beside.writer.serve)

        async def play(first: Sequence[int]) -> Sequence[Choice]:
            await admin.execute("UPDATE leases SET owner = NULL, wanted_by = NULL; DELETE FROM processes")
            name = next(names)
            async with owning_process(url, f" #{name}") as owning:
                act = await prepare(owning, beside, name)
                before = await admin.fetchval(WRITTEN)
                contest = _Contest(owning, rival, Actor(), driver, looking)
                once = Play([owning.actor, contest.actor], [act, contest.act], admin)
                await once.played(first)
                with once.told_of():
                    contest.check(once.came, before, await admin.fetchval(WRITTEN))
            return once.choices

        return await each_order(play, made_way_max=made_way_max)


class _Contest:
    """What the rival has done, and how the ledger stood just then."""

    def __init__(self, owning: Owning, rival: Rival, actor: Actor, driver: Any, looking: Any) -> None:
        self._owning, self._rival, self._looking = owning, rival, looking
        self.actor = actor
        self._drivers = [actor.stopping(each) for each in (driver, owning.farewell)]
        self._then: str | None = None

    async def act(self) -> bool:
        is_lost = await self._rival(self._owning, *self._drivers)
        self._then = await self._looking.fetchval(WRITTEN)
        return is_lost

    def check(self, came: Mapping[int, object], before: str, after: str) -> None:
        done, is_lost = came[0], came[1]
        assert isinstance(is_lost, bool), is_lost
        if isinstance(done, bool):  # a beat: whoever is taken to be silent has not beaten, and whoever lives can
            assert done is not is_lost if self._rival is take_over else done or is_lost
            return
        if isinstance(done, str):  # or its connection was ended by whoever took it to be silent
            assert self._rival is take_over or done == NOTED
            return
        if is_lost:
            assert after == self._then, "written by who had lost it"
        is_deposed = isinstance(done, DeposedError)
        assert is_deposed or not isinstance(done, Exception), done
        assert is_lost or not is_deposed
        assert (after == before) is is_deposed, "told otherwise than it was"
