"""Plays a plan in which several engines share a ledger on a server: they serve, one or more at a time, and people give
their commands beside them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import httpx
from anyio.abc import TaskGroup

from orchestrator.api.foreground.serve import serve
from orchestrator.api.runs.process_commands import beside
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Schedule, Stage
from orchestrator.errors import IntakeBusyError, StorageError
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.units import DAY_US, SECOND_US
from tests.simulation.console import Console
from tests.simulation.engines.blocked import Onlooker, looking_at
from tests.simulation.engines.books import copy_books, owners_of, watch_owners
from tests.simulation.engines.door import Lines
from tests.simulation.engines.facts import EVERY_US, EnginesFacts, Sent
from tests.simulation.engines.plan import Befalls, EnginesPlan, Trouble
from tests.simulation.engines.process import Ground, ServerProcess
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.flows.checks import set_flows_apart
from tests.simulation.flows.people import Act, FlowPeople, record_once
from tests.simulation.loop import PART
from tests.simulation.plan import Crash, Plan
from tests.simulation.play import Play
from tests.simulation.process import Process, begin
from tests.simulation.run_command import connection_of
from tests.simulation.world import ENDPOINT

STOPPED_S_MAX: Final = 60.0
TAKEN_UP_S: Final = 2.0
"""How long whoever has become the keeper may need to look after what is due."""

FAREWELL_S: Final = 1.0
"""Until the server has heard of the end of all connections."""

STATE: Final = "XDG_STATE_HOME"


class EnginesPlay(Play):
    """One such plan being played, on the empty ledger in the database at `url`."""

    def __init__(self, plan: Plan, folder: Path, url: str, *, traced: bool) -> None:
        super().__init__(plan, folder, traced=traced)
        assert plan.engines is not None
        assert self.facts.engines is not None
        self._drawn: EnginesPlan = plan.engines
        self._known: EnginesFacts = self.facts.engines
        self._url = url
        self.facts.address = parse_ledger_url(url)
        self._folder = folder
        self._onlooker: Onlooker
        self._ground: Ground
        self._engines: dict[int, ServerProcess] = {}
        self._is_over = False

    def play(self) -> Facts:
        """As it says there; the ledger is in a file afterwards."""
        with _state_in(self._folder / "state"), looking_at(self._url) as self._onlooker:
            watch_owners(self._onlooker)
            try:
                facts = super().play()
            finally:
                self._known.owned = owners_of(self._onlooker)
            copy_books(self._onlooker, facts.ledger)
        if self._drawn.flows is not None:
            set_flows_apart(facts)
        facts.lives = sorted(span for each in self._known.processes for span in each.worked(facts.true.now()))
        return facts

    def _left(self, request: httpx.Request) -> None:
        super()._left(request)
        sender = PART.get()
        if isinstance(sender, ServerProcess):
            endpoint, _, operation = request.url.path.partition("/v2/")[2].partition("/")
            place = f"{request.url.host}/{endpoint}"
            self._known.sent.append(Sent(self.facts.true.now(), sender.known.mark, place, operation.partition("/")[0]))

    def _process(self, run: int, *, crash: Crash | None = None, offset_s: float = 0.0) -> Process:
        return ServerProcess(self._ground, run, crash=crash)

    async def _people(self, world: TaskGroup) -> None:
        self._ground = Ground(self._machine, self._url, Lines(self._onlooker.blocked))
        for number, begin_s in enumerate(self._drawn.begin_s):
            begin(world, self.facts, self._keep, world, number, begin_s)
        begin(world, self.facts, self._have_fired, world)
        for each in self._drawn.befalls:
            begin(world, self.facts, self._befall_engine, each)
        await anyio.sleep(self._drawn.people_s)
        async with anyio.create_task_group() as people:
            if self._drawn.flows is not None:
                people.start_soon(FlowPeople(self.facts, self._drawn.flows, partial(self._act, world)).live)
            await super()._people(world)
        await self._end_in_order()
        self._is_over = True
        with anyio.move_on_after(STOPPED_S_MAX):
            for process in self._engines.values():
                process.stop.set()
                await process.ended.wait()
        await anyio.sleep(FAREWELL_S)

    async def _end_in_order(self) -> None:
        """Returns once all who had a part of the ledger have ended as they should, and have written down how all stands."""
        while True:
            await anyio.sleep(TAKEN_UP_S)
            owners = [each for each in self._engines.values() if each.known.owns]
            if not any(owner.is_keeper for owner in owners):
                continue
            for owner in owners:
                owner.stop.set()
            for owner in owners:
                await owner.ended.wait()
            if not any(owner.is_dead for owner in owners):
                return
            self._known.is_last_word_missing = True

    async def _act(self, world: TaskGroup, act: Act) -> None:
        """Somebody does that, by a process of its own."""
        await self._live(world, ServerProcess(self._ground, 0), act)

    async def _run(self, run: RunFacts, process: Process) -> None:
        try:
            await super()._run(run, process)
        except (StorageError, IntakeBusyError) as error:  # who gives the command again
            self.facts.said.append(str(error))
            self.facts.trace.say("program", f"{process} ended: {error}")

    # --- schedules

    async def _have_fired(self, world: TaskGroup) -> None:
        """Somebody records a pipeline, whose flows wait for an input that never comes."""
        while self._known.scheduled_at is None:
            await self._act(world, self._schedule)

    async def _schedule(self, process: Process) -> None:
        pipeline = Pipeline(
            name="ticks",
            folder=str(self._folder),
            input="never.jsonl",
            wait_for_input_us=DAY_US,
            schedule=Schedule(every_us=EVERY_US),
            stages=(Stage(name="only", from_=(INPUT,), settings={"endpoint": (ENDPOINT,)}),),
        )
        try:
            async with beside(self.facts.address, process.dependencies()) as ledger:
                now = ledger.now()
                await record_once(ledger, pipeline)
                self._known.scheduled_at = now
        except StorageError as error:
            self.facts.trace.say("person", f"nothing was recorded: {error}")

    # --- engines

    async def _keep(self, world: TaskGroup, number: int, begin_s: float) -> None:
        """Has that engine work, and begin again whenever it has ended."""
        await anyio.sleep_until(begin_s)
        while not self._is_over:
            crash = self._crashes.pop(0) if self._crashes else None
            process = ServerProcess(self._ground, 0, crash=crash, drift=self._drawn.drifts[number])
            process.known.is_engine = True
            self._engines[number] = process
            await self._live(world, process, self._serve)
            await anyio.sleep(self._drawn.again_s)

    async def _serve(self, process: Process) -> None:
        facts = self.facts
        run = facts.runs[0]
        request = ServeRequest(ledger=facts.address, connection=connection_of(self._plan, run.plan))
        try:
            await serve(request, Console(facts, run), process.dependencies(), process.stop)
        except StorageError as error:
            facts.said.append(str(error))
            facts.trace.say("program", f"{process} ended: {error}")

    async def _befall_engine(self, each: Befalls) -> None:
        await anyio.sleep_until(each.at_s)
        process = self._latest_sender() if each.who is None else self._engines.get(each.who)
        if process is None or process.ended.is_set():
            return
        self.facts.trace.say("world", f"{each.trouble} for {each.size:g} s befalls {process}")
        self._known.befell.append((self.facts.true.now(), process.known.mark, each))
        match each.trouble:
            case Trouble.KILLED:
                self._machine.kill(process)
            case Trouble.ASKED:
                process.stop.set()
            case Trouble.FROZEN:
                await process.freeze(each.size)
            case Trouble.CLOCK:
                process.wall_us += round(each.size * SECOND_US)
            case _:
                await process.be_cut_off(
                    each.size,
                    ledger=each.trouble is not Trouble.NO_SERVICE,
                    service=each.trouble is not Trouble.NO_LEDGER,
                )
        self.facts.trace.say("world", f"{each.trouble} of {process} is over")

    def _latest_sender(self) -> ServerProcess | None:
        """Whichever of those that are there has sent last."""
        there = {each.known.mark: each for each in self._engines.values()}
        return next((there[each.process] for each in reversed(self._known.sent) if each.process in there), None)


@contextmanager
def _state_in(folder: Path) -> Iterator[None]:
    """The program keeps what is of this machine in that folder."""
    before = os.environ.get(STATE)
    os.environ[STATE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(STATE)
        if before is not None:
            os.environ[STATE] = before
