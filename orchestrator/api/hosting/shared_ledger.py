"""What a process does that shares a ledger on a server with others: takes shards, has an engine work on each, and hands
them over.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from orchestrator.api.hosting.lacks_elsewhere import LacksElsewhere
from orchestrator.api.hosting.shard_ability import ShardAbility
from orchestrator.api.hosting.shard_engine import ShardEngine
from orchestrator.api.hosting.shard_news import ShardNews
from orchestrator.core.ownership.service_reach import ServiceReach
from orchestrator.core.ownership.shard_bids import KEEPERS, Pair, ShardBids
from orchestrator.core.ownership.shard_duties import ShardDuties, shard_duties, shards_to_begin
from orchestrator.engine.engine import Engine
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import DeposedError, LedgerRetiredError, LedgerVersionError, UsageError
from orchestrator.ledger.processes.leases import LeaseRow, LedgerSighting
from orchestrator.ledger.processes.shard_needs import ShardNeeds
from orchestrator.ledger.processes.shard_owner import ShardOwner

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
"""How often to look who has what, and what is needed."""


@dataclass(kw_only=True, eq=False)
class SharedLedger:
    """The part of one process, the `owner` of shards; `ability` says which it can serve. `begin` begins what an engine
    does inside of its `working`, and `stop` ends all of it.
    """

    owner: ShardOwner
    process: EngineProcess
    news: ShardNews
    ability: ShardAbility
    begin: Callable[[Engine], Awaitable[None]]
    stop: anyio.Event
    _tasks: TaskGroup = field(init=False)
    _engines: dict[int, ShardEngine] = field(init=False, default_factory=dict)
    """By their shards; those included that are ending."""

    _elsewhere: LacksElsewhere = field(init=False)
    _bids: ShardBids = field(init=False)
    _reach: ServiceReach = field(init=False, default_factory=ServiceReach)
    _changing: anyio.Lock = field(init=False, default_factory=anyio.Lock)
    """Held by whoever changes which shards are ours, and what their engines have."""

    def __post_init__(self) -> None:
        self._elsewhere = LacksElsewhere(ledger=self.process.ledger)
        self._bids = ShardBids(self.owner.number, asks_for_more=self.ability.only is None)

    async def serve(self) -> None:
        """Works until `stop` is set; returns once all engines have ended. Raises `DeposedError` where the process was
        declared dead, or is let in no more: nothing is sent from then on. Raises `LedgerVersionError` where a newer
        program has the ledger, and `LedgerRetiredError` where it goes on elsewhere.
        """
        async with anyio.create_task_group() as self._tasks, anyio.create_task_group() as beside:
            beside.start_soon(self.ability.serve)
            beside.start_soon(self._elsewhere.serve)
            while not self.stop.is_set() and self.owner.why_lost is None:
                if not await self._step():
                    with anyio.move_on_after(LOOK_S):
                        await self.stop.wait()
            for each in self._engines.values():
                each.end(is_succeeded=False)
            await self._leave_the_rest()
            beside.cancel_scope.cancel()
        if (lost := self.owner.why_lost) is not None:
            raise DeposedError(lost)

    @property
    def engines(self) -> list[Engine]:
        """Those that work here now, the keeper's last: it sends what others have found."""
        at_work = [each for each in self._engines.values() if not each.has_ended]
        found = [each.engine for each in at_work if each.engine is not None]
        return sorted(found, key=lambda each: each.scope.is_keeper)

    async def _step(self) -> bool:
        """Looks, and does what is due; returns whether more is due at once."""
        async with self._changing:
            try:
                with self.owner.refusals.watching():
                    seen, needs = await self.owner.look(), await self.owner.needs()
                    self._engines = {number: each for number, each in self._engines.items() if not each.has_ended}
                    self.ability.needs_are(needs)
                    self.process.lacks, self.process.lack_counts = self.ability.lacks, self.ability.lack_counts
                    self.news.saw(seen, needs)
                    if self.news.stands_by and not self.owner.shards:
                        return False
                    due = self._due(seen, needs)
                    for number in due.end:
                        self._engines[number].end()
                    self._end_outgrown(needs)
                    is_more_due = await self._change_hands(due, needs)
            except (LedgerVersionError, LedgerRetiredError):
                raise
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("who has which part of the ledger is unknown: %s", error)
                self.news.knows_nothing(error, self.owner.elapsed())
                return False
            self.news.knows_again()
            return is_more_due

    def _due(self, seen: LedgerSighting, needs: ShardNeeds) -> ShardDuties:
        me, needed = self.owner.number, needs.shards
        others = [each for each in seen.processes if each != me]
        unreached = self._reach.to_hand_over(
            [taken.shard for taken in self.owner.shards],
            [(number, each.reach()) for number, each in self._engines.items()],
            others,
            self.owner.elapsed(),
        )
        self._bids.stands_back = self._reach.stands_back(others)
        self.news.hands_over(unreached, needs)
        self.news.lacks(self.process.lacks, needs)
        return shard_duties(
            me,
            self._bids,
            [
                each.as_shard._replace(
                    is_needed=each.shard in needed or self._is_left(each),
                    is_unreached=each.shard in unreached,
                    ability=self.ability.of(each.shard),
                    lacks=self.process.lack_counts.get(each.shard, 0),
                    owner_lacks=self._elsewhere.of(each.owner, each.shard),
                )
                for each in seen.leases
            ],
            needs.pairs,
            others=others,
            at_work=list(self._engines),
            busy=[number for number, each in self._engines.items() if each.is_busy],
            at=self.owner.elapsed(),
        )

    def _is_left(self, lease: LeaseRow) -> bool:
        """Whether a process that was declared dead has left it, and nobody has been there for long enough since: what
        that one did last may be in no sample.
        """
        if lease.owner == self.owner.number:
            return not self.owner.is_settled(lease.as_taken)
        return lease.left_at is not None

    def _end_outgrown(self, needs: ShardNeeds) -> None:
        """Ends those whose shards have more endpoints than they know of: whoever said so heard no answer."""
        for number, engine in self._engines.items():
            if not all(engine.scope.has(place.endpoint) for place in needs.of(number)):
                engine.end()

    async def _change_hands(self, due: ShardDuties, needs: ShardNeeds) -> bool:
        """Does what is due between processes, and begins engines; returns whether more is due at once."""
        held = {taken.shard: taken for taken in self.owner.shards}
        for number in due.give:
            await self.owner.give(held[number])
        for pair in due.merge:
            await self.owner.merge(pair)
        for number in due.ask_for:
            await self.owner.ask_for(number)
        if due.take:
            await self.owner.take(due.take)
        taken = {each.shard: each for each in self.owner.shards}
        for number in shards_to_begin(taken, needs.pairs, self._engines):
            self._begin(number, needs, is_successor=taken[number].was_left)
        return bool(due.merge)

    def _begin(self, number: int, needs: ShardNeeds, *, is_successor: bool) -> None:
        scope = Scope(
            (place.endpoint for place in needs.of(number)),
            is_keeper=number == KEEPERS,
            is_successor=is_successor,
            join=lambda endpoint: self._join(engine, endpoint),
        )
        engine = ShardEngine(
            shard=number,
            process=self.process,
            scope=scope,
            begin=self.begin,
        )
        self._engines[number] = engine
        self._tasks.start_soon(self._serve, engine)

    async def _serve(self, engine: ShardEngine) -> None:
        """Once the process is to end, others go on with a shard as soon as its engine has ended: they do not wait for
        the rest of the process.
        """
        await engine.serve()
        if not self.stop.is_set() or self.owner.why_lost is not None:
            return
        async with self._changing:
            given = [taken for taken in self.owner.shards if taken.shard == engine.shard]
            try:
                for taken in given:
                    await self.owner.give(taken)
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("shard %s is let go of with the process: %s", engine.shard, error)

    async def _leave_the_rest(self) -> None:
        """Others go on at once with what is left to us or ours and has no engine, or not any more."""
        if self.owner.why_lost is not None:
            return
        async with self._changing:
            at_work = [number for number, each in self._engines.items() if not each.has_ended]
            held = {taken.shard: taken for taken in self.owner.shards}
            try:
                await self.owner.ask_for_nothing()
                for number in shards_to_begin(held, [], at_work):
                    await self.owner.give(held[number])
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("what is left to this process is so until it has ended: %s", error)

    # --- an endpoint that a run comes to have

    async def _join(self, engine: ShardEngine, endpoint: int) -> None:
        """A run of that engine is to have that endpoint, too. One at which nobody has ever worked becomes part of its
        shard at once, and so does one that this process has taken meanwhile. Raises `UsageError` for any other one:
        that is merged once no engine works there (`merging`).
        """
        async with self._changing:
            try:
                seen, needs = await self.owner.look(), await self.owner.needs(anew=True)
                [place] = [each for each in needs.places if each.endpoint == endpoint]
                [lease] = [each for each in seen.leases if each.shard == place.shard]
                is_idle = lease.owner == self.owner.number and lease.shard not in self._engines
                if lease.epoch == 0:
                    await self.owner.take([lease.shard])
                if lease.epoch == 0 or (is_idle and lease.left_at is None):
                    await self._take_in(engine, lease.shard)
            except Exception as error:
                raise UsageError(f"endpoint {endpoint}: who serves it is unknown just now: {error}") from error
        if engine.scope.has(endpoint):
            return
        by = seen.processes.get(lease.owner or 0)
        who = "it is about to be" if by is None or by.id == self.owner.number else f"{by.name} is asked to let it be"
        raise UsageError(f"the endpoint {place.name} is served apart from this run: {who} served together")

    async def _take_in(self, engine: ShardEngine, shard: int) -> None:
        """That one, which was just taken, becomes part of the shard of `engine`, if it is ours."""
        held = {taken.shard for taken in self.owner.shards}
        if shard not in held or self._engines.get(engine.shard) is not engine:
            return
        pair = Pair(*sorted((engine.shard, shard)))
        await self.owner.merge(pair)
        if pair.high not in {taken.shard for taken in self.owner.shards}:
            del self._engines[engine.shard]
            engine.shard = pair.low
            self._engines[pair.low] = engine
            engine.scope.add(place.endpoint for place in (await self.owner.needs(anew=True)).of(pair.low))
