"""Plays a plan: the whole program against the simulated service, process after process, until its run is finished.

A process is `orchestrator.api.run` with its own clock, transport, database connection, lock and listener; everything
else is as the command line would have it. A crash ends the loop (see `run.run_until_crash`); the service and the
network live on, and the next process gets the same command.
"""

import itertools
import json
import logging
import os
import random
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path

import anyio

from orchestrator.api import run as run_program
from orchestrator.client import Service, for_a_batch
from orchestrator.clock import Clock
from orchestrator.core.pacing import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.policy import Policy
from orchestrator.emulator.faults import Faults
from orchestrator.emulator.gate import Gate
from orchestrator.emulator.jobs import Result
from orchestrator.emulator.limits import CONTRACT_LIMITS as SERVICE_LIMITS
from orchestrator.emulator.limits import Limit as ServiceLimit
from orchestrator.emulator.limits import Operation as ServiceOperation
from orchestrator.emulator.tally import Tally
from orchestrator.engine.dependencies import Dependencies
from orchestrator.errors import StoppedError, leading
from orchestrator.ledger import Connect, dispatcher_lock
from orchestrator.settings import ConnectionSettings, RunRequest, RunSettings
from orchestrator.units import SECOND_US
from orchestrator.views import Snapshot, Summary
from tests.engine.rows import empty_ledger
from tests.simulation.clock import EPOCH_AT, ProcessClock, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.fates import Fate, ObservedWorld, Trace
from tests.simulation.loop import running_loop
from tests.simulation.network import LISTENER_URL, Network, SimulatedListener, Sky
from tests.simulation.plan import Crash, Kill, Marks, Plan, Rate, Trouble
from tests.simulation.run import Crash as Trigger
from tests.simulation.run import run_until_crash
from tests.simulation.world import ENDPOINT, URL, SimulatedService

API_KEY = "key-0d1e2f3a4b5c6d7e"
WORKER_ID = "id-1a2b3c4d5e6f7a8b"
WORKER_SECRET = "secret-8f7e6d5c4b3a2910"
RUN = "batch"
LOOK_S = 60.0
"""How often the progress display looks."""

WATCH_S = 15.0
"""Nobody else changes these ledgers; looking twice a second would take a third of the time of a world."""

PROGRAM: ContextVar[bool] = ContextVar("PROGRAM")
"""Set in everything that a process of the program does, and in nothing else: what a sleep lets stand still."""

PROCESSES_MAX = 60
"""So many processes for one run are taken for a program that does not get on."""


class Facts:
    """What is known of a world once it has been played."""

    def __init__(self, plan: Plan, folder: Path, *, traced: bool) -> None:
        self.plan = plan
        self.folder = folder
        self.ledger = folder / "ledger.db"
        self.source = folder / "in.jsonl"
        self.output = folder / "out.jsonl"
        self.errors = folder / "errors.jsonl"
        self.true = VirtualClock()
        self.sky = Sky(plan)
        self.trace = Trace(self.true.now, kept=traced)
        self.fates: dict[str, Fate] = {}
        self.moments: dict[int, int] = {}
        """The true time of every time that the program took for the present one."""
        self.gate: Gate
        self.tally: Tally
        self.said: list[str] = []
        """Everything that a person or a log saw."""
        self.lives: list[tuple[int, int]] = []
        """When each process began and ended, by the true clock."""
        self.stops: list[int] = []
        """When a process took going on for pointless."""
        self.told: defaultdict[str, list[int]] = defaultdict(list)
        """When the program got the true result of a job of the service's."""
        self.finished = False
        self.summary: Summary | None = None
        self.failure: str | None = None
        """Why the program, or the world, broke down."""

    def up_us(self, since: int, until: int) -> int:
        """How long, between two times of the true clock, the program ran and could reach the service."""
        edges = {since, until}
        closed = [tuple(EPOCH_AT + round(s * SECOND_US) for s in times) for times in self.plan.closed()]
        for start, end in (*self.lives, *closed):
            edges |= {start, end}
        times = sorted(at for at in edges if since <= at <= until)

        def is_up(at: int) -> bool:
            lives = any(start <= at < end for start, end in self.lives)
            return lives and not any(start <= at < end for start, end in closed)

        return sum(end - start for start, end in itertools.pairwise(times) if is_up((start + end) // 2))


class Killer:
    """Makes calls of the database take their time, and kills the process at the moment that a `Crash` names."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = random.Random(f"database {plan.seed}")
        self._trigger = Trigger()
        self._left = dict.fromkeys(Kill, 0)

    def arm(self, crash: Crash | None) -> None:
        """The next process dies of `crash`; of None it does not."""
        self._left = {kill: crash.number if crash and crash.kill is kill else 0 for kill in Kill}

    def delay(self) -> float:
        self._count(Kill.CALL)
        return self._chance.uniform(0, self._plan.database_s)

    def committing(self) -> bool:
        return not self._count(Kill.BEFORE_COMMIT)

    def committed(self) -> None:
        self._count(Kill.AFTER_COMMIT)

    def _count(self, kill: Kill) -> bool:
        self._left[kill] -= 1
        if self._left[kill] == 0:
            self._trigger.pull()
            return True
        return False


class View:
    """A person who reads everything."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def say(self, line: str) -> None:
        self._facts.said.append(line)
        self._facts.trace.say("program", line)
        if line.endswith(": nothing more is sent"):
            self._facts.stops.append(self._facts.true.now())

    warn = say

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while True:
            self._facts.said.append(repr(look()))
            await anyio.sleep(LOOK_S)


class _Log(logging.Handler):
    """Hears what the program logs."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(logging.DEBUG)
        self._facts = facts

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("orchestrator"):
            line = self.format(record)
            self._facts.said.append(line)
            self._facts.trace.say("log", line)


class _HeldLock:
    """The ledger's real lock, which a crash takes away as the system does."""

    def __init__(self, held: AbstractContextManager[None]) -> None:
        self._held = held

    def abandon(self) -> None:
        self._held.__exit__(None, None, None)


@contextmanager
def _lock(ledger: Path, /, *, now: int) -> Iterator[None]:
    held = dispatcher_lock(ledger, now=now)
    held.__enter__()
    lock = _HeldLock(held)
    running_loop().perishables.add(lock)
    yield
    running_loop().perishables.discard(lock)
    lock.abandon()


class Play:
    """One plan being played."""

    def __init__(self, plan: Plan, folder: Path, *, traced: bool) -> None:
        self.facts = Facts(plan, folder, traced=traced)
        self._plan = plan
        self._crashes = list(plan.crashes)
        self._cut: Mapping[ServiceOperation, int] = {}
        """Requests that were under way when the latest process was killed."""
        self._chance = random.Random(f"cut {plan.seed}")
        self._boot = 1
        self._killer = Killer(plan)
        self._service = self._made_service()
        facts = self.facts
        facts.gate, facts.tally = self._service.gate, self._service.tally
        self._network = Network(plan, self._service, facts.sky, facts.true, facts.trace.say, self._heard)
        _write_input(plan, facts.source)

    def play(self) -> Facts:
        """Plays to the end of the run, or to the end of the patience."""
        log = _Log(self.facts)
        root = logging.getLogger()
        root.addHandler(log)
        try:
            self._lives()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  whatever it is, it belongs to this seed
            self.facts.failure = _in_short(leading(error))
            self.facts.trace.say("world", traceback.format_exc())
        finally:
            root.removeHandler(log)
        return self.facts

    def _heard(self, body: bytes) -> None:
        """A body has reached the program. Notes it if it is the result of the job that it names."""
        try:
            record = json.loads(body)
        except ValueError:
            return
        fate = self.facts.fates.get(record["id"])
        if fate is not None and record.get("output") == json.loads(self._plan.output_of(fate.input)):
            self.facts.told[record["id"]].append(self.facts.true.now())

    def _lives(self) -> None:
        at_s: float | None = 0.0
        while at_s is not None:
            begun = len(self.facts.lives)
            at_s = run_until_crash(self._loop, seed=self._plan.seed, start_s=at_s)
            if at_s is not None:
                self._network.close()
                self._cut = self._service.under_way()
                self.facts.trace.say("world", "the process is killed")
                self._spoil_marks()
                if len(self.facts.lives) > begun:
                    self._ends()

    def _spoil_marks(self) -> None:
        marks = self.facts.ledger.with_name(f"{self.facts.ledger.name}.sent")
        if not marks.exists():
            return
        match self._plan.marks:
            case Marks.REMOVED:
                marks.unlink()
            case Marks.TORN:
                os.truncate(marks, self._chance.randrange(marks.stat().st_size))
            case Marks.OF_ANOTHER_BOOT:
                self._boot += 1
            case Marks.KEPT:
                pass

    async def _loop(self) -> None:
        """Everything until the next crash."""
        async with self._service.serving(), anyio.create_task_group() as weather:
            self._network.outlive(weather)
            weather.start_soon(self._calm)
            weather.start_soon(self._sleeps)
            weather.start_soon(self._notice_the_cut)
            last_s = self._plan.calm_at_s + self._plan.patience_s
            with anyio.move_on_at(last_s) if last_s > anyio.current_time() else anyio.CancelScope():
                while not self.facts.finished and len(self.facts.lives) < PROCESSES_MAX:
                    if self.facts.lives:
                        await anyio.sleep(self._plan.away_s)
                    await self._process()
            weather.cancel_scope.cancel()

    async def _notice_the_cut(self) -> None:
        """The requests of a killed process are under way for a while longer: of the others at most a round trip, but
        a /run may hold its slot for as long as the limits look back.
        """
        cut, self._cut = self._cut, {}
        self._service.hang_up({operation: n for operation, n in cut.items() if operation is not ServiceOperation.RUN})
        await anyio.sleep(self._chance.uniform(0, 0.9) * self._plan.run_rate.window_s)
        self._service.hang_up({operation: n for operation, n in cut.items() if operation is ServiceOperation.RUN})

    async def _calm(self) -> None:
        """Faults are over."""
        await anyio.sleep_until(self._plan.calm_at_s)
        self._service.dice.faults = Faults()

    async def _sleeps(self) -> None:
        """The process sleeps, whichever it is by then."""
        for sleep in sorted(self._plan.of(Trouble.ASLEEP), key=lambda each: each.at_s):
            if sleep.at_s >= anyio.current_time():
                await anyio.sleep_until(sleep.at_s)
                self.facts.trace.say("world", "the process stands still")
                running_loop().suspend(PROGRAM)
                await anyio.sleep(sleep.size)
                self.facts.trace.say("world", "the process goes on")
                running_loop().resume()

    async def _process(self) -> None:
        """One process, to its own end."""
        token = PROGRAM.set(True)
        try:
            await self._live()
        finally:
            PROGRAM.reset(token)

    async def _live(self) -> None:
        facts = self.facts
        self._killer.arm(self._crashes.pop(0) if self._crashes else None)
        facts.trace.say("world", "a process begins")
        facts.lives.append((facts.true.now(), facts.true.now()))
        try:
            async with self._stopping() as stop:
                facts.summary = await run_program(self._request(), View(facts), self._surroundings())
                facts.finished = True
            if stop.cancelled_caught:
                facts.trace.say("world", "the process was stopped")
        except StoppedError as error:
            facts.said.append(str(error))
            facts.trace.say("program", f"stopped: {error}")
        finally:
            self._ends()
            facts.trace.say("world", "the process has ended")

    def _ends(self) -> None:
        """The latest process ends now."""
        self.facts.lives[-1] = (self.facts.lives[-1][0], self.facts.true.now())

    @asynccontextmanager
    async def _stopping(self) -> AsyncIterator[anyio.CancelScope]:
        """Stops the process inside at the next time at which the plan wants that."""
        now_s = anyio.current_time()
        stops = [each.at_s for each in self._plan.of(Trouble.STOP) if each.at_s > now_s]
        with anyio.CancelScope(deadline=min(stops, default=float("inf"))) as scope:
            yield scope

    # --- what a process is given

    def _request(self) -> RunRequest:
        plan, facts = self._plan, self.facts
        limits = {**CONTRACT_LIMITS, Operation.RUN: _limit(plan.run_rate), Operation.STATUS: _limit(plan.status_rate)}
        return RunRequest(
            name=RUN,
            source=str(facts.source),
            endpoint=ENDPOINT,
            ledger=facts.ledger,
            output=facts.output,
            errors=facts.errors,
            connection=ConnectionSettings(
                serverless_url=URL,
                api_key=API_KEY,
                listen="127.0.0.1:0" if plan.webhooks else None,
                webhook_url=LISTENER_URL if plan.webhooks else None,
                limits=limits,
            ),
            settings=RunSettings(
                policy=Policy(
                    execution_timeout_ms=round(plan.execution_timeout_s * 1000), ttl_ms=round(plan.ttl_s * 1000)
                ),
                max_attempts=plan.max_attempts,
                retention_us=round(plan.retention_s * SECOND_US),
                on_uncertain=plan.on_uncertain,
                on_expired=plan.on_expired,
                output_required=True,
            ),
        )

    def _surroundings(self) -> Dependencies:
        def service(connection: ConnectionSettings, clock: Clock) -> Service:
            limits = for_a_batch(connection.limits)
            return Service(connection.serverless_url, connection.api_key, clock, limits=limits, transport=self._network)

        return Dependencies(
            clock=ProcessClock(self.facts.true, self._clock_offset_us(), self.facts.moments),
            environ={"WORKER_ID": WORKER_ID, "WORKER_SECRET": WORKER_SECRET},
            service=service,
            connect=self._connect,
            watch_every_s=WATCH_S,
            lock=_lock,
            open_files=lambda: 1_024,
            boot=lambda: f"boot {self._boot}",
            listener=lambda app, _address: SimulatedListener(app, self._network),
        )

    def _clock_offset_us(self) -> Callable[[int], int]:
        own_us = round(self._plan.offset_s(len(self.facts.lives) - 1) * SECOND_US)
        return lambda now: own_us + self.facts.sky.clock_offset_us(now)

    def _connect(self, path: Path) -> Connect:
        return async_creator(empty_ledger(path), delay=self._killer.delay, commits=self._killer)

    def _made_service(self) -> SimulatedService:
        plan, facts = self._plan, self.facts
        limits = {
            **SERVICE_LIMITS,
            ServiceOperation.RUN: _service_limit(plan.run_rate),
            ServiceOperation.STATUS: _service_limit(plan.status_rate),
        }
        service = SimulatedService(
            facts.true,
            seed=plan.seed,
            workers=plan.workers,
            seconds=lambda chance: chance.uniform(*plan.seconds),
            work=lambda raw_input, _: Result(output=plan.output_of(raw_input)),
            retention_s=plan.retention_s,
            faults=plan.faults,
            limits=limits,
            algorithm=plan.algorithm,
            make_world=ObservedWorld,
        )
        assert isinstance(service.world, ObservedWorld)
        service.world.fates, service.world.say = facts.fates, facts.trace.say
        return service


def _in_short(error: BaseException) -> str:
    """The first line of what went wrong, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}{place}"


def _limit(rate: Rate) -> Limit:
    return Limit(rate.requests, rate.window_s, rate.concurrent)


def _service_limit(rate: Rate) -> ServiceLimit:
    return ServiceLimit(requests=rate.requests, window_us=round(rate.window_s * SECOND_US), concurrent=rate.concurrent)


def _write_input(plan: Plan, path: Path) -> None:
    s3_config = {"accessId": "env:WORKER_ID", "accessSecret": "env:WORKER_SECRET", "bucketName": "b"}
    more = {"s3Config": s3_config} if plan.secrets else {}
    rows = ({"custom_id": f"job-{n}", "input": {"n": n}, **more} for n in range(1, plan.jobs + 1))
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
