"""Those who act on one ledger on a server, stopped before each of their statements until it is their turn: every order
in which their statements can come, one after the other.

Which statement comes next is drawn by nobody: a play is told its first choices, goes on by itself, and says which others
there were. So all orders are gone through like the branches of a tree.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import anyio

from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings

WAITS_FOR_LOCK: Final = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1) AND wait_event_type = 'Lock'"


class Actor:
    """One who acts: while it is on stage it is stopped before each statement of each of its connections."""

    def __init__(self) -> None:
        self.is_on_stage = False
        self._drivers: list[Any] = []
        self._stopped: deque[anyio.Event] = deque()
        self.said: list[str] = []
        """Its statements, as they were let through."""

    @property
    def is_stopped(self) -> bool:
        """Whether it waits for its turn."""
        return bool(self._stopped)

    @property
    def backends(self) -> list[int]:
        """The server's processes of its connections."""
        return [driver.get_server_pid() for driver in self._drivers if not driver.is_closed()]

    def let_through(self) -> None:
        """It is its turn, for one statement."""
        self._stopped.popleft().set()

    async def stops(self, statement: str) -> None:
        """Returns when `statement` may be executed."""
        if self.is_on_stage:
            turn = anyio.Event()
            self._stopped.append(turn)
            await turn.wait()
            self.said.append(" ".join(statement.split())[:60])

    def connecting(self, connect: Connect) -> Connect:
        """The same way to connect, for this one."""

        async def stopping(settings: Settings, bounds: LineBounds) -> Any:
            return self.stopping(await connect(settings, bounds))

        return stopping

    def stopping(self, driver: Any) -> Any:
        """The same connection, for this one."""
        self._drivers.append(driver)
        return _Stopping(driver, self)


class _Stopping:
    """A connection, or a statement that it has prepared."""

    def __init__(self, its: Any, actor: Actor, statement: str = "") -> None:
        self._its, self._actor, self._statement = its, actor, statement

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._its, name)
        if name == "prepare":
            return self._prepare
        if name not in {"execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table"}:
            return found

        async def stopped(*given: Any, **named: Any) -> Any:
            await self._actor.stops(self._statement or str(given[0]))
            return await found(*given, **named)

        return stopped

    async def _prepare(self, statement: str, **named: Any) -> "_Stopping":
        return _Stopping(await self._its.prepare(statement, **named), self._actor, statement)


class Choice(NamedTuple):
    """Whose turn it was, and whose it could have been."""

    taken: int
    others: tuple[int, ...]

    def instead(self, other: int) -> "Choice":
        """It is the turn of that one, of `others`."""
        return Choice(other, tuple(each for each in (self.taken, *self.others) if each != other))


Act = Callable[[], Awaitable[object]]


class Play:
    """Once: each of `actors` acts, and it is seen what comes of it. `admin` is a connection of nobody's."""

    def __init__(self, actors: Sequence[Actor], acts: Sequence[Act], admin: Any) -> None:
        self._actors, self._acts, self._admin = actors, acts, admin
        self.choices: list[Choice] = []
        self.came: dict[int, object] = {}
        """What each has returned or raised."""

    async def played(self, first: Sequence[int]) -> None:
        """All act, by the choices in `first`; after those whoever is at it goes on for as long as it can."""
        async with anyio.create_task_group() as tasks:
            for number, actor in enumerate(self._actors):
                actor.is_on_stage, actor.said = True, []
                tasks.start_soon(self._act, number)
            while len(self.came) < len(self._acts):
                await self._settled()
                if ready := [number for number, actor in enumerate(self._actors) if actor.is_stopped]:
                    self._let_through(ready, first)
        for actor in self._actors:
            actor.is_on_stage = False

    @contextmanager
    def told_of(self) -> Iterator[None]:
        """What is found wrong of it says in which order that was, and what each had said."""
        try:
            yield
        except AssertionError as error:
            error.add_note(f"{[choice.taken for choice in self.choices]}, {self.came}")
            for actor in self._actors:
                error.add_note("\n".join(["", *actor.said]))
            raise

    async def _act(self, number: int) -> None:
        try:
            self.came[number] = await self._acts[number]()
        except Exception as error:  # noqa: BLE001  whoever looks at it judges it
            self.came[number] = error

    def _let_through(self, ready: Sequence[int], first: Sequence[int]) -> None:
        made = len(self.choices)
        wanted = first[made] if made < len(first) else (self.choices[-1].taken if self.choices else 0)
        taken = wanted if wanted in ready else ready[0]
        self.choices.append(Choice(taken, tuple(number for number in ready if number != taken)))
        self._actors[taken].let_through()

    async def _settled(self) -> None:
        """Returns once each waits for its turn, or for a lock that another one has, or has ended."""
        while True:
            await anyio.lowlevel.checkpoint()
            is_at_it = [
                actor for number, actor in enumerate(self._actors) if not (actor.is_stopped or number in self.came)
            ]
            if not is_at_it:
                return
            waiting = [await self._admin.fetchval(WAITS_FOR_LOCK, actor.backends) > 0 for actor in is_at_it]
            if all(waiting) and any(actor.is_stopped for actor in self._actors):
                return


class _Branch(NamedTuple):
    """A choice on the way to the orders that are tried now, and what is still to be tried in its place."""

    choice: Choice
    untried: tuple[int, ...]


async def each_order(
    play: Callable[[Sequence[int]], Awaitable[Sequence[Choice]]], *, made_way_max: int | None = None
) -> int:
    """Has `play` play all orders, or those in which nobody makes way for another one without having to more often than
    that; returns how many. It is given the first choices of each, and returns all that were made.
    """
    plays, way = 0, list[_Branch]()
    while True:
        made = await play([branch.choice.taken for branch in way])
        plays += 1
        for choice in made[len(way) :]:
            tried = [branch.choice for branch in way]
            others = [choice.instead(other) for other in choice.others]
            may = [each for each in others if made_way_max is None or _made_way([*tried, each]) <= made_way_max]
            way.append(_Branch(choice, tuple(each.taken for each in may)))
        while way and not way[-1].untried:
            way.pop()
        if not way:
            return plays
        choice, (taken, *untried) = way.pop()
        way.append(_Branch(choice.instead(taken), tuple(untried)))


def _made_way(choices: Sequence[Choice]) -> int:
    before = [0, *(choice.taken for choice in choices)]
    return sum(last in choice.others for last, choice in zip(before, choices, strict=False))
