"""Plays a plan: the whole program against the simulated services, process after process or side by side, until every
run is finished.

People work on runs: they give the command, and give it again whenever its process has ended before the run has. Others
ask something of a run now and then, from processes of their own.
"""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx
from anyio.abc import TaskGroup

from orchestrator.api.admin.tidy import tidy
from orchestrator.api.foreground.run import run as run_program
from orchestrator.api.messages.message_resend import resend_now
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS as SERVICE_LIMITS
from orchestrator.emulator.contract.limits import JobOperation as ServiceOperation
from orchestrator.emulator.contract.limits import OperationLimit as ServiceLimit
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.units import SECOND_US
from tests.simulation.account import SimulatedAccount
from tests.simulation.asker import Asker
from tests.simulation.chunks import ChunkWorker, rows_in
from tests.simulation.console import BRAKES, Console, Log
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.fates import FateBook, ForgetfulWorld
from tests.simulation.long_work import LongWork
from tests.simulation.loop import running_loop
from tests.simulation.network import Network
from tests.simulation.plan import Crash, FailureClass, Plan, Rate, Weather, Word
from tests.simulation.pods import SimulatedPods
from tests.simulation.pool import MemberFleets
from tests.simulation.process import Machine, Process, begin, may_break_down
from tests.simulation.receivers import Receivers
from tests.simulation.run import run_until_crash
from tests.simulation.run_command import connection_of, hosts_of, request_of, write_input
from tests.simulation.saves import is_to_be_saved, put_strangers_files, take_the_folder_away
from tests.simulation.scaled import Scale
from tests.simulation.stranger import live_beside
from tests.simulation.world import (
    ENDPOINT,
    HERE,
    POOL_ENDPOINTS,
    SECOND_ENDPOINT,
    SimulatedService,
    input_in,
)

BEFALLS = frozenset({FailureClass.ASLEEP, FailureClass.INTERRUPT})
"""What happens to processes at a time of its own."""

PASSING = (*POINTLESS.values(), "cannot be given the workers", "no pod was asked for", "is no folder")
"""What is said where a command is refused, and given again."""

LONGER = 4
"""So many times as long as others does a resumable job take."""

CALM_S = 120.0
TIDIES_MAX = 4
TIDY_AGAIN_S = 150.0
"""A request for a pod whose answer was lost is in doubt for two minutes."""

PROCESSES_MAX = 60
"""So many processes for one run are taken for a program that does not get on."""


class Play:
    """One plan being played."""

    def __init__(self, plan: Plan, folder: Path, *, traced: bool) -> None:
        facts = self.facts = Facts(plan, folder, traced=traced)
        self._plan = plan
        self._crashes = list(plan.crashes)
        self._chunks = None if plan.chunks is None else ChunkWorker(plan, facts.output_of)
        self._services = {host: self._made_service(host) for host in hosts_of(plan)}
        if plan.scaling is not None:
            facts.account = SimulatedAccount(plan, self._services[HERE], facts.true)
        if plan.pods is not None:
            facts.pods = SimulatedPods(plan.pods, plan, self._services[HERE], facts.true, facts.ledger)
        facts.gates = [service.gate for service in self._services.values()]
        facts.counts = [service.counts for service in self._services.values()]
        facts.batches_here = self._services[HERE].batches
        network = Network(
            plan,
            self._services,
            facts.sky,
            facts.true,
            facts.trace.say,
            left=self._left,
            heard=self._heard,
            pods=facts.pods,
        )
        self._network = network
        facts.own_webhooks, facts.unanswered = network.own_webhooks, network.unanswered
        facts.pauses = network.pauses
        self._receivers = Receivers(plan, facts.true, facts.trace.say)
        facts.heard = self._receivers.heard
        self._machine = Machine(facts, network, self._receivers)
        for run in facts.runs:
            write_input(plan, run)
        put_strangers_files(plan, folder)

    def play(self) -> Facts:
        """Plays to the end of the runs, or to the end of the patience."""
        log = Log(self.facts)
        root = logging.getLogger()
        root.addHandler(log)
        try:
            run_until_crash(self._world, seed=self._plan.seed)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  whatever it is, it belongs to this seed
            self.facts.fails(error)
        finally:
            root.removeHandler(log)
        return self.facts

    def _left(self, request: httpx.Request) -> None:
        """A process sends a request. Notes which job is to be executed by it, or asked for."""
        endpoint, _, path = request.url.path.partition("/v2/")[2].partition("/")
        operation, _, remote_id = path.partition("/")
        if operation == "status":
            self.facts.questions[remote_id].append(self.facts.true.now())
        raw_input = b""
        if operation in ("run", "runsync"):
            raw_input = input_in(request.content)
        if operation == "openai" and request.method == "POST":
            raw_input = request.content
        if operation == "retry" and (fate := self.facts.fates.get(remote_id)) is not None:
            raw_input = fate.input
        if raw_input:
            for row in rows_in(raw_input):
                self.facts.sent.append((self.facts.true.now(), row))
                self.facts.ways.add((f"{request.url.host}/{endpoint}", operation, row))

    def _heard(self, body: bytes) -> None:
        """A body has reached the program. Notes it if it is the result of the job that it names."""
        try:
            record = json.loads(body)
        except ValueError:
            return
        fate = self.facts.fates.get(record["id"])
        result = None if fate is None else self._result_of(fate.input)
        if result is not None and record.get("output") == json.loads(result):
            self.facts.told[record["id"]].append(self.facts.true.now())

    def _made_of(self, raw_input: bytes, _number: int) -> WorkerResult:
        """What a worker makes of an input this time."""
        if self._chunks is not None:
            return self._chunks.work(raw_input)
        return WorkerResult(output=self.facts.output_of(raw_input))

    def _result_of(self, raw_input: bytes) -> bytes | None:
        """What there is to be had of an input."""
        return self.facts.output_of(raw_input) if self._chunks is None else self._chunks.output(raw_input)

    async def _world(self) -> None:
        """Everything, until all runs have come to their end, or nobody believes in that any more."""
        async with AsyncExitStack() as services:
            for service in self._services.values():
                await services.enter_async_context(service.serving())
            async with anyio.create_task_group() as world:
                self._network.begin(world)
                begin(world, self.facts, self._calm)
                if self._plan.pool is not None:
                    begin(world, self.facts, MemberFleets(self._plan.pool).keep, self._services[HERE])
                if self.facts.account is not None:
                    begin(world, self.facts, self.facts.account.meddle)
                if self.facts.pods is not None:
                    begin(world, self.facts, self.facts.pods.live)
                begin(world, self.facts, take_the_folder_away, self._plan, self.facts.folder)
                begin(world, self.facts, live_beside, self.facts, self._services[HERE])
                for each in self._plan.weather:
                    if each.trouble in BEFALLS:
                        begin(world, self.facts, self._befall, each)
                with may_break_down(self.facts), anyio.move_on_at(self._plan.calm_at_s + self._plan.patience_s):
                    await self._people(world)
                    await self._tell_the_rest(world)
                    await self._tidy_up(world)
                if self._machine.has_killed or not self.facts.finished:
                    running_loop().crash()
                    await anyio.sleep_forever()
                world.cancel_scope.cancel()

    async def _calm(self) -> None:
        """Faults are over."""
        await anyio.sleep_until(self._plan.calm_at_s)
        self._receivers.is_calm = True
        for service in self._services.values():
            service.dice.faults = Faults()
        if self.facts.pods is not None:
            self.facts.pods.calm()

    async def _befall(self, each: Weather) -> None:
        """Something befalls processes, whichever they are by then."""
        await anyio.sleep_until(each.at_s)
        loop = running_loop()
        victims = [found for found in self._machine.processes if each.who in {None, found.run}]
        for process in victims:
            self.facts.trace.say("world", f"{each.trouble} befalls {process}")
        if each.trouble is FailureClass.INTERRUPT:
            for process in victims:
                process.stop.set()
            return
        asleep = [process for process in victims if loop.suspend(process)]
        await anyio.sleep(each.size)
        for process in asleep:
            self.facts.trace.say("world", f"{process} goes on")
            loop.resume(process)

    # --- the people

    async def _people(self, world: TaskGroup) -> None:
        """Returns once every run has come to its end, and nothing more will be asked of it."""
        async with anyio.create_task_group() as people:
            for number, _ in enumerate(self.facts.runs):
                people.start_soon(self._ask_in_turn, world, number)
            await self._work(world)
        while not self.facts.finished:
            await self._work(world)

    async def _work(self, world: TaskGroup) -> None:
        """Works on each run until it has come to its end, all at once or one after the other."""
        async with anyio.create_task_group() as terminals:
            for number, run in enumerate(self.facts.runs):
                if self._plan.side_by_side:
                    terminals.start_soon(self._finish, world, number, run)
                else:
                    await self._finish(world, number, run)

    async def _finish(self, world: TaskGroup, number: int, run: RunFacts) -> None:
        """Gives the command for a run, again and again, until it has come to its end."""
        if self._plan.side_by_side:
            await anyio.sleep_until(run.plan.begins_s)
        while not run.finished and run.processes < PROCESSES_MAX:
            if run.processes:
                await anyio.sleep(self._plan.away_s)
            begun = sum(each.processes for each in self.facts.runs)
            run.processes += 1
            crash = self._crashes.pop(0) if self._crashes else None
            process = self._process(number, crash=crash, offset_s=self._plan.offset_s(begun))
            await self._live(world, process, partial(self._run, run))

    def _process(self, run: int, *, crash: Crash | None = None, offset_s: float = 0.0) -> Process:
        return Process(self._machine, run, crash=crash, offset_s=offset_s)

    async def _live(self, world: TaskGroup, process: Process, main: Callable[[Process], Awaitable[None]]) -> None:
        self.facts.trace.say("world", f"{process} begins")
        process.begin(world, main)
        await process.ended.wait()
        if not process.is_dead:
            self.facts.trace.say("world", f"{process} has ended")

    async def _run(self, run: RunFacts, process: Process) -> None:
        """What a process does that was given the command for a run."""
        facts, begun_s = self.facts, anyio.current_time()
        try:
            async with self._stopping(process) as stop:
                summary = await run_program(
                    request_of(facts, run), Console(facts, run), process.dependencies(), process.stop
                )
                facts.trace.say("program", f"{run.plan.name}: {summary.jobs}")
                run.summary = summary
                run.ended_at = facts.true.now()
                is_done = not summary.interrupted and begun_s >= run.retried_s
                is_saved = self._plan.saves is None or not is_to_be_saved(facts.ledger, run.plan.name)
                run.finished = is_done and is_saved
                self._note_pods()
            if stop.cancelled_caught:
                facts.trace.say("world", f"{process} was stopped")
        except (StoppedError, UsageError) as error:
            if isinstance(error, UsageError) and not any(reason in str(error) for reason in PASSING):
                raise  # else an endpoint to escalate to was refused as the run began: the command is given again
            facts.said.append(str(error))
            facts.trace.say("program", f"stopped: {error}")
            if any(brake in str(error) for brake in BRAKES):
                run.held.append((facts.true.now(), str(error)))

    @asynccontextmanager
    async def _stopping(self, process: Process) -> AsyncIterator[anyio.CancelScope]:
        """Stops the process inside at the next time at which the plan wants that."""
        now_s = anyio.current_time()
        stops = [
            each.at_s
            for each in self._plan.of(FailureClass.STOP)
            if each.at_s > now_s and each.who in {None, process.run}
        ]
        with anyio.CancelScope(deadline=min(stops, default=float("inf"))) as scope:
            yield scope

    async def _ask_in_turn(self, world: TaskGroup, number: int) -> None:
        """Asks for what is wanted of a run, one thing after the other."""
        for asking in self._plan.askings:
            if asking.run == number:
                await anyio.sleep_until(asking.at_s)
                asker = Asker(self.facts, asking)
                await self._live(world, self._process(number, crash=asking.crash), asker.ask)
                if asking.word is Word.RETRY:
                    run = self.facts.runs[number]
                    run.retried_s, run.finished = anyio.current_time(), False
                while asking.word is Word.CONTINUE and not asker.has_come_back:  # else the run would wait for ever
                    await anyio.sleep(1)
                    await self._live(world, self._process(number), asker.ask)

    async def _tell_the_rest(self, world: TaskGroup) -> None:
        """Has all messages sent that nobody has taken by now, once receivers are well again."""
        if self._plan.receivers is None:
            return
        await anyio.sleep_until(self._plan.calm_at_s)

        async def ask(process: Process) -> None:
            connection = connection_of(self._plan, self.facts.runs[0].plan)
            self.facts.resent_at = self.facts.true.now()
            resent = await resend_now(self.facts.address, None, connection, process.dependencies())
            self.facts.trace.say("person", f"resend: {resent.messages} messages, {resent.taken} taken")

        await self._live(world, self._process(0), ask)

    async def _tidy_up(self, world: TaskGroup) -> None:
        """Has whatever pods are left ended, as a person does who is told of them."""
        pods = self.facts.pods
        if pods is None:
            return
        await anyio.sleep_until(self._plan.calm_at_s)
        self.facts.pods_unknown = [name for name in pods.paid if not pods.is_known(name)]
        for _ in range(TIDIES_MAX):
            if not pods.left or (self._plan.pods is not None and self._plan.pods.stops and not pods.paid):
                return
            await self._live(world, self._process(0), self._tidy)
            await anyio.sleep(TIDY_AGAIN_S)

    def _note_pods(self) -> None:
        """A process has come to the end of its run; whatever it asked for was answered by then, if all is calm."""
        pods, is_calm = self.facts.pods, anyio.current_time() > self._plan.calm_at_s + CALM_S
        if pods is not None and is_calm and len(self._machine.processes) == 1:
            self.facts.pods_left += pods.paid

    async def _tidy(self, process: Process) -> None:
        request = ServeRequest(ledger=self.facts.address, connection=connection_of(self._plan, self.facts.runs[0].plan))
        for each in await tidy(request, process.dependencies()):
            self.facts.trace.say("person", f"runs tidy: {each.named}: {each.outcome}")

    def _made_service(self, host: str) -> SimulatedService:
        plan, facts = self._plan, self.facts
        limits = {
            **SERVICE_LIMITS,
            ServiceOperation.RUN: _service_limit(plan.run_rate),
            ServiceOperation.STATUS: _service_limit(plan.status_rate),
            ServiceOperation.BATCH: _service_limit(plan.batch_rate),
            **({ServiceOperation.RUNSYNC: _service_limit(plan.run_rate)} if plan.are_held else {}),
        }
        book = FateBook(round(plan.retention_s * SECOND_US), round(plan.sync_retention_s * SECOND_US), host)
        fleets = None if plan.pool is None or host != HERE else MemberFleets(plan.pool)
        book.fates, book.say = facts.fates, facts.trace.say
        book.result_of = None if plan.chunks is None else self._result_of
        book.batch_retention_us = 0 if plan.batches is None else round(plan.batches.kept_s * SECOND_US)
        service = SimulatedService(
            facts.true,
            seed=plan.seed if host == HERE else plan.seed + 1_000_003,
            endpoints=(ENDPOINT, SECOND_ENDPOINT) if fleets is None else POOL_ENDPOINTS,
            workers=plan.workers,
            scaling=None if fleets is None else fleets.scaling(0.0),
            speeds=None if fleets is None else fleets.speeds,
            seconds=lambda chance: chance.uniform(*plan.seconds),
            work=self._made_of,
            yields=plan.yields,
            retention_s=plan.retention_s,
            faults=plan.faults,
            limits=limits,
            algorithm=plan.algorithm,
            counts=book,
            batch=None if plan.batches is None else plan.batches.rules,
            make_world=partial(ForgetfulWorld, sync_retention_us=round(plan.sync_retention_s * SECOND_US)),
            long_work=_long_work(plan) if plan.resumable else None,
        )
        if plan.time_scale != 1.0:
            scale = Scale(plan.time_scale, is_told=plan.scale_is_told)
            service.app, service.told = scale.app(service.app), scale.told
            book.agreed_times = plan.time_scale if plan.is_untold else 1.0
        return service


def _long_work(plan: Plan) -> LongWork:
    work_s = LONGER * plan.seconds[1]
    return LongWork(work_s=work_s, report_every_s=work_s / 16, checkpoint_every_s=work_s / 8)


def _service_limit(rate: Rate) -> ServiceLimit:
    return ServiceLimit(requests=rate.requests, window_us=round(rate.window_s * SECOND_US), concurrent=rate.concurrent)
