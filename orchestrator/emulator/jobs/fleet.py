"""The workers of one endpoint: which there are, and which of them are free.

Pure: `now` is an argument. `scaling_rules` says how many there are to be.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import msgspec

from orchestrator.emulator.jobs.jobs import ServiceJob
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling
from orchestrator.units import SECOND_US

RESTART_US = 1 * SECOND_US
"""A worker that ended by itself is replaced after this long, doubled for each one in a row."""
RESTART_US_MAX = 60 * SECOND_US


class FleetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The worker figures of `/health`."""

    idle: int
    initializing: int = 0
    ready: int
    running: int
    throttled: int = 0
    unhealthy: int = 0


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as it is shown."""

    id: str
    started_at: int
    is_ready: bool
    is_busy: bool = False
    ready_at: int | None = None
    """When it became ready; None: not yet."""


class FleetChange(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that have just been started, and those that are to stop."""

    started: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    readied: bool = False
    """Somebody's cold start is over."""


class _Worker(msgspec.Struct, kw_only=True, gc=False):
    started_at: int
    ready_at: int | None
    """None until the worker itself says so."""
    jobs: int = 0
    idle_since: int = 0
    guest_seen_at: int | None = None
    """Set for a worker that somebody else has started: it counts, and is never stopped."""


class Fleet:
    """The workers of one endpoint.

    Without `announced`, a worker is ready when its cold start is over; with it, once it was `heard_from`. `new_id`
    names a new worker. Guests are forgotten when nothing was heard of them for `guest_us`.
    """

    def __init__(self, scaling: Scaling, *, new_id: Callable[[], str], announced: bool, guest_us: int) -> None:
        self.scaling = scaling
        self._new_id = new_id
        self._announced = announced
        self._guest_us = guest_us
        self._workers: dict[str, _Worker] = {}
        self._starting: dict[str, _Worker] = {}
        self._free: OrderedDict[str, _Worker] = OrderedDict()
        self._guests: dict[str, _Worker] = {}
        self._outdated: set[str] = set()
        """Those that were there before the last change of how many there may be, where that restarts them."""
        self._unnamed = 0
        """Jobs held by workers that are not in the fleet: whoever drives the world has workers of its own."""
        self._crashes = 0
        self._throttled = 0
        self._restart_at = 0
        self._settled = False

    def scale(self, scaling: Scaling) -> None:
        """From now on, scale like this."""
        before, self.scaling = self.scaling, scaling
        if scaling.restarts and (before.workers_min, before.workers_max) != (scaling.workers_min, scaling.workers_max):
            self._outdated = self._workers.keys() - self._starting.keys()
        self._settled = False

    def counts(self) -> FleetCounts:
        starting = len(self._starting)
        busy = sum(1 for worker in (*self._workers.values(), *self._guests.values()) if worker.jobs)
        running = busy + self._unnamed
        idle = max(0, len(self._workers) + len(self._guests) - starting - running)
        unhealthy = min(1, self._crashes)
        return FleetCounts(
            idle=idle,
            initializing=starting,
            ready=idle,
            running=running,
            throttled=self._throttled,
            unhealthy=unhealthy,
        )

    def running(self) -> int:
        """How many workers are up, busy or not (contract, Limits: `number_of_running_workers`)."""
        return len(self._workers) + len(self._guests) - len(self._starting)

    def adjust(self, waiting: Mapping[str, ServiceJob], in_progress: int, now: int) -> FleetChange:
        """Start and stop workers as the queue demands. `waiting` holds the queued jobs that may start workers; so many
        jobs and requests are `in_progress`.
        """
        readied = self._finish_cold_starts(now)
        self._forget_guests(now)
        if self._settled and self.scaling.is_fixed:
            return FleetChange(readied=readied)
        stopped = tuple(self._surplus(len(waiting), in_progress, now))
        for worker_id in stopped:
            self.remove(worker_id)
        wanted = self.scaling.wanted(
            len(self._workers),
            self._uncovered(waiting),
            waiting=len(waiting),
            requests=len(waiting) + in_progress,
            now=now,
        )
        self._throttled = wanted - self.scaling.with_machine(wanted)
        missing = self.scaling.with_machine(wanted) - len(self._workers)
        started = tuple(self._start(now) for _ in range(missing)) if now >= self._restart_at else ()
        self._settled = now >= self._restart_at and len(self._workers) <= self.scaling.most
        return FleetChange(started=started, stopped=stopped, readied=readied or self._finish_cold_starts(now))

    def next_due(self, waiting: Mapping[str, ServiceJob], in_progress: int) -> int | None:
        """When `adjust` has something to do next (µs), as far as is known now; None if only an event can tell."""
        times = [worker.ready_at for worker in self._starting.values() if worker.ready_at is not None]
        times += [worker.guest_seen_at + self._guest_us for worker in self._guests.values() if worker.guest_seen_at]
        if not (self._settled and self.scaling.is_fixed):
            times += self._scaling_times(waiting, in_progress)
        return min(times, default=None)

    def reserve(self) -> str | None:
        """A free worker, longest idle first; it is free no more until `give_back`."""
        if not self._free:
            return None
        return self._free.popitem(last=False)[0]

    def least_busy(self) -> str | None:
        """The worker that is up and has the least to do, of those the one that was idle for longest."""
        up = [each for each in self._workers if each not in self._starting]
        return min(up, key=lambda each: (self._workers[each].jobs, self._workers[each].idle_since), default=None)

    def give_back(self, worker_id: str, now: int) -> None:
        """The worker found no job after all, or no further one."""
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.jobs:
            worker.idle_since = now
            self._free[worker_id] = worker

    def replace(self, worker_id: str, now: int) -> str:
        """A worker is lost and another takes its place at once, under the new id that is returned."""
        new_id = self._new_id()
        if self._workers.pop(worker_id, None) is not None:
            self._free.pop(worker_id, None)
            self._workers[new_id] = _Worker(started_at=now, ready_at=now, idle_since=now)
        return new_id

    def began(self, worker_id: str) -> None:
        """The worker holds one more job."""
        worker = self._workers.get(worker_id) or self._guests.get(worker_id)
        if worker is None:
            self._unnamed += 1
        else:
            worker.jobs += 1
            self._free.pop(worker_id, None)

    def ended(self, worker_id: str, now: int) -> None:
        """The worker holds one job less."""
        worker = self._workers.get(worker_id) or self._guests.get(worker_id)
        if worker is None:
            self._unnamed = max(0, self._unnamed - 1)
            return
        worker.jobs = max(0, worker.jobs - 1)
        worker.idle_since = now
        if worker_id in self._outdated and not worker.jobs:
            self.remove(worker_id)
        elif self._announced and not worker.jobs and worker_id in self._workers:
            self._free[worker_id] = worker

    def heard_from(self, worker_id: str, now: int, *, is_ping: bool = False) -> None:
        """A worker with a mind of its own has called: it is up. One that nobody has started is a guest. A ping does not
        say that it takes jobs: it only shows that who is up or a guest already is still there.
        """
        if is_ping and (worker_id in self._starting or not self.knows(worker_id)):
            return
        worker = self._workers.get(worker_id)
        if worker is None:
            guest = self._guests.setdefault(worker_id, _Worker(started_at=now, ready_at=now))
            guest.guest_seen_at = now
        elif worker_id in self._starting:
            del self._starting[worker_id]
            worker.ready_at = worker.idle_since = now
            self._free[worker_id] = worker
            self._crashes = 0

    def views(self) -> tuple[WorkerView, ...]:
        """Every worker that there is, those that somebody else has started included."""
        return tuple(
            WorkerView(
                id=worker_id,
                started_at=worker.started_at,
                is_ready=worker_id not in self._starting,
                is_busy=worker.jobs > 0,
                ready_at=None if worker_id in self._starting else worker.ready_at,
            )
            for worker_id, worker in (*self._workers.items(), *self._guests.items())
        )

    def own(self) -> tuple[str, ...]:
        """The workers that are ours to stop."""
        return tuple(self._workers)

    def knows(self, worker_id: str) -> bool:
        return worker_id in self._workers or worker_id in self._guests

    def has_free_beside(self, worker_id: str) -> bool:
        """Whether another worker has nothing to do. Of one that is none of the fleet's nothing is to be kept."""
        others = (*self._workers.items(), *(self._guests.items() if self._announced else ()))
        idle = (each for each, worker in others if not worker.jobs and each not in self._starting)
        return self.knows(worker_id) and any(each != worker_id for each in idle)

    def remove(self, worker_id: str) -> None:
        """The worker is no more, or told to go; another may take its place."""
        self._guests.pop(worker_id, None)
        self._starting.pop(worker_id, None)
        self._free.pop(worker_id, None)
        self._outdated.discard(worker_id)
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            self._unnamed += worker.jobs
            self._settled = False

    def crashed(self, worker_id: str, now: int) -> None:
        """The worker ended by itself. The next one starts after a pause that grows while this goes on."""
        self.remove(worker_id)
        self._crashes += 1
        self._restart_at = now + min(RESTART_US << min(self._crashes - 1, 10), RESTART_US_MAX)

    def _finish_cold_starts(self, now: int) -> bool:
        done = [key for key, worker in self._starting.items() if worker.ready_at is not None and worker.ready_at <= now]
        for worker_id in done:
            if self.scaling.is_broken:
                self.crashed(worker_id, now)
                continue
            worker = self._starting.pop(worker_id)
            worker.idle_since = now
            self._free[worker_id] = worker
            self._crashes = 0
        return bool(done)

    def _forget_guests(self, now: int) -> None:
        for worker_id, guest in tuple(self._guests.items()):
            if guest.guest_seen_at is not None and guest.guest_seen_at + self._guest_us <= now:
                self._unnamed += guest.jobs
                del self._guests[worker_id]

    def _surplus(self, waiting: int, in_progress: int, now: int) -> Iterable[str]:
        """The workers to stop: above the maximum, or more than there are machines for (first those that are not up
        yet), idle ones from before the last change, or idle for too long.
        """
        keep = min(max(self.scaling.workers_min, self.scaling.needed(waiting + in_progress)), self.scaling.most)
        spare = len(self._workers) - keep
        excess = len(self._workers) - self.scaling.most
        starting = tuple(islice(reversed(self._starting), max(0, excess)))
        outdated = tuple(each for each in self._free if each in self._outdated)
        yield from (*starting, *outdated)
        gone = len(starting) + len(outdated)
        spare, excess = spare - gone, excess - gone
        for worker_id, worker in self._free.items():
            if worker_id in outdated:
                continue
            if spare <= 0:
                return
            if excess > 0 or worker.idle_since + self.scaling.idle_us <= now:
                yield worker_id
                spare, excess = spare - 1, excess - 1

    def _uncovered(self, waiting: Mapping[str, ServiceJob]) -> Iterable[ServiceJob]:
        """The longest waiting jobs for which no worker is being started yet, as many as could have one."""
        starting = len(self._starting)
        room = max(0, self.scaling.workers_max - len(self._workers))
        return islice(waiting.values(), starting, starting + room)

    def _scaling_times(self, waiting: Mapping[str, ServiceJob], in_progress: int) -> Iterable[int]:
        live, scaling = len(self._workers), self.scaling
        needed = scaling.needed(len(waiting) + in_progress)
        room = live < scaling.with_machine(scaling.workers_max)
        if live < scaling.with_machine(scaling.workers_min) or (room and waiting and not live):
            yield self._restart_at
        elif room and scaling.scaler is Scaler.REQUEST_COUNT:
            if scaling.with_machine(needed) > live:
                yield self._restart_at
        elif room:
            for job in islice(self._uncovered(waiting), 1):
                yield max(self._restart_at, job.queued_at + self.scaling.delay_us)
        if live > scaling.most and (self._free or self._starting):
            yield 0
        elif live > min(max(scaling.workers_min, needed), scaling.most) and self._free:
            yield min(worker.idle_since for worker in self._free.values()) + self.scaling.idle_us

    def _start(self, now: int) -> str:
        worker_id = self._new_id()
        ready_at = None if self._announced else now + round(self.scaling.cold_start_s * SECOND_US)
        worker = _Worker(started_at=now, ready_at=ready_at, idle_since=now)
        self._workers[worker_id] = self._starting[worker_id] = worker
        return worker_id
