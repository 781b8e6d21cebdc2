"""The job operations of one endpoint for people and their programs (contract, Endpoints).

What goes in is checked against the contract first, what comes out is typed, and whatever else the service answers is
one error, `JobRefusedError`. Questions are repeated while the connection or the service fails; what submits or changes
anything never is, since the first request may have taken effect. `/stream` is a question that cannot be repeated
either, once its answer was cut off: the service hands out each chunk once.

Everything waits for its turn within the limits. The calls below, `ServerlessEndpoint`, leave all of this to the caller.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import msgspec

from orchestrator.client.http.transport import REQUEST_S_MAX
from orchestrator.client.jobs import service_answers
from orchestrator.client.jobs.checked_calls import CONSEQUENCES, NOTHING_SECRET, CheckedCalls
from orchestrator.client.jobs.endpoint_batches import EndpointBatches
from orchestrator.client.jobs.job_request import (
    RUN_BODY_BYTES_MAX,
    RUNSYNC_BODY_BYTES_MAX,
    JobInput,
    check_size,
    check_wait,
    job_body,
    json_object_text,
)
from orchestrator.client.jobs.refusals import JobRefusedError, errors_about
from orchestrator.client.jobs.retries import Sleep, may_pass, repeated
from orchestrator.client.jobs.serverless import ServerlessEndpoint, checked_id
from orchestrator.client.jobs.service_answers import JobRecord, JsonAnswer, Purged, StreamPart
from orchestrator.client.jobs.streams import JobStream
from orchestrator.core.lanes.openai import ROUTE
from orchestrator.core.lanes.sync_requests import WAIT_US
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.health import Health, read_health
from orchestrator.core.service.job_record import read_as
from orchestrator.core.service.s3_config import S3Config
from orchestrator.core.text.durations import Policy
from orchestrator.core.text.redaction import Redactor
from orchestrator.errors import Unanswered, UsageError
from orchestrator.units import MILLISECOND_US

LOOK_S_MIN: Final = 0.5
LOOK_S_MAX: Final = 5.0
LOOK_GROWTH: Final = 1.5
"""The pause between two looks at a job that is followed. A result of `/runsync` is kept for a minute."""

RUNSYNC_WAIT_MS_DEFAULT: Final = WAIT_US // MILLISECOND_US
"""How long the service holds a `/runsync` that names no `wait`."""

OPENAI_S_MAX: Final = 600.0 + REQUEST_S_MAX
"""How long an `/openai/*` call may take: the default execution timeout, and the way there and back."""

_NOT_FOUND: Final = 404


class EndpointJobs:
    """One endpoint, as `Service.endpoint` gives it.

    Each call raises `UsageError` for what can be refused before it is sent, `JobRefusedError` for what the
    service refuses, `NotSent` where the request never left, and `Unanswered` where no usable answer came.
    """

    def __init__(self, api: ServerlessEndpoint, sleep: Sleep) -> None:
        self._api = api
        self._sleep = sleep
        self._calls = CheckedCalls(api, sleep)

    def __repr__(self) -> str:
        return f"EndpointJobs({self._api.url!r})"

    @property
    def id(self) -> str:
        """The endpoint's id."""
        return self._api.url.rpartition("/")[2]

    @property
    def api(self) -> ServerlessEndpoint:
        """The same operations with permits, bytes and bare answers."""
        return self._api

    @property
    def batches(self) -> EndpointBatches:
        """Its batches: the service's own Batch, which is a beta."""
        return EndpointBatches(self._calls)

    def on_request(self, notify: Callable[[], Awaitable[None]] | None) -> None:
        """`notify` is awaited whenever a request is about to wait for its turn; nothing of a call can be refused here
        after that.
        """
        self._calls.notify = notify

    async def run(
        self,
        job_input: JobInput,
        *,
        policy: Policy | None = None,
        webhook: str | None = None,
        s3_config: S3Config | None = None,
    ) -> JobRecord:
        """Submits a job that runs in the background (`POST /run`); its record has the id.

        `s3_config` holds the values themselves, not references. The result is kept for 30 minutes after the job has
        finished, within its TTL.
        """
        body = job_body(job_input, policy=policy, webhook=webhook, s3_config=s3_config, bytes_max=RUN_BODY_BYTES_MAX)
        request = self._api.submission("run", body)
        return await self._calls.once(
            "run", Operation.RUN, request, service_answers.read_accepted, redactor=_redactor(s3_config)
        )

    async def runsync(
        self,
        job_input: JobInput,
        *,
        wait: int | None = None,
        follow: bool = True,
        policy: Policy | None = None,
        webhook: str | None = None,
        s3_config: S3Config | None = None,
    ) -> JobRecord:
        """Submits a job and waits for its end (`POST /runsync`).

        The service holds the request for `wait` milliseconds (1000 to 300000; None: its own default, 90 s). A job that
        takes longer is asked for with `/status` until it has finished, or with `follow` off returned as it is.
        A result is kept for a minute, and where the answer is lost, so is the job's id: `run` is the safer call.
        """
        check_wait(wait)
        body = job_body(
            job_input, policy=policy, webhook=webhook, s3_config=s3_config, bytes_max=RUNSYNC_BODY_BYTES_MAX
        )
        record = await self._calls.once(
            "runsync",
            Operation.RUNSYNC,
            self._api.submission("runsync" if wait is None else f"runsync?wait={wait}", body),
            service_answers.read_job,
            within_s=(RUNSYNC_WAIT_MS_DEFAULT if wait is None else wait) / 1000 + REQUEST_S_MAX,
            redactor=_redactor(s3_config),
        )
        if not record.finished and record.id is None:
            with errors_about("runsync", CONSEQUENCES[Operation.RUNSYNC]):
                raise Unanswered("the answer has neither a result nor a job id")
        return await self.follow(record.id) if follow and record.id and not record.finished else record

    async def status(self, job_id: str) -> JobRecord:
        """How a job stands, with its result once it has one (`GET /status/{job_id}`)."""
        path = f"status/{checked_id(job_id, 'job')}"
        return await self._calls.asked(f"status of {job_id}", Operation.STATUS, path, service_answers.read_job)

    async def follow(self, job_id: str) -> JobRecord:
        """Asks for a job until it has finished; for as long as that takes."""
        pause_s = LOOK_S_MIN
        while not (record := await self.status(job_id)).finished:
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * LOOK_GROWTH, LOOK_S_MAX)
        return record

    def stream(self, job_id: str) -> JobStream:
        """The job's chunks as they come (`GET /stream/{job_id}`), to be iterated; ends when the job does."""
        return JobStream(partial(self._stream_part, checked_id(job_id, "job")), partial(self.status, job_id))

    async def _stream_part(self, job_id: str) -> StreamPart:
        request = self._api.question(f"stream/{job_id}")
        ask = partial(self._calls.once, f"stream of {job_id}", Operation.STREAM, request, service_answers.read_stream)
        return await repeated(
            ask, self._sleep, may_help=lambda error: not isinstance(error, Unanswered) and may_pass(error)
        )

    async def cancel(self, job_id: str) -> JobRecord:
        """Stops a job that waits or runs (`POST /cancel/{job_id}`)."""
        request = self._api.order(f"cancel/{checked_id(job_id, 'job')}")
        return await self._calls.once(f"cancel {job_id}", Operation.CANCEL, request, service_answers.read_job)

    async def retry(self, job_id: str) -> JobRecord:
        """Queues a failed or timed-out job again, with its id and input (`POST /retry/{job_id}`)."""
        request = self._api.order(f"retry/{checked_id(job_id, 'job')}")
        return await self._calls.once(f"retry {job_id}", Operation.RETRY, request, service_answers.read_job)

    async def purge_queue(self) -> Purged:
        """Takes every job that waits out of the queue (`POST /purge-queue`); what runs goes on."""
        request = self._api.order("purge-queue")
        return await self._calls.once("purge-queue", Operation.PURGE_QUEUE, request, partial(read_as, Purged))

    async def health(self) -> Health:
        """How many jobs and workers are in which state (`GET /health`)."""
        return await self._calls.asked("health", Operation.HEALTH, "health", read_health)

    async def known(self, *, wait: float) -> Health:
        """The endpoint's health, once the service knows the endpoint: a new one answers 404 at first.

        `wait` is how many seconds that may take; then the last refusal is raised, and every other one at once.
        """
        until = anyio.current_time() + wait
        pause_s = LOOK_S_MIN
        while True:
            try:
                return await self.health()
            except JobRefusedError as refusal:
                if refusal.status != _NOT_FOUND or anyio.current_time() + pause_s > until:
                    raise
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * LOOK_GROWTH, LOOK_S_MAX)

    async def requests(self) -> JsonAnswer:
        """Whatever `GET /requests` says: it stands in the contract's table of limits and is explained nowhere."""
        return await self._calls.asked("requests", Operation.REQUESTS, "requests", service_answers.read_answer)

    async def openai(
        self, path: str, body: JobInput | None = None, *, on_event: Callable[[object], None] | None = None
    ) -> JsonAnswer:
        """`POST /openai{path}` with `body`, a JSON object; without one `GET`. `path` is as in `/v1/chat/completions`.

        The answer is read to its end before it is returned. Where `"stream": true` asks for events, `on_event` gets the
        document of each as it comes.
        """
        path = path if path.startswith("/") else f"/{path}"
        if ROUTE.fullmatch(path) is None:  # it would lead elsewhere than below /openai
            raise UsageError(f"{path!r} is no path below /openai; it looks like /v1/chat/completions")
        text = None if body is None else json_object_text(body, "the body")
        check_size(text or b"", RUNSYNC_BODY_BYTES_MAX)
        tell = None if on_event is None else partial(_tell_events, service_answers.EventReader(), on_event)
        doing = f"openai{path}"
        request = self._api.question(doing) if text is None else self._api.submission(doing, text)
        request = msgspec.structs.replace(request, coming=tell)
        read = service_answers.read_answer
        call = partial(self._calls.once, doing, Operation.OPENAI, request, read, within_s=OPENAI_S_MAX)
        answer = await (repeated(call, self._sleep) if text is None else call())
        if tell is not None:
            tell(200, b"\n")  # the last line need not have an end
        return answer


def _tell_events(
    events: service_answers.EventReader, on_event: Callable[[object], None], status: int, piece: bytes
) -> None:
    """A piece of an answer has come. One of a refusal is none of an event."""
    if 200 <= status < 300:  # noqa: PLR2004  the range is the definition of success
        for document in events.of(piece):
            on_event(document)


def _redactor(config: S3Config | None) -> Redactor:
    return (
        NOTHING_SECRET if config is None else Redactor({}, sent=filter(None, (config.access_secret, config.access_id)))
    )
