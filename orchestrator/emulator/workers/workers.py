"""Workers inside this process: each takes a job from the world, runs the handler, and reports.

A worker without a job costs nothing; a task exists only while one is busy. When the world stops an execution
(cancelled, timed out, expired, given up), an async handler is cancelled, and a process killed. A thread cannot be: it
is left behind, and a new worker takes the place of the one that is stuck in it. One that a fault has made silent is
replaced likewise.
"""

from collections.abc import Mapping
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.emulator.http.gate import ANY_ENDPOINT
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.jobs.endpoint_table import endpoint_of
from orchestrator.emulator.jobs.jobs import ExecutionKey, JobExecution, WorkerResult
from orchestrator.emulator.workers.handler_call import run_handler
from orchestrator.emulator.workers.handler_pool import HandlerPool
from orchestrator.emulator.workers.handlers import Handler, HandlerReport, ReportKind, is_async

THREADS_MAX = 1_000
"""The most plain functions that run at once at one endpoint; its workers are the real limit."""


class _Pool:
    """What runs the handler of one endpoint: the event loop, threads, or that many `processes`."""

    def __init__(self, handler: Handler, processes: int) -> None:
        self._handler = handler
        self._threads = anyio.CapacityLimiter(THREADS_MAX)
        self._processes = HandlerPool(handler, processes) if processes and not is_async(handler) else None
        self.cancellable = is_async(handler) or self._processes is not None

    async def run(self, execution: JobExecution, report: HandlerReport) -> WorkerResult:
        if self._processes is not None:
            return await self._processes.run(execution, report)
        return await run_handler(self._handler, execution, self._threads, report)

    async def aclose(self) -> None:
        if self._processes is not None:
            await self._processes.aclose()


class HandlerWorkers:
    """The workers of all endpoints that have a handler.

    `handlers` maps endpoint ids, or `"*"`, to handlers; with `processes`, plain ones run in so many processes at each
    endpoint, else in threads.

    Raises UsageError for a plain handler that is to run in a process and cannot.
    """

    def __init__(self, live: LiveWorld, handlers: Mapping[str, Handler], processes: int = 0) -> None:
        for handler in handlers.values():
            _Pool(handler, processes)
        self._live = live
        self._world = live.world
        self._handlers = handlers
        self._processes = processes
        self._pools: dict[str, _Pool] = {}
        self._running: dict[ExecutionKey, anyio.CancelScope] = {}
        self._tasks: TaskGroup | None = None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run handlers until cancelled, beginning with whatever is queued already."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for endpoint in self._world.endpoints.waiting():
                    self.wake(endpoint)
                task_status.started()
                try:
                    await anyio.sleep_forever()
                finally:
                    self._tasks = None
        finally:
            for pool in self._pools.values():
                await pool.aclose()

    def wake(self, endpoint: str) -> None:
        """As many free workers as there are queued jobs at `endpoint` go and take them."""
        if self._tasks is None or not (queued := self._world.endpoints.queued(endpoint)):
            return
        pool = self._pools.get(endpoint) or self._open(endpoint)
        if pool is None:
            return
        fleet = self._world.endpoints.fleet(endpoint)
        while queued and (worker_id := fleet.reserve()) is not None:
            self._tasks.start_soon(self._work, endpoint, pool, worker_id)
            queued -= 1

    def stop(self, key: ExecutionKey) -> None:
        """Nobody waits for this execution any more; one that has just ended is fine."""
        scope = self._running.get(key)
        if scope is not None:
            scope.cancel()

    def _open(self, endpoint: str) -> _Pool | None:
        handler = self._handlers.get(endpoint_of(endpoint)) or self._handlers.get(ANY_ENDPOINT)
        if handler is None:
            return None
        pool = self._pools[endpoint] = _Pool(handler, self._processes)
        return pool

    async def _work(self, endpoint: str, pool: _Pool, worker_id: str) -> None:
        fleet = self._world.endpoints.fleet(endpoint)
        while (execution := self._world.executions.take(endpoint, worker_id, self._live.now())) is not None:
            self._live.ring()
            stopped = await self._execute(pool, execution)
            if stopped and (execution.silent or not pool.cancellable):
                worker_id = fleet.replace(worker_id, self._live.now())
            if not fleet.knows(worker_id):  # it asked to be refreshed, or its endpoint is gone
                self._live.ring()
                return
        fleet.give_back(worker_id, self._live.now())
        self.wake(endpoint)  # what is left was this worker's before, and waits for another that is free
        self._live.ring()

    async def _execute(self, pool: _Pool, execution: JobExecution) -> bool:
        """Run one execution to its end and report it; True if it was stopped instead."""
        key = ExecutionKey(execution.job_id, execution.number)
        report = partial(self._report, execution)
        with anyio.CancelScope() as scope:
            self._running[key] = scope
            try:
                if execution.silent:
                    await anyio.sleep_forever()
                result = await pool.run(execution, report)
                self._world.executions.done(execution, result, self._live.now())
                self._live.ring()
            finally:
                del self._running[key]
        return scope.cancelled_caught

    def _report(self, execution: JobExecution, kind: ReportKind, output: bytes) -> bool:
        """What a handler says of one execution before its end; whether anybody waits for it."""
        executions = self._world.executions
        if kind is ReportKind.PROGRESS:
            return executions.progress(execution, output, self._live.now())
        is_awaited = executions.put_chunk(execution, output, self._live.now())
        self._live.ring()
        return is_awaited
