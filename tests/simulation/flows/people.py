"""The people of a world with flows: somebody records the pipeline, and somebody looks after each flow: asks for it, has
what has failed tried again, and has it go on, until all of it has succeeded.
"""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from orchestrator.api.flows.flows import flow_show
from orchestrator.api.flows.triggers import flow_rerun, trigger
from orchestrator.api.runs.process_commands import beside, control, retry
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Schedule, Stage
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.command_requests import ControlAction
from orchestrator.units import DAY_US
from orchestrator.views.flows import FlowShown
from tests.simulation.compact import compact
from tests.simulation.facts import Facts
from tests.simulation.flows.plan import PIPELINE, FlowsPlan
from tests.simulation.process import Process
from tests.simulation.world import ENDPOINT, SECOND_ENDPOINT

AGAIN_S: Final = 2.0
"""After so long somebody who was told nothing gives the command again."""

Act = Callable[[Process], Awaitable[None]]


def pipeline_of(plan: FlowsPlan, folder: Path) -> Pipeline:
    """As its file would have it."""
    first = Stage(name="first", from_=(INPUT,), settings={"endpoint": (ENDPOINT,)})
    between = Stage(name="between", from_=("first",), command=("cat", "{file:first}"), needs=plan.needs)
    last = Stage(
        name="last", from_=("between" if plan.has_command else "first",), settings={"endpoint": (SECOND_ENDPOINT,)}
    )
    return Pipeline(
        name=PIPELINE,
        folder=str(folder),
        input=f"{PIPELINE}-{{fire:%M}}.jsonl",
        schedule=Schedule(every_us=365 * DAY_US, parallel=plan.side_by_side),
        stages=(first, between, last) if plan.has_command else (first, last),
    )


async def record_once(ledger: Ledger, pipeline: Pipeline) -> None:
    """Records it, unless whoever was told nothing of it has done so."""
    if await ledger.flows.pipelines.named(pipeline.name) is None:
        await ledger.flows.pipelines.define(pipeline, now=ledger.now(), before=None)


class FlowPeople:
    """They `act` each time by a process of its own."""

    def __init__(self, facts: Facts, plan: FlowsPlan, act: Callable[[Act], Awaitable[None]]) -> None:
        self._facts = facts
        self._plan = plan
        self._act = act
        self._is_recorded = False
        self._names: dict[int, str] = {}
        """What the flows are called that somebody has asked for."""
        self._carried_out_again: set[int] = set()
        self._succeeded: set[int] = set()

    async def live(self) -> None:
        """Returns once all of each flow has succeeded."""
        while not self._is_recorded:
            await self._act(self._telling(self._record))
        async with anyio.create_task_group() as tasks:
            for number, at_s in enumerate(self._plan.asked_s):
                tasks.start_soon(self._look_after, number, at_s)

    def _telling(self, act: Act) -> Act:
        """It, and what a person is told where it comes to nothing."""

        async def do(process: Process) -> None:
            try:
                await act(process)
            except (UsageError, StorageError) as error:
                self._say(str(error))

        return do

    def _say(self, text: str) -> None:
        self._facts.said.append(text)
        self._facts.trace.say("person", text)

    async def _record(self, process: Process) -> None:
        pipeline = pipeline_of(self._plan, self._facts.folder)
        for number, _ in enumerate(self._plan.asked_s):
            rows = ({"custom_id": f"job-{n}", "input": {"n": n}} for n in self._plan.numbers(number))
            path = self._facts.folder / f"{PIPELINE}-{number:02}.jsonl"
            await anyio.Path(path).write_bytes(b"".join(compact(row) + b"\n" for row in rows))
        async with beside(self._facts.address, process.dependencies()) as ledger:
            await record_once(ledger, pipeline)
        self._is_recorded = True

    async def _look_after(self, number: int, at_s: float) -> None:
        await anyio.sleep_until(at_s)
        while number not in self._names:
            await self._act(self._telling(partial(self._ask_for, number)))
            await anyio.sleep(AGAIN_S)
        chance = random.Random(f"flow {self._facts.plan.seed} {number}")
        while number not in self._succeeded:
            await anyio.sleep(chance.uniform(*self._plan.are_looked_at_s))
            await self._act(self._telling(partial(self._go_on, number, chance)))

    async def _ask_for(self, number: int, process: Process) -> None:
        asked = await trigger(self._facts.address, PIPELINE, f"2026-01-01T00:{number:02}:00", process.dependencies())
        [self._names[number]] = asked.flows
        self._say(f"{self._names[number]}: asked for{' again' if asked.known else ''}")

    async def _go_on(self, number: int, chance: random.Random, process: Process) -> None:
        name = self._names[number]
        shown = await flow_show(self._facts.address, name, process.dependencies())
        stages = ", ".join(f"{each.stage} {each.done} of {each.rows_in}, {each.failed} failed" for each in shown.stages)
        self._say(f"{name} is {shown.flow.state} {shown.flow.why}: {stages}")
        if shown.flow.state is FlowState.SUCCEEDED:
            await self._end(number, process)
            return
        acts = [partial(self._retry, each.run) for each in shown.stages if each.failed and each.run is not None]
        if shown.flow.state is FlowState.ON_HOLD:
            acts.append(partial(self._control, name, ControlAction.CONTINUE))
        elif shown.flow.state is FlowState.RUNNING and self._is_paused(shown, chance):
            acts.append(partial(self._control, name, ControlAction.PAUSE))
        chance.shuffle(acts)
        for act in acts:
            await self._telling(act)(process)

    async def _end(self, number: int, process: Process) -> None:
        if (stage := self._plan.again_from) is None or number in self._carried_out_again:
            self._succeeded.add(number)
            return
        name, only_failed = self._names[number], self._plan.only_failed
        again = await flow_rerun(
            self._facts.address, name, stage, only_failed=only_failed, dependencies=process.dependencies()
        )
        self._carried_out_again.add(number)
        self._say(f"{name} once more: {', '.join(again.runs)}")

    def _is_paused(self, shown: FlowShown, chance: random.Random) -> bool:
        is_calm = anyio.current_time() > self._facts.plan.calm_at_s
        return not is_calm and bool(shown.stages) and chance.random() < self._plan.paused

    async def _retry(self, run: str, process: Process) -> None:
        told = await retry(self._facts.address, run, process.dependencies())
        self._say(f"retry {run}: {told.outcome}")

    async def _control(self, name: str, action: ControlAction, process: Process) -> None:
        told = await control(self._facts.address, name, action, process.dependencies())
        self._say(f"{action} {name}: {told.outcome}")
