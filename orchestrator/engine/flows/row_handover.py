"""Hands rows from stage to stage: what has ended becomes rows of the next stage, while upstream goes on.

What is owed stands in the ledger, and is handed over and no longer owed in one transaction. So a process that dies in
between has called functions for nothing, and no more.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.core.pipelines.stage_graph import is_enough
from orchestrator.core.text.local_time import local
from orchestrator.engine.flows.row_mapper import FolderAway, Made, RowMapper
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.groups import Group, GroupMember
from orchestrator.ledger.flows.handover_rows import HandedOver, Relay
from orchestrator.ledger.runs.runs import TellCounts
from orchestrator.units import MIB, SECOND_US

log = logging.getLogger(__name__)

ROWS_MAX: Final = 500
"""So many rows are handed over by one transaction."""

GROUPS_MAX: Final = 100
"""So many groups are looked at together."""

GROUP_BYTES_MAX: Final = 256 * MIB
"""So much can be gathered for one call: all of it is in memory then."""

AWAY_S: Final = 5.0
"""How often it is looked again whether the folder of a pipeline is there."""

SLOW_S: Final = 60.0
"""A function that has not returned after so long is told of."""


Result = TypeVar("Result")


class MakesRows(Protocol):
    """Knows what makes the rows of a stage."""

    def row_maker(self, pipeline: Pipeline, stage: Stage) -> RowMapper:
        """What makes the rows of this stage."""
        ...


@dataclass(kw_only=True, eq=False)
class RowHandover:
    """Of one ledger."""

    ledger: Ledger
    files: MakesRows
    session_of: Callable[[int], ServedRun | None]
    warn: Callable[[str], None]
    _makers: dict[int, RowMapper] = field(init=False, default_factory=dict)
    """By the run that is handed the rows."""

    _lanes: TaskGroup = field(init=False)
    """One task for each run that is handed rows: a function that never returns holds up no other."""

    _feeding: frozenset[int] = field(init=False, default=frozenset())
    """The runs whose rows go on to others: in most ledgers there are none, and the ends of jobs are no news here."""

    _has_news: bool = field(init=False, default=True)
    _busy: set[int] = field(init=False, default_factory=set)
    _let_through: set[int] = field(init=False, default_factory=set)
    _on_complete: dict[int, Callable[[], None]] = field(init=False, default_factory=dict)
    """By run what is called once its group of everything is complete."""

    _under_way: set[int] = field(init=False, default_factory=set)
    _away: dict[int, str] = field(init=False, default_factory=dict)
    """By run why rows wait for a machine that has the folder of their pipeline."""

    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)

    def is_handing_over_to(self, run: int) -> bool:
        """Whether rows are on their way to `run` that its session may not have counted yet."""
        return run in self._under_way

    def why_away(self, run: int) -> str | None:
        """Why rows wait that are owed to `run`, though their time has come; None where none do."""
        return self._away.get(run)

    def wake(self) -> None:
        """Something may be owed, also by runs that fed no other before."""
        self._has_news = True
        self._wakeup.wake()

    def tell_once_complete(self, run: int, tell: Callable[[], None]) -> None:
        """Has `tell` called whenever nothing of the group of everything is open any more that goes to `run`."""
        self._on_complete[run] = tell

    def let_through(self, run: int) -> None:
        """The group of everything may go to `run`, once nothing of it is open."""
        self._let_through.add(run)
        self.wake()

    def leave(self, run: int) -> None:
        """Nobody wants what is handed over to `run` any more: a function that never returns keeps nobody waiting."""
        if run in self._busy and (maker := self._makers.get(run)) is not None:
            maker.leave()

    def forget(self, run: int) -> None:
        """Nothing more is to be handed over to `run`, as far as can be told."""
        if (maker := self._makers.pop(run, None)) is not None:
            maker.leave()
        self._let_through.discard(run)
        self._on_complete.pop(run, None)
        self._away.pop(run, None)

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        ended = (step for step in taken if is_terminal(step.after) or step.event is Event.REOPENED)
        if self._feeding and any(step.after.run in self._feeding for step in ended):
            self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hands over until cancelled."""
        async with anyio.create_task_group() as self._lanes:
            task_status.started()
            await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def _poll(self) -> float:
        try:
            await self.run_once()
        except StorageError as error:
            log.warning("rows could not be handed over: %s", error)
            return POLL_S_MAX
        return SELDOM_S

    async def run_once(self) -> None:
        """Has all that is owed handed over, to each run by a task of its own."""
        if self._has_news or not self._feeding:
            self._has_news = False
            self._feeding = await self.ledger.flows.handovers.feeding()
            if not self._feeding:
                return
        relays = {relay.to_run: relay for relay in await self.ledger.flows.handovers.relays_owed()}
        kept_back = self._on_complete.keys() - self._let_through
        complete = set(await self.ledger.flows.groups.runs_ready(self._let_through | kept_back))
        for run in complete & kept_back & self._on_complete.keys():  # some may be forgotten meanwhile
            self._on_complete[run]()
        ready = complete - kept_back - relays.keys()
        relays |= await self.ledger.flows.handovers.relays_to(ready) if ready else {}
        for to_run, relay in relays.items():
            if to_run not in self._busy:
                self._busy.add(to_run)
                self._lanes.start_soon(self._serve_lane, relay)

    async def _serve_lane(self, relay: Relay) -> None:
        """Until nothing is owed to one run."""
        try:
            while await self._hand_over(relay) or await self._hand_over_groups(relay):
                pass
            self._is_away(relay, None)
        except FolderAway as away:
            self._is_away(relay, str(away))
            await anyio.sleep(AWAY_S)
        except StorageError as error:
            log.warning("rows could not be handed over: %s", error)
            await anyio.sleep(POLL_S_MAX)
        finally:
            self._busy.discard(relay.to_run)
            self.wake()  # for what became owed while it was busy

    def _is_away(self, relay: Relay, why: str | None) -> None:
        before = self._away.pop(relay.to_run, None)
        if why is not None:
            self._away[relay.to_run] = why
        if why != before and (session := self.session_of(relay.to_run)) is not None:
            session.progress.nudge()

    async def _hand_over(self, relay: Relay) -> bool:
        """A page of rows; False where there are none."""
        page = await self.ledger.flows.handovers.owed(relay.to_run, ROWS_MAX)
        if not page:
            return False
        done = [HandedOver(each) for each in page]
        if not self._is_cancelled(relay):
            maker = await self._maker(relay)
            done = await self._in_thread(relay, maker, partial(maker.made, page))
        async with self._arriving(relay) as tell:
            await self.ledger.flows.handovers.hand_over(relay, done, tell)
        return True

    @asynccontextmanager
    async def _arriving(self, relay: Relay) -> AsyncIterator[TellCounts | None]:
        """While rows come, which the session of their run, where it has one, counts in the transaction that they come
        with.
        """
        session = self.session_of(relay.to_run)
        self._under_way.add(relay.to_run)
        try:
            yield None if session is None else session.progress.recount
        finally:
            self._under_way.discard(relay.to_run)
        if session is not None:
            await session.jobs_came()

    def _is_cancelled(self, relay: Relay) -> bool:
        session = self.session_of(relay.to_run)
        return session is not None and session.controls.cancel

    async def _maker(self, relay: Relay) -> RowMapper:
        if relay.to_run not in self._makers:
            [pipeline] = (await self.ledger.flows.pipelines.definitions([relay.definition])).values()
            self._makers[relay.to_run] = self.files.row_maker(pipeline, pipeline.stage(relay.stage))
        return self._makers[relay.to_run]

    async def _in_thread(self, relay: Relay, maker: RowMapper, work: Callable[[], Result]) -> Result:
        """In a thread of its own, for which nobody waits when we are cancelled: the function may never return."""
        try:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._tell_if_slow, relay, maker)
                try:
                    done = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
                except BaseException:
                    maker.leave()  # the function may never return
                    raise
                watching.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            raise leading(error) from None
        return done

    async def _tell_if_slow(self, relay: Relay, maker: RowMapper) -> None:
        told = None
        while True:
            await anyio.sleep(SLOW_S)
            call = maker.call
            if call is None or call == told or self.ledger.now() - call.since < SLOW_S * SECOND_US:
                continue
            told = call
            since = local(call.since, "UTC")
            self.warn(
                f"{maker.stage.step} of {relay.stage} was called with {call.custom_id} at {since} and has not returned:"
                " no row goes to this stage until it does"
            )

    # --- groups

    async def _hand_over_groups(self, relay: Relay) -> bool:
        """Groups that are ready; False where none was handed over."""
        if not relay.is_gathering:
            return False
        done = 0
        for group in await self.ledger.flows.groups.ready(relay.to_run, GROUPS_MAX):
            if not group.is_all or relay.to_run in self._let_through:
                done += await self._hand_over_group(relay, group)
        return done > 0

    async def _hand_over_group(self, relay: Relay, group: Group) -> bool:
        members = await self.ledger.flows.groups.members(group)
        made = Made() if self._is_cancelled(relay) else await self._gathered(relay, group, members)
        async with self._arriving(relay) as tell:
            return await self.ledger.flows.groups.hand_over(
                relay, group, members, made.rows, error=made.error, tell=tell
            )

    async def _gathered(self, relay: Relay, group: Group, members: Sequence[GroupMember]) -> Made:
        maker = await self._maker(relay)
        given = [each for each in members if each.is_in]
        if not group.is_all and (why := _too_few(maker.stage, group, members)) is not None:
            return Made(error=why)
        if not given:
            return Made()
        rows, size = [], 0
        for start in range(0, len(given), ROWS_MAX):
            found = await self.ledger.flows.handovers.rows([each.job for each in given[start : start + ROWS_MAX]])
            size += sum(len(each.stored_input) + len(each.stored or b"") for each in found)
            rows += found
            if size > GROUP_BYTES_MAX:
                return Made(
                    error=f"the rows of {group.key} are over {GROUP_BYTES_MAX // MIB} MiB: too much for one call"
                )
        stages = await self.ledger.flows.handovers.stage_names({each.run for each in given})
        by_job = {each.job: each for each in rows}
        named = [(stages.get(each.run, ""), by_job[each.job]) for each in given if each.job in by_job]
        return await self._in_thread(relay, maker, partial(maker.gathered, group.key, group.line, named))


def _too_few(stage: Stage, group: Group, members: Sequence[GroupMember]) -> str | None:
    """Why a group is not handed over as it is."""
    succeeded, failed = sum(each.is_in for each in members), sum(each.is_lost for each in members)
    if is_enough(stage.needs, succeeded=succeeded, failed=failed):
        return None
    return f"{failed:,} of the {succeeded + failed:,} rows that came of {group.key} have failed, more than needs allows"
