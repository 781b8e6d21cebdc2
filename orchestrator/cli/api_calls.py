"""What each `orchestrator api` command asks of the service, and what it shows of the answer.

Each returns its exit code: 0, or 1 where the job that the answer is about has not completed and never will.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from orchestrator.cli import api_show, printing
from orchestrator.cli.account import confirm
from orchestrator.cli.execution import App
from orchestrator.cli.job_input import JobInput
from orchestrator.core.pacing import Limit, Operation
from orchestrator.errors import NotSent, OrchestratorError, StoppedError, Unanswered
from orchestrator.settings import RunStatus

if TYPE_CHECKING:
    from orchestrator.client import EndpointJobs, JobRecord  # at run time `--help` would pay for aiohttp

JOB_FAILED_EXIT_CODE: Final = 1

WITHIN: Final = "sending within 5 % of the endpoint's limits; the rest is for a batch that may be running"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command goes, and how it shows what comes back."""

    url: str
    endpoint: str
    key: str
    limits: Mapping[Operation, Limit]
    as_json: bool
    quiet: bool

    def __repr__(self) -> str:
        return f"Access({self.url!r}, {self.endpoint!r})"

    def say(self, line: str) -> None:
        """One line for a person, unless nobody wants any."""
        if not self.as_json and not self.quiet:
            printing.say(line)


Work = Callable[["EndpointJobs", Access], Awaitable[int]]


async def send(access: Access, work: Work) -> int:
    """Does `work` at the endpoint. Raises `StoppedError` where the service could not be reached or understood."""
    from orchestrator.client import Service, for_people  # noqa: PLC0415

    async with Service(access.url, access.key, limits=for_people(access.limits)) as service:
        endpoint = service.endpoint(access.endpoint)
        access.say(WITHIN)
        try:
            return await work(endpoint, access)
        except (NotSent, Unanswered) as error:
            raise StoppedError(str(error)) from None


# --- submitting


async def run(job: JobInput, endpoint: "EndpointJobs", access: Access) -> int:
    record = await endpoint.run(job.input, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config)
    return _show(record, access)


async def runsync(job: JobInput, wait: int | None, endpoint: "EndpointJobs", access: Access) -> int:
    record = await endpoint.runsync(
        job.input, wait=wait, follow=False, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config
    )
    if not record.finished and record.id:
        # Also with --json: whoever interrupts this now needs the id.
        printing.say(f"job {record.id} is {record.status}; asking until it has finished")
        record = await endpoint.follow(record.id)
    return _show(record, access)


def _show(record: "JobRecord", access: Access) -> int:
    if access.as_json:
        api_show.put_answer(record.raw)
    else:
        api_show.put_job(record)
    return JOB_FAILED_EXIT_CODE if record.finished and record.status != "COMPLETED" else 0


# --- asking


async def status(job: str, endpoint: "EndpointJobs", access: Access) -> int:
    return _show(await endpoint.status(job), access)


async def stream(job: str, endpoint: "EndpointJobs", access: Access) -> int:
    stream = endpoint.stream(job)
    chunks = 0
    async for chunk in stream:
        api_show.put_chunk(chunk, as_json=access.as_json)
        chunks += 1
    access.say(f"job {job} is {stream.status}; {chunks:,} {'chunk' if chunks == 1 else 'chunks'}")
    return 0 if stream.status == "COMPLETED" else JOB_FAILED_EXIT_CODE


async def health(endpoint: "EndpointJobs", access: Access) -> int:
    health = await endpoint.health()
    if access.as_json:
        api_show.put_answer(health.raw)
    else:
        api_show.put_health(health)
    return 0


async def requests(endpoint: "EndpointJobs", access: Access) -> int:
    api_show.put_json_answer(await endpoint.requests(), as_json=access.as_json)
    return 0


# --- changing


async def cancel(job: str, endpoint: "EndpointJobs", access: Access) -> int:
    _show(await endpoint.cancel(job), access)
    return 0


async def retry(job: str, endpoint: "EndpointJobs", access: Access) -> int:
    return _show(await endpoint.retry(job), access)


async def purge(
    load: Callable[[], App], ledger: Path | None, yes: bool, endpoint: "EndpointJobs", access: Access
) -> int:
    if ledger is not None:
        for line in await _stakes(load, ledger, access):
            printing.warn(line)
    confirm(f"take every waiting job out of the queue of {access.endpoint}?", yes=yes)
    purged = await endpoint.purge_queue()
    if access.as_json:
        api_show.put_answer(purged.raw)
    else:
        api_show.put_purged(purged)
    return 0


async def _stakes(load: Callable[[], App], ledger: Path, access: Access) -> list[str]:
    """What purging would do to the runs of the ledger."""
    try:
        runs = await load().status(ledger)
    except OrchestratorError as error:
        return [f"whether {ledger} has jobs there could not be seen: {error}"]
    affected = [run for run in runs if run.endpoint == access.endpoint and run.service_url.rstrip("/") == access.url]
    return [_stake(run, ledger, at_service) for run in affected if (at_service := _at_service(run))]


def _at_service(run: RunStatus) -> int:
    return sum(run.jobs.get(state, 0) for state in ("submitting", "uncertain", "outstanding"))


def _stake(run: RunStatus, ledger: Path, at_service: int) -> str:
    jobs = "1 job" if at_service == 1 else f"{at_service:,} jobs"
    return f"run {run.run} of {ledger} has {jobs} at this endpoint; those that still wait in its queue go, too"


async def openai(path: str, body: bytes | None, endpoint: "EndpointJobs", access: Access) -> int:
    api_show.put_json_answer(await endpoint.openai(path, body), as_json=access.as_json)
    return 0
