"""The endpoints of the emulated service. Each has its queue, workers and counts from its first use on."""

import random
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import msgspec

from orchestrator.emulator.contract.ids_and_times import resource_id
from orchestrator.emulator.jobs.fleet import Fleet
from orchestrator.emulator.jobs.jobs import ServiceJob
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.units import SECOND_US

_BATCH_POOL = ".batch"
"""No id of an endpoint has a dot."""

EXECUTION_TIMEOUT_US_DEFAULT = 600 * SECOND_US
"""How long an execution may take where nobody says so (contract, Policy)."""


def batch_pool(endpoint: str) -> str:
    """Under which name stands what an endpoint has for its batches alone: workers, and a queue."""
    return f"{endpoint}{_BATCH_POOL}"


def endpoint_of(name: str) -> str:
    """The endpoint's id, of its own name or that of its `batch_pool`."""
    return name.removesuffix(_BATCH_POOL)


class EndpointState:
    """What the world keeps of an endpoint; its jobs stand in line here only while they are queued."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.execution_timeout_us = EXECUTION_TIMEOUT_US_DEFAULT
        """Of jobs whose policy does not say."""

        self.queue: OrderedDict[str, ServiceJob] = OrderedDict()
        self.waiting: OrderedDict[str, ServiceJob] = OrderedDict()
        """The part of the queue that may start workers: not of low priority."""
        self._shelved: dict[str, ServiceJob] = {}
        self.in_progress = 0
        self.connections = 0
        """Requests that go straight to workers: they ask for workers as jobs do."""

        self.completed = 0
        self.failed = 0
        self.retried = 0
        self.executed_us = 0
        """How long executions have taken, which is what is paid."""

        self.unread = 0
        """Results that were forgotten without anybody having asked for them."""

    @property
    def in_queue(self) -> int:
        """How many jobs are shown as queued."""
        return len(self.queue) + len(self._shelved)

    @property
    def under_way(self) -> int:
        """What workers have to do: jobs, and requests that go straight to them."""
        return self.in_progress + self.connections

    def push(self, job: ServiceJob, *, first: bool = False) -> None:
        for line in (self.queue,) if job.low_priority else (self.queue, self.waiting):
            line[job.id] = job
            if first:
                line.move_to_end(job.id, last=False)

    def shelve(self, job: ServiceJob) -> None:
        """By a fault: the job is queued, and no worker will ever get it."""
        self._shelved[job.id] = job

    def pop(self, worker_id: str) -> ServiceJob | None:
        """The first job that the worker is to have: not one that it had before while another worker is free."""
        for job in self.queue.values():
            if job.avoids != worker_id or not self.fleet.has_free_beside(worker_id):
                self.drop(job.id)
                return job
        return None

    def drop(self, job_id: str) -> None:
        for line in (self.queue, self.waiting, self._shelved):
            line.pop(job_id, None)

    def clear(self) -> tuple[ServiceJob, ...]:
        """Empties the queue; what was in it."""
        jobs = (*self.queue.values(), *self._shelved.values())
        for line in (self.queue, self.waiting, self._shelved):
            line.clear()
        return jobs


class WorkerChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What `EndpointTable.adjust` did; workers are (endpoint, id)."""

    started: tuple[tuple[str, str], ...]
    readied: tuple[str, ...]
    """Endpoints where a cold start is over."""


class EndpointTable:
    """All endpoints by id.

    `scaling` says how an endpoint scales that nobody has deployed, and whether its workers announce themselves. A
    worker that somebody else has started is forgotten after `guest_us` of silence.
    """

    def __init__(self, scaling: Callable[[str], tuple[Scaling, bool]], *, rng: random.Random, guest_us: int) -> None:
        self._scaling = scaling
        self._rng = rng
        self._guest_us = guest_us
        self._states: dict[str, EndpointState] = {}
        self._stopping: list[tuple[str, str]] = []

    def deploy(
        self, endpoint: str, scaling: Scaling, *, announced: bool, execution_timeout_us: int | None = None
    ) -> None:
        """From now on `endpoint` scales like this. With `announced`, its workers say themselves when they are ready.

        `execution_timeout_us` is for jobs from now on whose policy does not say; None: the contract's default.
        """
        state = self._states.get(endpoint)
        if state is None:
            fleet = Fleet(scaling, new_id=partial(resource_id, self._rng), announced=announced, guest_us=self._guest_us)
            state = self._states[endpoint] = EndpointState(fleet)
        else:
            state.fleet.scale(scaling)
        state.execution_timeout_us = execution_timeout_us or EXECUTION_TIMEOUT_US_DEFAULT

    def state(self, endpoint: str) -> EndpointState:
        """The endpoint, which is deployed now if it was not before."""
        state = self._states.get(endpoint)
        if state is None:
            scaling, announced = self._scaling(endpoint)
            self.deploy(endpoint, scaling, announced=announced)
            state = self._states[endpoint]
            if not announced and not scaling.cold_start_s:
                state.fleet.adjust({}, 0, 0)
        return state

    def fleet(self, endpoint: str) -> Fleet:
        """The workers of the endpoint."""
        return self.state(endpoint).fleet

    def queued(self, endpoint: str) -> int:
        """How many jobs wait for a worker."""
        return len(self.state(endpoint).queue)

    def close(self, endpoint: str) -> None:
        """Forget the endpoint; its workers are to stop."""
        state = self._states.pop(endpoint, None)
        if state is not None:
            self._stopping += [(endpoint, worker_id) for worker_id in state.fleet.own()]

    def retire(self, endpoint: str, worker_id: str) -> None:
        """The worker is to stop, and another may take its place."""
        self.state(endpoint).fleet.remove(worker_id)
        self._stopping.append((endpoint, worker_id))

    def names(self) -> tuple[str, ...]:
        """The ids of all endpoints."""
        return tuple(self._states)

    def waiting(self) -> tuple[str, ...]:
        """The endpoints that have queued jobs."""
        return tuple(endpoint for endpoint, state in self._states.items() if state.queue)

    def adjust(self, now: int) -> WorkerChanges:
        """Start and stop workers as the queues demand."""
        started: list[tuple[str, str]] = []
        readied: list[str] = []
        for endpoint, state in self._states.items():
            change = state.fleet.adjust(state.waiting, state.under_way, now)
            started += [(endpoint, worker_id) for worker_id in change.started]
            self._stopping += [(endpoint, worker_id) for worker_id in change.stopped]
            if change.readied:
                readied.append(endpoint)
        return WorkerChanges(started=tuple(started), readied=tuple(readied))

    def pop_stopping(self) -> tuple[tuple[str, str], ...]:
        """The workers that are to stop, each given out once."""
        stopping, self._stopping = tuple(self._stopping), []
        return stopping

    def next_due(self) -> int | None:
        """When something is to be done for the workers (µs): 0 for at once, None if only an event can tell."""
        if self._stopping:
            return 0
        times = (state.fleet.next_due(state.waiting, state.under_way) for state in self._states.values())
        return min((at for at in times if at is not None), default=None)
