"""Two processes that serve one ledger on a server, what is done to the one that owns it, and what must be true then.

Each has a line of its own to the ledger, which can be cut, and a key of its own, by which the service tells them apart.
Nothing is asked of them but what they say and what a user would get.
"""

import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby, pairwise
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread

from tests.postgres.proxy import Proxy, proxied
from tests.system.processes import KEY, Desk, Program, Service, Verdict

SILENCE_S_MAX: Final = 10.0
"""So long nothing may be sent, whatever becomes of the process that sent."""

HANDED_OVER_S_MAX: Final = 2.0
"""The same where it was asked to stop, beside what its last answers take."""

PATIENCE_S: Final = 240.0
RUNS_MAX: Final = 20
WINDOW_S: Final = 1.0
LIMITS: Final = ("--limit", f"run={RUNS_MAX}/{WINDOW_S:g}:{RUNS_MAX}", "--limit", "status=200/1:20")
"""A job every 50 ms: whoever sends is seen to."""

NAMES: Final = ("first", "second")
RUN: Final = "run"
"""The process that follows its run: it may be faster than the one that stands by, where the ledger is nobody's."""

Told = TypeVar("Told")


class Fault(StrEnum):
    """What becomes of the process that owns the ledger."""

    KILLED = "killed"
    STOPPED = "stopped"
    """It stands still for a while, and goes on."""

    CUT_OFF = "cut-off"
    """What it sends to the ledger arrives nowhere for a while, and nobody tells it."""

    ASKED = "asked"
    """It is asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of it."""

    fault: Fault
    lasts_s: float
    jobs: int
    results: int
    accepted: int
    """Submissions that the service took."""

    uncertain: int
    silence_s: float
    """The longest time in which nobody sent anything."""

    late: int
    """Requests of a process after the first one of its successor."""

    owners: tuple[str, ...]
    """Who sent, one after the other."""

    crowded: int
    """How many submissions came within one window of the limit, at the most."""

    verified: Verdict

    @property
    def is_long(self) -> bool:
        """Whether the other one must have taken the place of the first."""
        return self.fault in (Fault.KILLED, Fault.ASKED) or self.lasts_s > SILENCE_S_MAX

    @property
    def silence_s_max(self) -> float:
        """How long nothing may be sent."""
        return HANDED_OVER_S_MAX if self.fault is Fault.ASKED else SILENCE_S_MAX

    def faults(self) -> list[str]:
        """What must not be, in words."""
        rules = {
            "a job has not one result": self.results != self.jobs,
            "nobody took the place of the first": self.is_long and self.owners == NAMES[:1],
            f"{self.late} requests came of one whose successor had sent": self.late > 0,
            f"nothing was sent for {self.silence_s:.1f} s": self.silence_s > self.silence_s_max,
            f"{self.crowded} submissions came within one window": self.crowded > RUNS_MAX,
            "more was paid twice than was uncertain": self.accepted - self.jobs > self.uncertain,
            f"the ledger is wrong: {self.verified}": self.verified.exit_code != 0,
        }
        return [what for what, is_so in rules.items() if is_so]


class Scene:
    """Two processes and a run, on the ledger in the database at `url`."""

    def __init__(self, desk: Desk, service: Service, url: str, lines: dict[str, Proxy], *, jobs: int) -> None:
        self._desk = desk
        self._service = service
        self._url = url
        self._lines = lines
        self._jobs = jobs
        self._programs: dict[str, Program] = {}
        self._started: list[Program] = []

    async def go_through(self, fault: Fault, lasts_s: float, *, after: int) -> Ended:
        """Has `fault` happen to the first once so many jobs were accepted, for so long where it is for a while."""
        await self._serve("first", "serving")
        await self._serve("second", "stands by")
        self._desk.inputs(self._jobs)
        run = self._start(
            "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", self._service.url,
            "--output", "results.jsonl", "--uncertain-after", "2s", "--ledger", self._url, "--json", *LIMITS,
        )  # fmt: skip
        await away(partial(self._service.wait, "accepted", after))
        await self._happen(fault, lasts_s)
        ended = await away(run.ended)
        assert ended.exit_code == 0, ended
        log = await away(self._service.log)
        for name, program in self._programs.items():
            if not program.is_over:
                program.signal(signal.SIGTERM)
                told = await away(program.ended)
                assert told.exit_code == 0, (name, told)
        verified = await away(partial(self._desk.call, "verify", "results.jsonl", "--ledger", self._url))
        return self._told(fault, lasts_s, log, ended, verified)

    async def _happen(self, fault: Fault, lasts_s: float) -> None:
        program, line = self._programs["first"], self._lines["first"]
        match fault:
            case Fault.KILLED:
                await away(program.kill)
            case Fault.STOPPED:
                program.signal(signal.SIGSTOP)
                await anyio.sleep(lasts_s)
                program.signal(signal.SIGCONT)
            case Fault.CUT_OFF:
                line.is_swallowing = True
                await anyio.sleep(lasts_s)
                line.is_swallowing = False
            case Fault.ASKED:
                program.signal(signal.SIGTERM)
                await away(program.ended)

    async def _serve(self, name: str, said: str) -> None:
        program = self._start(
            "serve", "--ledger", self._lines[name].url, "--serverless-url", self._service.url, *LIMITS, key=key_of(name)
        )
        self._programs[name] = program
        await away(partial(program.until_said, said))

    def _start(self, *arguments: str, key: str = KEY) -> Program:
        program = self._desk.start(*arguments, environ={"ORCHESTRATOR_API_KEY": key}, within_s=PATIENCE_S)
        self._started.append(program)
        return program

    def clear(self) -> None:
        """Nothing of it is left, however it went."""
        for program in self._started:
            if not program.is_over:
                program.kill()

    def _told(self, fault: Fault, lasts_s: float, log: dict[str, Any], run: Verdict, verified: Verdict) -> Ended:
        names = {key_of(name): name for name in NAMES} | {KEY: RUN}
        senders = [(at, names[key]) for at, key, _ in log["senders"] if key in names]
        owners = tuple(name for name, _ in groupby(name for _, name in senders))
        submitted = [at for at, key, operation in log["senders"] if key in names and operation == "run"]
        rows, uncertain = Counter(self._desk.ids()), run.summary["uncertain"]["seen"]
        return Ended(
            fault=fault,
            lasts_s=lasts_s,
            jobs=self._jobs,
            results=sum(1 for number in rows.values() if number == 1),
            accepted=len(log["accepted"]),
            uncertain=uncertain,
            # Of the first tries: what is uncertain waits for longer than that before it goes again.
            silence_s=max(later - at for at, later in pairwise(submitted[: self._jobs - uncertain])),
            late=late_in([name for _, name in senders]),
            owners=owners,
            crowded=crowded_in(submitted),
            verified=verified,
        )


def crowded_in(times: list[float]) -> int:
    """How many of these ascending times lie within one window, at the most."""
    return max(
        sum(at <= other < at + WINDOW_S for other in times[place : place + 4 * RUNS_MAX])
        for place, at in enumerate(times)
    )


def late_in(senders: list[str]) -> int:
    """How many of these requests came of one whose successor had sent: each may own the ledger once here."""
    late, gone, present = 0, set[str](), ""
    for name in senders:
        if name in gone:
            late += 1
        elif name != present:
            gone.add(present)
            present = name
    return late


def key_of(name: str) -> str:
    """The key with which a process of that name sends."""
    return f"the-key-of-the-{name}"


async def away(call: Callable[[], Told]) -> Told:
    """What `call` returns, in a thread: the lines go on meanwhile."""
    return await to_thread.run_sync(call)


@asynccontextmanager
async def scene(desk: Desk, service: Service, url: str, *, jobs: int) -> AsyncIterator[Scene]:
    """A ledger on a server, and a line to it for each process."""
    async with AsyncExitStack() as opened:
        lines = {name: await opened.enter_async_context(proxied(url)) for name in NAMES}
        there = Scene(desk, service, url, lines, jobs=jobs)
        try:
            yield there
        finally:
            there.clear()
