"""`orchestrator api`: the raw operations of an endpoint, one request each, without a ledger.

They are sent within 5 % of the endpoint's limits, which a running batch leaves free (but of `/run`), so that a person
can look and intervene at any time; that is said where a process works on the ledger. What submits is never repeated;
questions are, while the connection or the service fails.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import typer

from orchestrator import declared
from orchestrator.api.config import Choices
from orchestrator.api.connecting import connection_of
from orchestrator.cli import access, api_calls
from orchestrator.cli.access import Command, Connect, Interface, Noun
from orchestrator.cli.api_calls import Work
from orchestrator.cli.endpoint_names import is_looked_up
from orchestrator.cli.execution import App
from orchestrator.cli.job_input import JobInput, is_typed, object_text, read_job_input
from orchestrator.cli.options import flags_of
from orchestrator.cli.request import ledger_of, policy_of
from orchestrator.core.policy import parse_duration
from orchestrator.core.row_variables import EVERYTHING, RowVariables
from orchestrator.declared_inputs import ALLOW_ENV
from orchestrator.declared_profiles import own_keys
from orchestrator.errors import UsageError
from orchestrator.units import MILLISECOND_US

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
OpenAiPath = Annotated[
    str, typer.Argument(metavar="PATH", help="The path below /openai, as in [bold]/v1/chat/completions[/].")
]


def add_api(commands: typer.Typer, load: Callable[[], App], connect: Connect = access.connect) -> None:
    """Registers `api` and its operations."""
    api = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode="rich",
        help="Single requests to an endpoint, without a ledger.\n\nThe API key comes from ORCHESTRATOR_API_KEY,"
        " RUNPOD_API_KEY or the variable that the profile names.",
    )
    commands.add_typer(api, name="api")
    operations = Noun(
        api, Interface.JOBS, connect, **flags_of(declared.SERVERLESS_URL, declared.CONFIG), json=access.Json
    )
    _add_submits(operations)
    _add_questions(operations)
    _add_changes(operations, load)
    _add_openai(operations)


_policy: Final = flags_of(declared.TTL, declared.EXECUTION_TIMEOUT, declared.LOW_PRIORITY, ALLOW_ENV)


def _add_submits(api: Noun) -> None:
    @api.command(**_policy)
    def run(endpoint: EndpointId, input: Input, webhook: Webhook = None, *, choices: Choices) -> Command:  # noqa: A002  the flag
        """Submit a job that runs in the background. Never repeated by itself."""
        return _at(endpoint, choices, partial(api_calls.run, _job_input(input, webhook, choices)))

    @api.command(**_policy)
    def runsync(
        endpoint: EndpointId,
        input: Input,  # noqa: A002
        wait: Wait = None,
        webhook: Webhook = None,
        *,
        choices: Choices,
    ) -> Command:
        """Submit a job and wait for its end; one that takes longer than --wait is asked for until it has finished."""
        job = _job_input(input, webhook, choices)
        return _at(endpoint, choices, partial(api_calls.runsync, job, None if wait is None else _milliseconds(wait)))


def _add_questions(api: Noun) -> None:
    @api.command()
    def status(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Show how a job stands, with its result once it has one."""
        return _at(endpoint, choices, partial(api_calls.status, job))

    @api.command()
    def stream(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Print a job's chunks as they come, one a line, until it ends. The service hands out each chunk once."""
        return _at(endpoint, choices, partial(api_calls.stream, job))

    @api.command()
    def health(endpoint: EndpointId, *, choices: Choices) -> Command:
        """Show how many jobs and workers the endpoint has in which state."""
        return _at(endpoint, choices, api_calls.health)

    @api.command()
    def requests(endpoint: EndpointId, *, choices: Choices) -> Command:
        """Print whatever /requests answers; it is documented nowhere, and an endpoint may not have it."""
        return _at(endpoint, choices, api_calls.requests)


def _add_changes(api: Noun, load: Callable[[], App]) -> None:
    @api.command()
    def cancel(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Stop a job that waits or runs."""
        return _at(endpoint, choices, partial(api_calls.cancel, job))

    @api.command()
    def retry(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Queue a failed or timed-out job again, under the same id. Its former result is gone then."""
        return _at(endpoint, choices, partial(api_calls.retry, job))

    @api.command(**flags_of(declared.LEDGER))
    def purge(endpoint: EndpointId, yes: access.Yes = False, *, choices: Choices) -> Command:
        """Take every waiting job out of the endpoint's queue; asks first, and warns if the ledger has jobs there."""
        ledger = ledger_of(choices)
        return _at(endpoint, choices, partial(api_calls.purge, load, ledger if ledger.exists() else None, yes))


def _add_openai(api: Noun) -> None:
    @api.command()
    def openai(endpoint: EndpointId, path: OpenAiPath, input: Body = None, *, choices: Choices) -> Command:  # noqa: A002
        """Call a worker's OpenAI-compatible interface, as in: openai ID /v1/chat/completions --input body.json."""
        body = None if input is None else object_text(input)
        return _at(endpoint, choices, partial(api_calls.openai, path, body))


def _at(endpoint: str, choices: Choices, work: Work) -> Command:
    quiet = choices.is_on(declared.QUIET) or choices.is_on(declared.JSON)
    named = is_looked_up(endpoint, choices)
    return partial(api_calls.send, endpoint, named, quiet, ledger_of(choices), work)


def _job_input(given: str, webhook: str | None, choices: Choices) -> JobInput:
    # What somebody types, he names himself; what comes out of a file may be anybody's.
    allowed = (EVERYTHING,) if is_typed(given) else choices[ALLOW_ENV] or ()
    connection = connection_of(choices, os.environ, among=())
    variables = RowVariables(os.environ, allowed, own_keys(connection, os.environ))
    return read_job_input(given, policy=policy_of(choices), webhook=webhook, variables=variables)


def _milliseconds(wait: str) -> int:
    try:
        return parse_duration(wait) // MILLISECOND_US
    except ValueError as error:
        raise UsageError(f"--wait: {error}") from None
