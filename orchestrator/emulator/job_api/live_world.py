"""The world on a clock: time passes in it, and whoever waits for a job hears of what happens to it."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import anyio

from orchestrator.clock import Clock
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.jobs import FINISHED
from orchestrator.emulator.jobs.world import Due, World
from orchestrator.units import SECOND_US


class ScaledClock:
    """Begins at the clock's time; from then on `scale` seconds pass in each of the clock's."""

    def __init__(self, clock: Clock, scale: float) -> None:
        self._clock = clock
        self._scale = scale
        self._start = clock.now()

    def now(self) -> int:
        return self._start + round((self._clock.now() - self._start) * self._scale)


class JobWatch:
    """Follows one job."""

    def __init__(self) -> None:
        self._bell = anyio.Event()

    def ring(self) -> None:
        self._bell.set()

    async def change(self) -> None:
        """Returns when something has happened to the job since the last call, or since the watch began."""
        await self._bell.wait()
        self._bell = anyio.Event()


class LiveWorld:
    """`world` by `clock`, which runs `scale` times as fast as the event loop's."""

    def __init__(self, world: World, clock: Clock, scale: float = 1.0) -> None:
        self.world = world
        self.clock = clock
        self.scale = scale
        self._bell = anyio.Event()
        self._sleeps_until: float = math.inf
        self._watches: dict[str, list[JobWatch]] = {}

    def now(self) -> int:
        """The time in the world (µs)."""
        return self.clock.now()

    async def run(self, carry_out: Callable[[Due], None]) -> None:
        """Steps whenever something is due, until cancelled; `carry_out` gets what each step hands out."""
        while True:
            self._bell = anyio.Event()
            now = self.now()
            due = self.world.step(now)
            self.notify(due.changed)
            carry_out(due)
            next_due = self.world.next_due()
            self._sleeps_until = math.inf if next_due is None else next_due
            with anyio.move_on_after((self._sleeps_until - now) / SECOND_US / self.scale):
                await self._bell.wait()

    def ring(self) -> None:
        """Something may be due earlier than it was."""
        due = self.world.next_due()
        if due is not None and due < self._sleeps_until:
            self._bell.set()

    @contextmanager
    def watching(self, job_id: str) -> Iterator[JobWatch]:
        """A watch on the job, which need not exist."""
        watch = JobWatch()
        self._watches.setdefault(job_id, []).append(watch)
        self.world.table.watch(job_id)
        try:
            yield watch
        finally:
            watches = self._watches[job_id]
            watches.remove(watch)
            if not watches:
                del self._watches[job_id]
                self.world.table.unwatch(job_id)

    async def until_ended(self, endpoint: str, job_id: str, changed: Callable[[str], None]) -> None:
        """Returns once the job has ended or is gone; `changed` is called with the endpoint before each pause."""
        with self.watching(job_id) as watch, suppress(ServiceRefusal):
            while self.world.status(endpoint, job_id, self.now()).status not in FINISHED:
                changed(endpoint)
                await watch.change()

    def notify(self, job_ids: Iterable[str]) -> None:
        """Something has happened to these jobs."""
        for job_id in job_ids:
            for watch in self._watches.get(job_id, ()):
                watch.ring()
