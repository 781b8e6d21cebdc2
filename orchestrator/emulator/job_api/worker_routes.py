"""The worker's side of the service over HTTP, as the official worker speaks it (as observed).

It takes jobs by long polls, hears by another what to stop, and posts chunks, progress and results. A job that its
worker's pings do not name for a while is given to another (see `World.ping`).
"""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.request_body import hold_request, read_bounded_body
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.worker_polls import StopLine, TakePoll, TakeQueues
from orchestrator.emulator.job_api.worker_reports import parse_chunk, parse_done
from orchestrator.emulator.jobs.jobs import ExecutionKey, JobExecution, WorkerResult
from orchestrator.units import MIB

HOLD_S = 20.0
"""How long a poll is held; the worker gives up after 90 s."""

REFUSED_HOLD_S = 1.0
"""A worker that is refused or sent away asks again at once; this makes it wait."""

RESULT_BYTES_MAX = 20 * MIB
"""A longer result is refused, and its job COMPLETED without output (as reported of the service)."""

SLOTS_MAX = 1_000

EMPTY_INPUT_LENGTH_MAX = 32

Operate = Callable[[str, str, Request], Awaitable[Response]]


class _TakenJob(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A job as a worker gets it."""

    id: str
    input: msgspec.Raw | None = None
    s3_config: msgspec.Raw | None = None


class WorkerApi:
    """Answers the calls of workers.

    `changed` is called with the endpoint after each: it may have moved the world's next due time.
    `repeated_done_status` answers a result for a job that has ended already; what the service says is not known.
    """

    def __init__(
        self,
        live: LiveWorld,
        gate: Gate,
        *,
        changed: Callable[[str], None],
        hold_s: float = HOLD_S,
        repeated_done_status: int = 200,
    ) -> None:
        self._live = live
        self._world = live.world
        self._gate = gate
        self._changed = changed
        self._hold_s = hold_s
        self._repeated_done_status = repeated_done_status
        self._polls = TakeQueues()
        self._stops: dict[str, StopLine] = {}
        self._held: dict[str, JobExecution] = {}
        self._leaving: set[str] = set()

    def routes(self) -> list[Route]:
        """All routes of this API (as observed)."""
        return [
            self._route("job-take/{worker_id}", self._take, "GET"),
            self._route("job-take-batch/{worker_id}", self._take_batch, "GET"),
            self._route("job-stop/{worker_id}", self._stop, "GET"),
            self._route("ping/{worker_id}", self._ping, "GET"),
            self._route("job-done/{worker_id}/{job_id}", self._done, "POST"),
            self._route("job-stream/{worker_id}/{job_id}", self._stream, "POST"),
        ]

    def wake(self, endpoint: str) -> None:
        """Hand queued jobs to whoever waits for them."""
        for poll in self._polls.waiting(endpoint):
            executions = (
                self._grab(endpoint, poll.worker_id, poll.slots) if self._world.endpoints.queued(endpoint) else ()
            )
            if executions:
                self._polls.leave(endpoint, poll)
                poll.answer(executions)

    def stop(self, key: ExecutionKey) -> tuple[str, str, anyio.Event] | None:
        """Nobody waits for this execution any more: its worker is told.

        Returns the endpoint, the worker, and an event that is set once it has listened; None if no worker of ours
        holds the execution.
        """
        execution = self._held.get(key.job_id)
        if execution is None or execution.number != key.number:
            return None
        del self._held[key.job_id]
        heard = self._line(execution.worker_id).tell(key.job_id)
        return execution.endpoint, execution.worker_id, heard

    def dismiss(self, endpoint: str, worker_id: str) -> None:
        """The worker is to go: it gets no more jobs, and its polls end so that it can notice."""
        self._leaving.add(worker_id)
        self._polls.release(endpoint, worker_id)
        if worker_id in self._stops:
            self._stops[worker_id].ring()

    def forget(self, worker_id: str) -> None:
        """The worker is no more."""
        self._leaving.discard(worker_id)
        self._stops.pop(worker_id, None)

    def _route(self, path: str, operate: Operate, method: str) -> Route:
        return Route(f"/v2/{{endpoint_id}}/{path}", partial(self._guard, operate), methods=[method])

    async def _guard(self, operate: Operate, request: Request) -> Response:
        endpoint, worker_id = request.path_params["endpoint_id"], request.path_params["worker_id"]
        try:
            self._gate.enter_worker(endpoint, request.headers.get("authorization", ""), self._live.now())
            return await operate(endpoint, worker_id, request)
        except ServiceRefusal as refusal:
            if request.method == "GET":
                await anyio.sleep(REFUSED_HOLD_S)
            answer = refusal.answer()
            return Response(answer.body, answer.status, media_type=answer.content_type)

    async def _take(self, endpoint: str, worker_id: str, request: Request) -> Response:
        jobs = await self._wait_for_jobs(endpoint, worker_id, 1, request)
        return _json(jobs[0]) if jobs else Response(status_code=204)

    async def _take_batch(self, endpoint: str, worker_id: str, request: Request) -> Response:
        size = request.query_params.get("batch_size", "1")
        if not size.isdecimal() or not 1 <= int(size) <= SLOTS_MAX:
            raise ServiceRefusal(400, f"batch_size must be between 1 and {SLOTS_MAX}")
        jobs = await self._wait_for_jobs(endpoint, worker_id, int(size), request)
        return _json(jobs) if jobs else Response(status_code=204)

    async def _wait_for_jobs(
        self, endpoint: str, worker_id: str, slots: int, request: Request
    ) -> tuple[_TakenJob, ...]:
        if worker_id in self._leaving:
            await anyio.sleep(REFUSED_HOLD_S)
            return ()
        self._world.endpoints.fleet(endpoint).heard_from(worker_id, self._live.now())
        executions = self._grab(endpoint, worker_id, slots)
        if not executions:
            poll = TakePoll(worker_id, slots)
            self._polls.join(endpoint, poll)
            self._changed(endpoint)
            try:
                await hold_request(request, self._hold_s, poll.answered.wait)
            finally:
                self._polls.leave(endpoint, poll)
            executions = poll.executions
        return tuple(_taken(execution) for execution in executions)

    def _grab(self, endpoint: str, worker_id: str, slots: int) -> tuple[JobExecution, ...]:
        """Up to `slots` jobs. One that a fault keeps from the worker counts as given, and is never heard of."""
        executions: list[JobExecution] = []
        while len(executions) < slots:
            execution = self._world.executions.take(endpoint, worker_id, self._live.now(), pings=True)
            if execution is None:
                break
            if not execution.silent:
                self._held[execution.job_id] = execution
                self._line(worker_id).untell(execution.job_id)
                executions.append(execution)
        return tuple(executions)

    async def _stop(self, endpoint: str, worker_id: str, request: Request) -> Response:
        if worker_id in self._leaving:
            await anyio.sleep(REFUSED_HOLD_S)
            return Response(status_code=204)
        self._world.endpoints.fleet(endpoint).heard_from(worker_id, self._live.now())
        line = self._line(worker_id)
        line.asked()
        job_ids: list[str] = []

        async def listen() -> None:
            job_ids.extend(await line.listen())

        self._changed(endpoint)
        await hold_request(request, self._hold_s, listen)
        return _json({"jobsToStop": job_ids}) if job_ids else Response(status_code=204)

    async def _ping(self, endpoint: str, worker_id: str, request: Request) -> Response:
        now = self._live.now()
        if worker_id not in self._leaving:
            self._world.endpoints.fleet(endpoint).heard_from(worker_id, now, is_ping=True)
        job_ids = tuple(filter(None, request.query_params.get("job_id", "").split(",")))
        self._world.executions.ping(worker_id, job_ids, now)
        self._tell_again(worker_id, job_ids)
        self._changed(endpoint)
        return _json({})

    def _tell_again(self, worker_id: str, job_ids: tuple[str, ...]) -> None:
        """The official worker misses the stop of a job that it has taken and not begun; its pings still name it."""
        for job_id in job_ids:
            if self._execution(worker_id, job_id) is None:
                self._line(worker_id).tell(job_id)

    async def _done(self, endpoint: str, worker_id: str, request: Request) -> Response:
        job_id: str = request.path_params["job_id"]
        try:
            body = await read_bounded_body(request, RESULT_BYTES_MAX)
        except ServiceRefusal as refusal:
            self._finish(endpoint, worker_id, job_id, WorkerResult())
            raise ServiceRefusal(400, refusal.error) from None
        report = parse_done(body, is_stream=request.query_params.get("isStream") == "true")
        if report.result is not None:
            return self._finish(endpoint, worker_id, job_id, report.result)
        execution = self._execution(worker_id, job_id)
        if report.progress is not None and (
            execution is None or not self._world.executions.progress(execution, report.progress, self._live.now())
        ):
            self._world.executions.late_progress[endpoint] += 1  # the job does not mind, and its worker need not know
        return _json({})

    def _finish(self, endpoint: str, worker_id: str, job_id: str, result: WorkerResult) -> Response:
        execution = self._execution(worker_id, job_id)
        now = self._live.now()
        if execution is None or not self._world.executions.done(execution, result, now):
            self._world.status(endpoint, job_id, now)  # 404 for a job that is gone
            return _json({}, self._repeated_done_status)
        del self._held[job_id]
        self._changed(endpoint)
        return _json({})

    async def _stream(self, endpoint: str, worker_id: str, request: Request) -> Response:
        execution = self._execution(worker_id, request.path_params["job_id"])
        chunk = parse_chunk(await read_bounded_body(request, RESULT_BYTES_MAX))
        if execution is None or not self._world.executions.put_chunk(execution, chunk, self._live.now()):
            raise ServiceRefusal(404, "job not found")
        self._changed(endpoint)
        return _json({})

    def _execution(self, worker_id: str, job_id: str) -> JobExecution | None:
        execution = self._held.get(job_id)
        return execution if execution is not None and execution.worker_id == worker_id else None

    def _line(self, worker_id: str) -> StopLine:
        line = self._stops.get(worker_id)
        if line is None:
            line = self._stops[worker_id] = StopLine()
        return line


def _taken(execution: JobExecution) -> _TakenJob:
    """An input without keys is lost on the way, as it is at the service (as observed)."""
    raw = execution.input
    is_empty = len(raw) <= EMPTY_INPUT_LENGTH_MAX and msgspec.json.decode(raw) == {}
    s3_config = None if execution.s3_config is None else msgspec.Raw(execution.s3_config)
    return _TakenJob(execution.job_id, None if is_empty else msgspec.Raw(raw), s3_config)


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
