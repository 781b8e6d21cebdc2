"""What each `orchestrator api` command asks of the service, and what it shows of the answer.

Each returns its exit code: 0, or 1 where the job that the answer is about has not completed and never will.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from orchestrator.cli.framework.endpoint_names import endpoint_id
from orchestrator.cli.framework.service_access import confirm
from orchestrator.cli.output import streams
from orchestrator.cli.service import output
from orchestrator.cli.service.job_input import JobInput
from orchestrator.core.service.profiles import address_of
from orchestrator.core.text.wording import counted
from orchestrator.errors import OrchestratorError
from orchestrator.views.status import RunStatus

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for aiohttp
    from orchestrator.client import EndpointJobs, JobRecord

JOB_FAILED_EXIT_CODE: Final = 1

WITHIN: Final = "sending within 5 % of the endpoint's limits; the rest is for the batch that is running"


class Shown(msgspec.Struct, frozen=True):
    """What of an answer is shown, and whether anything is said beside it."""

    as_json: bool
    quiet: bool

    def say(self, line: str) -> None:
        """One line for a person, unless nobody wants any."""
        if not self.quiet:
            streams.say(line)


Work = Callable[["EndpointJobs", Shown], Awaitable[int]]


async def send(
    endpoint: str, named: bool, quiet: bool, ledger: Path, work: Work, account: "Account", as_json: bool
) -> int:
    """Does `work` at the endpoint, which is given by its id, or `named`. Within which limits is said once, when
    something is really sent, and where a process works on `ledger`, whose limits they are, too.
    """
    jobs = account.service.endpoint(await endpoint_id(endpoint, account) if named else endpoint)
    shown = Shown(as_json, quiet)

    def say_within() -> None:
        jobs.on_request(None)
        if ledger.exists() and _worked_on_by(ledger):
            shown.say(WITHIN)

    jobs.on_request(say_within)
    return await work(jobs, shown)


def _worked_on_by(ledger: Path) -> str | None:
    from orchestrator.api.inspect.status import worked_on_by

    return worked_on_by(ledger)


# --- submitting


async def api_run(job: JobInput, endpoint: "EndpointJobs", shown: Shown) -> int:
    with _telling_if_interrupted():
        record = await endpoint.run(job.input, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config)
    return _show(record, shown)


async def api_runsync(job: JobInput, wait: int | None, endpoint: "EndpointJobs", shown: Shown) -> int:
    with _telling_if_interrupted():
        record = await endpoint.runsync(
            job.input, wait=wait, follow=False, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config
        )
    if not record.finished and record.id:
        # Also with --json: whoever interrupts this now needs the id.
        streams.say(f"job {record.id} is {record.status}; asking until it has finished")
        record = await endpoint.follow(record.id)
    return _show(record, shown)


@contextmanager
def _telling_if_interrupted() -> Iterator[None]:
    from anyio import get_cancelled_exc_class

    try:
        yield
    except get_cancelled_exc_class():
        streams.warn("interrupted before the job's id came; the job may exist all the same, and be paid for")
        raise


def _show(record: "JobRecord", shown: Shown) -> int:
    if shown.as_json:
        output.put_answer(record.raw)
    else:
        output.put_job(record)
    return JOB_FAILED_EXIT_CODE if record.finished and record.status != "COMPLETED" else 0


# --- asking


async def api_status(job: str, endpoint: "EndpointJobs", shown: Shown) -> int:
    return _show(await endpoint.status(job), shown)


async def api_stream(job: str, endpoint: "EndpointJobs", shown: Shown) -> int:
    stream = endpoint.stream(job)
    chunks = 0
    async for chunk in stream:
        output.put_chunk(chunk, as_json=shown.as_json)
        chunks += 1
    shown.say(f"job {job} is {stream.status}; {counted(chunks, 'chunk')}")
    return 0 if stream.status == "COMPLETED" else JOB_FAILED_EXIT_CODE


async def api_health(endpoint: "EndpointJobs", shown: Shown) -> int:
    health = await endpoint.health()
    if shown.as_json:
        output.put_answer(health.raw)
    else:
        output.put_health(health)
    return 0


async def api_requests(endpoint: "EndpointJobs", shown: Shown) -> int:
    output.put_json_answer(await endpoint.requests(), as_json=shown.as_json)
    return 0


# --- changing


async def api_cancel(job: str, endpoint: "EndpointJobs", shown: Shown) -> int:
    record = await endpoint.cancel(job)
    _show(record, shown)
    if record.finished and record.status != "CANCELLED":
        streams.warn(f"job {job} had ended before: it is {record.status}")
    return 0


async def api_retry(job: str, endpoint: "EndpointJobs", shown: Shown) -> int:
    return _show(await endpoint.retry(job), shown)


async def api_purge(ledger: Path | None, yes: bool, endpoint: "EndpointJobs", shown: Shown) -> int:
    if ledger is not None:
        for line in await _stakes(ledger, endpoint):
            streams.warn(line)
    confirm(f"take every waiting job out of the queue of {endpoint.id}?", yes=yes)
    purged = await endpoint.purge_queue()
    if shown.as_json:
        output.put_answer(purged.raw)
    else:
        output.put_purged(purged)
    return 0


async def _stakes(ledger: Path, endpoint: "EndpointJobs") -> list[str]:
    """What purging would do to the runs of the ledger."""
    from orchestrator.api.inspect.status import status

    try:
        runs = await status(ledger)
    except OrchestratorError as error:
        return [f"whether {ledger} has jobs there could not be seen: {error}"]
    affected = [run for run in runs if _url_of(run) == endpoint.api.url]
    return [_stake(run, ledger, at_service) for run in affected if (at_service := _at_service(run))]


def _url_of(run: RunStatus) -> str:
    return f"{address_of(run.service_url).rstrip('/')}/v2/{run.endpoint}"


def _at_service(run: RunStatus) -> int:
    return sum(run.jobs.get(state, 0) for state in ("submitting", "uncertain", "outstanding"))


def _stake(run: RunStatus, ledger: Path, at_service: int) -> str:
    jobs = counted(at_service, "job")
    return f"run {run.run} of {ledger} has {jobs} at this endpoint; those that still wait in its queue go, too"


async def api_openai(path: str, body: bytes | None, endpoint: "EndpointJobs", shown: Shown) -> int:
    put = None if shown.as_json else output.put_event
    answer = await endpoint.openai(path, body, on_event=put)
    if shown.as_json or not isinstance(answer.value, tuple):  # else its events have been shown as they came
        output.put_json_answer(answer, as_json=shown.as_json)
    return 0
