"""`orchestrator api`: the raw operations of an endpoint, one request each, without a ledger.

They are sent within 5 % of the endpoint's limits, which a running batch leaves free (but of `/run`), so that a person
can look and intervene at any time; that is said where a process works on the ledger. What submits is never repeated;
questions are, while the connection or the service fails.
"""

import os
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from orchestrator.api.runs.service_connection import connection_of
from orchestrator.cli.framework.flags import flags_of
from orchestrator.cli.framework.service_access import Interface, Yes, at_account, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.service import api_output
from orchestrator.cli.service.api_calls import JOB_FAILED_EXIT_CODE, reach, show_job, stakes, telling_if_interrupted
from orchestrator.cli.service.job_input import JobInput, is_typed, object_text, read_job_input
from orchestrator.core.service.row_variables import EVERYTHING, RowVariables
from orchestrator.core.text.durations import Policy, parse_duration
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import connection_settings, run_request
from orchestrator.settings.addresses.ledger_address import may_exist
from orchestrator.settings.connection_settings import own_keys
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.run_settings import ALLOW_ENV
from orchestrator.settings.sources import Choices
from orchestrator.units import MILLISECOND_US

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's id or name.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as the service gave it.")]
Input = Annotated[
    str,
    typer.Option(
        metavar="FILE|-|JSON",
        help="The input: a file, [bold]-[/] for standard input, or the JSON object itself. An object with an object"
        ' "input" in it is a whole job request (input, policy, s3Config, webhook).',
    ),
]
Body = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|-|JSON",
        help="The request body: a file, [bold]-[/] for standard input, or the JSON object itself."
        " Without it, the request is a GET.",
    ),
]
Webhook = Annotated[
    str | None, typer.Option(metavar="URL", help="The service calls this URL when the job has finished.")
]
Wait = Annotated[
    str | None,
    typer.Option(metavar="D", help="How long the service may hold the request; 1s to 5m. Default: the service's, 90s."),
]
BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The id of a batch, as the service gave it.")]
OpenAiPath = Annotated[
    str, typer.Argument(metavar="PATH", help="The path below /openai, as in [bold]/v1/chat/completions[/].")
]


api = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Single requests to an endpoint, without a ledger.\n\nThe API key comes from ORCHESTRATOR_API_KEY,"
    " RUNPOD_API_KEY or the variable that the profile names.",
)
_shared = at_account(Interface.JOBS, connection_settings.SERVERLESS_URL)
_policy: Final = flags_of(*job_policy.POLICY, ALLOW_ENV)


# --- submitting


@api.command("run")
@_shared(**_policy)
async def api_run(
    endpoint: EndpointId,
    input: Input,  # noqa: A002  the flag
    webhook: Webhook = None,
    *,
    choices: Choices,
    account: "Account",
) -> int:
    """Submit a job that runs in the background. Never repeated by itself.

    Example: orchestrator api run abc123 --input prompt.json
    """
    job = _job_input(input, webhook, choices)
    jobs, shown = await reach(endpoint, account, choices)
    with telling_if_interrupted():
        record = await jobs.run(job.input, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config)
    return show_job(record, shown)


@api.command("runsync")
@_shared(**_policy)
async def api_runsync(
    endpoint: EndpointId,
    input: Input,  # noqa: A002
    wait: Wait = None,
    webhook: Webhook = None,
    *,
    choices: Choices,
    account: "Account",
) -> int:
    """Submit a job and wait for its end; one that takes longer than --wait is asked for until it has finished.

    Example: orchestrator api runsync abc123 --input '{"prompt": "a cat"}'
    """
    job, wait_ms = _job_input(input, webhook, choices), None if wait is None else _milliseconds(wait)
    jobs, shown = await reach(endpoint, account, choices)
    with telling_if_interrupted():
        record = await jobs.runsync(
            job.input, wait=wait_ms, follow=False, policy=job.policy, webhook=job.webhook, s3_config=job.s3_config
        )
    if not record.finished and record.id:
        # Also with --json: whoever interrupts this now needs the id.
        streams.say(f"job {record.id} is {record.status}; asking until it has finished")
        record = await jobs.follow(record.id)
    return show_job(record, shown)


# --- asking


@api.command("status")
@_shared()
async def api_status(endpoint: EndpointId, job: JobId, *, choices: Choices, account: "Account") -> int:
    """Show how a job stands, with its result once it has one.

    Example: orchestrator api status abc123 JOB
    """
    jobs, shown = await reach(endpoint, account, choices)
    return show_job(await jobs.status(job), shown)


@api.command("stream")
@_shared()
async def api_stream(endpoint: EndpointId, job: JobId, *, choices: Choices, account: "Account") -> int:
    """Print a job's chunks as they come, one a line, until it ends. The service hands out each chunk once.

    Example: orchestrator api stream abc123 JOB
    """
    jobs, shown = await reach(endpoint, account, choices)
    stream = jobs.stream(job)
    chunks = 0
    async for chunk in stream:
        api_output.put_chunk(chunk, as_json=shown.as_json)
        chunks += 1
    shown.say(f"job {job} is {stream.status}; {counted(chunks, 'chunk')}")
    return 0 if stream.status == "COMPLETED" else JOB_FAILED_EXIT_CODE


@api.command("health")
@_shared()
async def api_health(endpoint: EndpointId, *, choices: Choices, account: "Account") -> None:
    """Show how many jobs and workers the endpoint has in which state.

    Example: orchestrator api health abc123
    """
    jobs, shown = await reach(endpoint, account, choices)
    health = await jobs.health()
    if shown.as_json:
        api_output.put_answer(health.raw)
    else:
        api_output.put_health(health)


@api.command("requests")
@_shared()
async def api_requests(endpoint: EndpointId, *, choices: Choices, account: "Account") -> None:
    """Print whatever /requests answers; it is documented nowhere, and an endpoint may not have it.

    Example: orchestrator api requests abc123
    """
    jobs, shown = await reach(endpoint, account, choices)
    api_output.put_json_answer(await jobs.requests(), as_json=shown.as_json)


@api.command("batches")
@_shared()
async def api_batches(endpoint: EndpointId, *, choices: Choices, account: "Account") -> None:
    """List the endpoint's batches (the service's own Batch, a beta), newest first, with how far each is.

    Example: orchestrator api batches abc123
    """
    jobs, shown = await reach(endpoint, account, choices)
    api_output.put_batches([batch async for batch in jobs.batches.all()], as_json=shown.as_json)


# --- changing


@api.command("cancel")
@_shared()
async def api_cancel(endpoint: EndpointId, job: JobId, *, choices: Choices, account: "Account") -> None:
    """Stop a job that waits or runs.

    Example: orchestrator api cancel abc123 JOB
    """
    jobs, shown = await reach(endpoint, account, choices)
    record = await jobs.cancel(job)
    show_job(record, shown)
    if record.finished and record.status != "CANCELLED":
        streams.warn(f"job {job} had ended before: it is {record.status}")


@api.command("retry")
@_shared()
async def api_retry(endpoint: EndpointId, job: JobId, *, choices: Choices, account: "Account") -> int:
    """Queue a failed or timed-out job again, under the same id. Its former result is gone then.

    Example: orchestrator api retry abc123 JOB
    """
    jobs, shown = await reach(endpoint, account, choices)
    return show_job(await jobs.retry(job), shown)


@api.command("purge")
@_shared(**flags_of(run_request.LEDGER))
async def api_purge(endpoint: EndpointId, yes: Yes = False, *, choices: Choices, account: "Account") -> None:
    """Take every waiting job out of the endpoint's queue; asks first, and warns if the ledger has jobs there.

    Example: orchestrator api purge abc123
    """
    jobs, shown = await reach(endpoint, account, choices)
    ledger = choices.ledger
    for line in await stakes(ledger, jobs) if may_exist(ledger) else ():
        streams.warn(line)
    confirm(f"take every waiting job out of the queue of {jobs.id}?", yes=yes)
    purged = await jobs.purge_queue()
    if shown.as_json:
        api_output.put_answer(purged.raw)
    else:
        api_output.put_purged(purged)


@api.command("cancel-batch")
@_shared()
async def api_cancel_batch(
    endpoint: EndpointId, batch: BatchId, yes: Yes = False, *, choices: Choices, account: "Account"
) -> None:
    """Cancel a batch: what waits is not executed, what runs goes on and is paid. Asks first.

    Example: orchestrator api cancel-batch abc123 BATCH
    """
    jobs, shown = await reach(endpoint, account, choices)
    confirm(f"cancel batch {batch} of {jobs.id}?", yes=yes)
    cancelled = await jobs.batches.cancel(batch)
    if shown.as_json:
        api_output.put_answer(msgspec.json.encode(cancelled))
    else:
        api_output.put_batches([cancelled], as_json=False)


@api.command("openai")
@_shared()
async def api_openai(
    endpoint: EndpointId,
    path: OpenAiPath,
    input: Body = None,  # noqa: A002
    *,
    choices: Choices,
    account: "Account",
) -> None:
    """Call a worker's OpenAI-compatible interface, as in: openai ID /v1/chat/completions --input body.json.

    Example: orchestrator api openai abc123 /v1/chat/completions --input body.json
    """
    body = None if input is None else object_text(input)
    jobs, shown = await reach(endpoint, account, choices)
    answer = await jobs.openai(path, body, on_event=None if shown.as_json else api_output.put_event)
    if shown.as_json or not isinstance(answer.value, tuple):  # else its events have been shown as they came
        api_output.put_json_answer(answer, as_json=shown.as_json)


def _job_input(given: str, webhook: str | None, choices: Choices) -> JobInput:
    # What somebody types, he names himself; what comes out of a file may be anybody's.
    allowed = (EVERYTHING,) if is_typed(given) else choices[ALLOW_ENV] or ()
    connection = connection_of(choices, os.environ, among=())
    variables = RowVariables(os.environ, allowed, own_keys(connection, os.environ))
    return read_job_input(given, policy=choices.build(Policy), webhook=webhook, variables=variables)


def _milliseconds(wait: str) -> int:
    try:
        return parse_duration(wait) // MILLISECOND_US
    except ValueError as error:
        raise UsageError(f"--wait: {error}") from None
