"""Looks at the schedules, begins the flows whose turn has come, and follows each to its end by its own version.

It waits no longer than half a minute, so that it is seen when the machine has slept or its clock was set.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.clock import Clock
from orchestrator.core.pipelines.flow_lifecycle import BEGUN
from orchestrator.core.pipelines.overlap_policy import startable
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.text.next_step import Wording
from orchestrator.engine.flows.flow_executor import FlowExecutor, FlowFiles
from orchestrator.engine.flows.flow_notifier import FlowNotifier
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)


class Firing(Enum):
    """When the schedules are looked at."""

    ALWAYS = "always"
    ONCE = "once"
    """At once, and then when somebody asks for it."""

    ASKED = "asked"
    """Only then; flows that are there already are carried out."""

    HANDED_OVER = "handed-over"
    """Only then, and until then flows are not carried out either."""


LOOK_S: Final = 30.0
"""It looks at least as often."""


@dataclass(kw_only=True, eq=False)
class Scheduler:
    """Of one ledger, whose engine it is a part of."""

    ledger: Ledger
    clock: Clock
    files: FlowFiles
    runs: StageRuns
    relay: RowHandover
    notifier: FlowNotifier
    say: Callable[[str], None]
    warn: Callable[[str], None]
    word: Wording
    """Words what people can do."""

    firing: Firing
    _works: dict[int, FlowExecutor] = field(init=False, default_factory=dict)
    _tasks: TaskGroup = field(init=False)
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _settled: anyio.Event = field(init=False, default_factory=anyio.Event)
    _is_to_look: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.changes = 0
        """How often a flow has come to stand otherwise."""

        self.looker = ScheduleEvaluator(ledger=self.ledger, say=self.say, warn=self.warn, word=self.word)
        self._is_to_look = self.firing in (Firing.ALWAYS, Firing.ONCE)

    def on_change(self) -> None:
        """Flows may have been asked for, or stand otherwise."""
        self._wakeup.wake()

    def take_up(self, firing: Firing) -> None:
        """Carries out flows from now on, and with `ALWAYS` fires, too."""
        if firing is Firing.ALWAYS or self.firing is Firing.HANDED_OVER:
            self.firing = firing
            self.notifier.is_at_work = True
        self.on_change()

    def fire_no_more(self) -> None:
        """Ends what `take_up` of `ALWAYS` began; flows are still carried out."""
        self.firing = Firing.ASKED

    def tick(self) -> None:
        """Looks, and carries out what is due."""
        self._is_to_look = True
        self.take_up(Firing.ASKED)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled. It has looked once when it has started."""
        async with anyio.create_task_group() as self._tasks:
            await self._poll()
            task_status.started()
            await keep_polling(self._poll, self._wakeup, at_least_every_s=LOOK_S)

    async def until_idle(self) -> None:
        """Waits until nothing is left that could be done before somebody does something, or a schedule fires."""
        while not self.is_idle:
            await self.change(self.changes)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left that could be done, as `until_idle` waits for."""
        return not self._wakeup.has_news and all(work.is_stuck for work in self._works.values())

    async def change(self, seen: int) -> None:
        """Waits until a flow stands otherwise than after so many `changes`."""
        while self.changes == seen:
            await self._settled.wait()

    @property
    def stuck(self) -> list[FlowExecutor]:
        """The flows of which nothing comes before somebody does something."""
        return [work for work in self._works.values() if work.is_stuck]

    async def _poll(self) -> float:
        if self.firing is Firing.HANDED_OVER:
            return LOOK_S
        try:
            return await self.run_once()
        except StorageError as error:
            log.warning("the schedules could not be looked at: %s", error)
            return POLL_S_MAX

    async def run_once(self) -> float:
        """One look; returns the seconds until the next one."""
        now, next_us = self.clock.now(), None
        if self.firing is Firing.ALWAYS or self._is_to_look:
            self._is_to_look = False
            next_us = (await self.looker.look(now)).next_us
        if self.firing is not Firing.ALWAYS:
            next_us = None
        ahead = [await self._go_on(now), next_us]
        self.notifier.on_change()
        self.settled()
        soonest = min((at for at in ahead if at is not None), default=None)
        return LOOK_S if soonest is None else max(0.0, (soonest - self.clock.now()) / SECOND_US)

    async def _go_on(self, now: int) -> int | None:
        """Begins and goes on with what may, and ends what is to end; returns when the next flow is due."""
        live = await self.ledger.flows.live()
        if not live:
            return None
        await self._begin(live, now)
        begun = await self.ledger.flows.live()
        definitions = await self.ledger.flows.pipelines.definitions(flow.definition for flow in begun)
        for flow in begun:
            await self._tell_if_late(flow, definitions[flow.definition])
            if flow.state in BEGUN:
                await self._follow(flow, definitions[flow.definition])
        return min((flow.due_at for flow in begun if flow.due_at > now), default=None)

    async def _begin(self, live: list[Flow], now: int) -> None:
        """The flows whose turn has come begin: by what is applied now, not by what each was recorded with."""
        latest = {each.id: each.pipeline.schedule for each in await self.ledger.flows.pipelines.all()}
        of_pipeline: defaultdict[int, list[Flow]] = defaultdict(list)
        for flow in live:
            of_pipeline[flow.pipeline].append(flow)
        begin: list[int] = []
        for pipeline, flows in of_pipeline.items():
            schedule = latest.get(pipeline)
            begin += startable(1 if schedule is None else schedule.parallel, [flow.live for flow in flows], now)
        if begin:
            await self.ledger.flows.start(begin)

    async def _follow(self, flow: Flow, pipeline: Pipeline) -> None:
        """Goes on with a flow, of which a process before may have done a part."""
        work = self._works.get(flow.id)
        if work is None:
            work = self._works[flow.id] = FlowExecutor(
                flow=flow,
                pipeline=pipeline,
                ledger=self.ledger,
                files=self.files,
                runs=self.runs,
                relay=self.relay,
                notifier=self.notifier,
                say=self.say,
                warn=self.warn,
                word=self.word,
                changed=self.settled,
            )
            self._tasks.start_soon(self._carry_out, work)
        work.stands(flow)
        if flow.is_cancelled:
            await work.cancel()

    async def _carry_out(self, work: FlowExecutor) -> None:
        self.say(f"{work.flow.name} has begun")
        try:
            await work.carry_out()
        finally:
            self._works.pop(work.flow.id, None)
            self.on_change()  # the next one may begin

    def settled(self) -> None:
        """Has whoever waits for a change look again."""
        self.changes += 1
        self._settled.set()
        self._settled = anyio.Event()

    async def _tell_if_late(self, flow: Flow, pipeline: Pipeline) -> None:
        if flow.is_late or (late := flow.why_late(pipeline.schedule, self.clock.now())) is None:
            return
        why = f"it {late}"
        if await self.ledger.flows.tell_late(flow.id, why):
            self.warn(f"{flow.name} is late: {why}")
