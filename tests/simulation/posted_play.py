"""Plays a plan whose runs are batches that programs post: one process after the other serves them, until all have ended."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.errors import StoppedError
from tests.simulation.plan import Plan
from tests.simulation.play import PROCESSES_MAX, Play
from tests.simulation.posted_facts import PostedFacts
from tests.simulation.posted_front import Front
from tests.simulation.posted_plan import TEAMS
from tests.simulation.posted_programs import Program, listed, made_of
from tests.simulation.process import Process, begin

LOOK_S = 1.0


class PostedPlay(Play):
    """One such plan being played."""

    def __init__(self, plan: Plan, folder: Path, *, traced: bool) -> None:
        super().__init__(plan, folder, traced=traced)
        self.facts.posted = PostedFacts()
        self._front = Front(self.facts)
        self._programs_left = len(() if plan.posted is None else plan.posted.programs)

    def _made_of(self, raw_input: bytes, _number: int) -> WorkerResult:
        return made_of(raw_input)

    def _result_of(self, raw_input: bytes) -> bytes | None:
        return made_of(raw_input).output

    async def _people(self, world: TaskGroup) -> None:
        """Serves again and again until all programs are done, and nothing is open."""
        assert self._plan.posted is not None
        assert self.facts.posted is not None
        for number, each in enumerate(self._plan.posted.programs):
            program = Program(each, number, self._front, self.facts.posted, partial(self.facts.trace.say, "program"))
            begin(world, self.facts, self._program, program)
        while not self._is_done():
            await self._serve_once(world, self._until_done)
        self._front.ages = True
        while len(self.facts.posted.listed) < len(TEAMS):
            await self._serve_once(world, self._list_all)
        self.facts.runs[0].finished = True
        self.facts.runs[0].ended_at = self.facts.true.now()

    async def _program(self, program: Program) -> None:
        await program.live()
        self._programs_left -= 1

    async def _serve_once(self, world: TaskGroup, until: Callable[[Process], Awaitable[None]]) -> None:
        """One process, which is stopped in order `until` that returns, if it lives for so long."""
        run = self.facts.runs[0]
        if run.processes:
            await anyio.sleep(self._plan.away_s)
        run.processes += 1
        assert run.processes < PROCESSES_MAX, "nothing gets on"
        crash = self._crashes.pop(0) if self._crashes else None
        process = Process(self._machine, 0, crash=crash, offset_s=self._plan.offset_s(run.processes - 1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop, process, until)
            await self._live(world, process, self._serve)
            tasks.cancel_scope.cancel()

    async def _stop(self, process: Process, until: Callable[[Process], Awaitable[None]]) -> None:
        await until(process)
        process.stop.set()

    async def _until_done(self, _process: Process) -> None:
        while not self._is_done():  # noqa: ASYNC110  nobody tells
            await anyio.sleep(LOOK_S)

    async def _list_all(self, _process: Process) -> None:
        while not self._front.is_open:  # noqa: ASYNC110  nobody tells
            await anyio.sleep(LOOK_S)
        assert self.facts.posted is not None
        for team in TEAMS:
            self.facts.posted.listed[team] = await listed(self._front, team)

    async def _serve(self, process: Process) -> None:
        try:
            async with self._stopping(process):
                await self._front.serve(process)
        except StoppedError as error:
            self.facts.said.append(str(error))

    def _is_done(self) -> bool:
        return self._programs_left == 0 and not open_batches(self.facts.ledger)


def open_batches(ledger: Path) -> int:
    """How many have not ended."""
    query = f"SELECT count(*) FROM posted_batches WHERE state NOT IN ({', '.join('?' * len(POSTED_ENDS))})"
    with closing(sqlite3.connect(ledger)) as db:
        return int(db.execute(query, tuple(POSTED_ENDS)).fetchone()[0])
