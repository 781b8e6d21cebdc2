"""Two machines that serve one ledger on a server, and always something for them to send; what was sent, and by whom.

Nothing is asked of them but what they say and what a user would get.
"""

import math
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import anyio

from tests.failover.balancer import balancing, free_port
from tests.failover.database import Database
from tests.failover.machine import SERVICE, Machine, away, key_of
from tests.postgres.proxy import Proxy, proxied
from tests.system.processes import Desk, Launch, Program, Service, Verdict

RUNS_MAX: Final = 10
WINDOW_S: Final = 1.0
LIMITS: Final = ("--limit", f"run={RUNS_MAX}/{WINDOW_S:g}:{RUNS_MAX}", "--limit", "status=200/1:20")
"""A job every 100 ms: whoever sends is seen to, and there is a processor left for other tests."""

NAMES: Final = ("first", "second")
PROCESSES_MAX: Final = 1_000
SETTLED_S: Final = 1.5
"""Who has sent for so long goes on."""

GOES_ON: Final = 0.4
"""At so much of its rate somebody goes on: a successor leaves room for what may still arrive of its predecessor."""

HANDED: Final = "is handed to"
"""What a run says that another process serves."""

PEOPLE_S_MAX: Final = 240.0
"""A command that takes longer is killed."""

LOOK_S: Final = 0.2
DRAINED_S_MAX: Final = 240.0
SENT_LATE_S: Final = 1.0
"""So long a process that was deposed is left alone, in which it could send what it may not."""


class Sent(NamedTuple):
    """A request, as the service has it."""

    at: float
    """Seconds, by the clock of event loops, which is the same for all on this machine."""

    key: str
    operation: str


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
        self._jobs = 0
        self._runs: list[str] = []

    async def begin(self) -> None:
        """Starts the machines, gives them something to send, and returns once they do."""
        await away(partial(self.service.change, other_keys=sorted(self.keys)))
        for machine in self.machines.values():
            await machine.start()

    async def load(self, jobs: int) -> None:
        """There is enough to send: at least so many jobs have not been accepted."""
        accepted = await away(partial(self.service.counted, "accepted"))
        lacking = jobs - max(0, self._jobs - accepted)
        if lacking > 0:
            await taken_in(await away(partial(self.start, *self.taking_in(lacking))))

    def taking_in(self, jobs: int) -> tuple[str, ...]:
        """The command that takes so many further jobs in, and follows them."""
        name = f"load-{len(self._runs)}"
        self._runs.append(name)
        self._desk.inputs(jobs, f"{name}.jsonl", of=name)
        self._jobs += jobs
        return (
            "run", f"{name}.jsonl", "--endpoint", "ep1", "--serverless-url", SERVICE, "--uncertain-after", "2s", *LIMITS,
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

    def submissions(self, since: float = 0.0) -> list[Sent]:
        """The submissions that came from that moment on, in order, as far as they were looked at."""
        return [each for each in self.sent if each.operation == "run" and each.at >= since]

    @property
    def owner(self) -> Machine | None:
        """The machine whose process sends, as far as it was looked at."""
        latest = next((each.key for each in reversed(self.sent) if each.operation == "run"), "")
        return next((machine for machine in self.machines.values() if machine.key == latest), None)

    async def settled(self, within_s: float) -> Machine | None:
        """The machine that sends, once that has lasted for a while; None where that does not come."""
        began = anyio.current_time()
        enough = math.floor(SETTLED_S / WINDOW_S * RUNS_MAX * GOES_ON)
        with anyio.move_on_after(within_s + SETTLED_S):
            while True:
                await anyio.sleep(LOOK_S)
                await self.look()
                latest = self.submissions(max(began, anyio.current_time() - SETTLED_S))
                if len(latest) >= enough and len({each.key for each in latest}) == 1:
                    return self.owner
        return None

    async def leave_alone(self) -> None:
        """Whoever would send now what it may not has the time to."""
        await anyio.sleep(SENT_LATE_S)
        await self.look()

    async def replace_others(self, owner: Machine | None) -> list[str]:
        """Starts anew whoever is no more, or has sent before the `owner` does: it would send by the same key again. Without
        an owner that is everybody.

        Returns what is wrong with how one of them ended.
        """
        wrong = []
        have_sent = {each.key for each in self.sent}
        for machine in self.machines.values():
            is_fresh = machine.is_running and machine.key not in have_sent
            if machine is owner or (is_fresh and owner is not None):
                continue
            if machine.is_running:
                ended = await machine.stop()
                if ended.exit_code != 0:
                    wrong.append(f"the {machine.name} ended so: {ended}")
            machine.clock.set_s(0.0)
            await machine.start()
        return wrong

    # --- what came of it

    async def until_nothing_waits(self) -> None:
        """Returns once all has its result but what waits for certainty. Raises `TimeoutError`."""
        with anyio.fail_after(DRAINED_S_MAX):
            while True:
                stood = await self.stood()
                if stood.results + stood.waiting == stood.jobs:
                    return
                await anyio.sleep(1.0)

    async def stood(self) -> Stood:
        """How all jobs stand, as a user is told."""
        shown: list[Any] = (await self.command("status", "--all", "--json")).summary
        rows = sum(run["jobs"]["succeeded"] for run in shown)
        uncertain = sum(run["uncertain"]["seen"] for run in shown)
        waiting = sum(run["jobs"]["uncertain"] for run in shown)
        return Stood(self._jobs, rows, uncertain, waiting)

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
