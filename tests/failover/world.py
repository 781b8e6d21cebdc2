"""Two machines that share one ledger on a server, and always something for them to send; what was sent, and by whom.

Nothing is asked of them but what they say and what a user would get.
"""

import math
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import Any, Final, NamedTuple

import anyio

from tests.failover.balancer import balancing, free_port
from tests.failover.database import Database
from tests.failover.machine import SERVICE, Machine, away, key_of
from tests.failover.owners import Sent, begin_to_note, forget, late_in, owners_of
from tests.postgres.proxy import Proxy, proxied
from tests.system.processes import Desk, Launch, Program, Service, Verdict

RUNS_MAX: Final = 10
WINDOW_S: Final = 1.0
AT_ONCE: Final = 6
"""So few that a successor can send beside what may still arrive of the two before: each has half of them at once."""

LIMITS: Final = ("--limit", f"run={RUNS_MAX}/{WINDOW_S:g}:{AT_ONCE}", "--limit", "status=200/1:20")
"""At each endpoint a job every 100 ms: whoever sends is seen to, and there is a processor left for other tests."""

NAMES: Final = ("first", "second")
ENDPOINTS: Final = ("ep1", "ep2")
PROCESSES_MAX: Final = 1_000
SETTLED_S: Final = 1.5
"""Who has sent for so long goes on."""

GOES_ON: Final = 0.15
"""At so much of its rate somebody goes on: a successor leaves room for half a minute for what may still arrive of the one
before, or, where that died soon, of the two before.
"""

HANDED: Final = "is handed to"
"""What a run says that another process serves."""

PEOPLE_S_MAX: Final = 240.0
"""A command that takes longer is killed."""

LOOK_S: Final = 0.2
DRAINED_S_MAX: Final = 240.0
SENT_LATE_S: Final = 1.0
"""So long a process that was deposed is left alone, in which it could send what it may not."""


class Stood(NamedTuple):
    """How the jobs stand."""

    jobs: int
    results: int
    """Those that have exactly one."""

    uncertain: int
    """How many submissions were uncertain at some time."""

    waiting: int
    """Jobs that are so still: what became of them is found out only once nothing of a dead process can arrive."""


class World:
    """The machines, on the ledger in the `database`, and whoever takes something in for them, in the folder of `desk`."""

    def __init__(
        self, desk: Desk, service: Service, database: Database, machines: dict[str, Machine], client: Proxy
    ) -> None:
        self.database = database
        self.machines = machines
        self.client = client
        self.service = service
        self.stays = AsyncExitStack()
        """What is there until the world ends."""

        self.sent: list[Sent] = []
        """All that was sent, until the last look."""

        self.repeated_max = 0
        """So much more may have been paid twice than was uncertain."""

        self.keys = frozenset(key_of(name, number) for name in NAMES for number in range(1, PROCESSES_MAX))
        """Those of all processes that serve."""

        self._desk = desk
        self._jobs: Counter[str] = Counter()
        """How many were taken in for each endpoint."""

        self._runs: list[str] = []

    async def begin(self) -> None:
        """Starts the machines. From then on it is noted who has what."""
        known = {"other_keys": sorted(self.keys), "others": ENDPOINTS[1:]}
        await away(partial(self.service.change, **known))
        first, *others = self.machines.values()
        await first.start()
        await begin_to_note(self.database)
        self.stays.push_async_callback(forget, self.database)
        for machine in others:
            await machine.start()

    async def load(self, jobs: int) -> None:
        """There is enough to send at each endpoint: at least so many jobs have not been accepted."""
        async with anyio.create_task_group() as tasks:
            for endpoint in ENDPOINTS:
                accepted = await away(partial(self.service.counted, f"accepted at {endpoint}"))
                lacking = jobs - max(0, self._jobs[endpoint] - accepted)
                if lacking > 0:
                    tasks.start_soon(taken_in, await away(partial(self.start, *self.taking_in(lacking, endpoint))))

    def taking_in(self, jobs: int, endpoint: str = ENDPOINTS[0]) -> tuple[str, ...]:
        """The command that takes so many further jobs in, and follows them."""
        name = f"load-{len(self._runs)}"
        self._runs.append(name)
        self._desk.inputs(jobs, f"{name}.jsonl", of=name)
        self._jobs[endpoint] += jobs
        return (
            "run", f"{name}.jsonl", "--endpoint", endpoint, "--serverless-url", SERVICE, "--uncertain-after", "2s", *LIMITS,
        )  # fmt: skip

    def start(self, *arguments: str) -> Program:
        """Starts a command of somebody who works beside the machines."""
        environ = {"ORCHESTRATOR_LEDGER": self.client.url, "XDG_STATE_HOME": str(self._desk.folder / "state")}
        return self._desk.start(*arguments, environ=environ, within_s=PEOPLE_S_MAX)

    async def command(self, *arguments: str) -> Verdict:
        """How one ended."""
        program = await away(partial(self.start, *arguments))
        return await away(program.ended)

    # --- who sends

    async def look(self) -> list[Sent]:
        """What was sent since the last look."""
        found = [Sent(*each) for each in await away(partial(self.service.senders, len(self.sent)))]
        self.sent += found
        return found

    def submissions(self, endpoint: str, since: float = 0.0) -> list[Sent]:
        """The submissions there that came from that moment on, in order, as far as they were looked at."""
        latest = takewhile(lambda each: each.at >= since, reversed(self.sent))
        return [each for each in latest if (each.operation, each.endpoint) == ("run", endpoint)][::-1]

    async def settled(self, within_s: float, *, is_shared: bool = False) -> Mapping[str, Machine] | None:
        """The machine that sends at each endpoint, once that has lasted for a while; `is_shared`: and each machine sends
        somewhere. None where that does not come.
        """
        began = anyio.current_time()
        with anyio.move_on_after(within_s + SETTLED_S):
            while True:
                await anyio.sleep(LOOK_S)
                await self.look()
                found = self._sending(max(began, anyio.current_time() - SETTLED_S))
                names = {machine.name for machine in found.values()}
                if len(found) == len(ENDPOINTS) and (not is_shared or len(names) == len(self.machines)):
                    return found
        return None

    def _sending(self, since: float) -> dict[str, Machine]:
        """The machine that has sent by itself at each endpoint from that moment on, where there is one."""
        machines = {machine.key: machine for machine in self.machines.values()}
        keys = {endpoint: [each.key for each in self.submissions(endpoint, since)] for endpoint in ENDPOINTS}
        enough = math.floor(SETTLED_S / WINDOW_S * RUNS_MAX * GOES_ON)
        return {
            endpoint: machines[latest[0]]
            for endpoint, latest in keys.items()
            if len(latest) >= enough and len(set(latest)) == 1 and latest[0] in machines
        }

    async def late(self) -> int:
        """How many requests came of a process that had lost the endpoint, as far as they were looked at."""
        keys = {pid: key for machine in self.machines.values() for pid, key in machine.keys.items()}
        owners = await owners_of(self.database, keys)
        return late_in([each for each in self.sent if each.key in self.keys], owners)

    async def leave_alone(self) -> None:
        """Whoever would send now what it may not has the time to."""
        await anyio.sleep(SENT_LATE_S)
        await self.look()

    async def replace(self) -> None:
        """Starts anew whoever is no more, by the true time."""
        for machine in self.machines.values():
            if not machine.is_running:
                machine.clock.set_s(0.0)
                await machine.start()

    # --- what came of it

    async def until_nothing_waits(self) -> None:
        """Returns once all has its result but what waits for certainty."""
        stood = await self.stood()
        with anyio.move_on_after(DRAINED_S_MAX):
            while stood.results + stood.waiting != stood.jobs:
                await anyio.sleep(1.0)
                stood = await self.stood()
            return
        shown = (await self.command("status", "--all")).stdout
        raise AssertionError(f"not all have a result after {DRAINED_S_MAX:g} s: {stood}\n{shown}")

    async def stood(self) -> Stood:
        """How all jobs stand, as a user is told."""
        shown: list[Any] = (await self.command("status", "--all", "--json")).summary
        rows = sum(run["jobs"]["succeeded"] for run in shown)
        uncertain = sum(run["uncertain"]["seen"] for run in shown)
        waiting = sum(run["jobs"]["uncertain"] for run in shown)
        return Stood(self._jobs.total(), rows, uncertain, waiting)

    async def rows(self) -> int:
        """How many results can be had, each of which must be of another job."""
        found = set[tuple[str, str]]()
        for name in self._runs:
            path = f"{name}.out.jsonl"
            told = await self.command("results", name, "--output", path)
            assert told.exit_code == 0, told
            ids = self._desk.ids(path)
            assert len(ids) == len(set(ids)), f"{name} has more than one result of a job"
            found |= {(name, each) for each in ids}
        return len(found)

    async def stop(self) -> None:
        """Stops the machines."""
        for machine in self.machines.values():
            if machine.is_running:
                ended = await machine.stop()
                assert ended.exit_code == 0, (machine.name, ended)

    async def end(self) -> Verdict:
        """Stops the machines, and checks the ledger."""
        await self.stop()
        await self.look()
        return await self.command("verify")

    def leads_to(self, url: str) -> None:
        """All lines to the ledger lead there from now on."""
        for line in (self.client, *(machine.ledger for machine in self.machines.values())):
            line.leads_to = url
            line.cut()


async def taken_in(run: Program) -> None:
    """Returns once that has taken its jobs in. It is ended: who follows may take the place of who serves."""
    await away(partial(run.until_said, HANDED))
    run.signal(signal.SIGTERM)
    ended = await away(run.ended)
    assert ended.exit_code >= 0, ended


@asynccontextmanager
async def world(
    desk: Desk, service: Service, database: Database, *, launch: Launch | None = None, are_listening: bool = False
) -> AsyncIterator[World]:
    """Machines that have a line each to the ledger and to the service, and one address for webhooks, if they
    `are_listening`. Nothing of them is left afterwards.
    """
    async with AsyncExitStack() as opened:
        ports = [free_port() for _ in NAMES]
        webhooks = await opened.enter_async_context(balancing(ports))
        client = await opened.enter_async_context(proxied(database.url))
        machines = {}
        for name, port in zip(NAMES, ports, strict=True):
            listening = ("--listen", f"127.0.0.1:{port}", "--webhook-url", webhooks) if are_listening else ()
            folder = desk.folder / name
            folder.mkdir()
            to_ledger, to_service = [
                await opened.enter_async_context(proxied(url)) for url in (database.url, service.url)
            ]
            machines[name] = Machine(name, folder, to_ledger, to_service, (*LIMITS, *listening), launch)
        there = World(desk, service, database, machines, client)
        try:
            async with there.stays:
                yield there
        finally:
            for machine in machines.values():
                machine.clear()
