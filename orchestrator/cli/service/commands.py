"""`orchestrator api`: the raw operations of an endpoint, one request each, without a ledger.

They are sent within 5 % of the endpoint's limits, which a running batch leaves free (but of `/run`), so that a person
can look and intervene at any time; that is said where a process works on the ledger. What submits is never repeated;
questions are, while the connection or the service fails.
"""

import os
from functools import partial
from typing import Annotated, Final

import typer

from orchestrator.api.runs.connection import connection_of
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.endpoint_names import is_looked_up
from orchestrator.cli.framework.flags import flags_of
from orchestrator.cli.framework.requests import ledger_of
from orchestrator.cli.framework.service_access import Command, Connect, Interface, Noun
from orchestrator.cli.service import calls
from orchestrator.cli.service.calls import Work
from orchestrator.cli.service.job_input import JobInput, is_typed, object_text, read_job_input
from orchestrator.core.service.row_variables import EVERYTHING, RowVariables
from orchestrator.core.text.durations import Policy, parse_duration
from orchestrator.errors import UsageError
from orchestrator.settings import command_settings, connection_settings, request_settings, run_settings
from orchestrator.settings.profiles import own_keys
from orchestrator.settings.run_settings import ALLOW_ENV
from orchestrator.settings.sources import Choices
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


def add_api(commands: typer.Typer, connect: Connect = service_access.connect) -> None:
    """Registers `api` and its operations."""
    api = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode="rich",
        help="Single requests to an endpoint, without a ledger.\n\nThe API key comes from ORCHESTRATOR_API_KEY,"
        " RUNPOD_API_KEY or the variable that the profile names.",
    )
    commands.add_typer(api, name="api")
    operations = Noun(
        api,
        Interface.JOBS,
        connect,
        **flags_of(connection_settings.SERVERLESS_URL, command_settings.CONFIG),
        json=service_access.Json,
    )
    _add_submits(operations)
    _add_questions(operations)
    _add_changes(operations)
    _add_openai(operations)


_policy: Final = flags_of(*run_settings.POLICY, ALLOW_ENV)


def _add_submits(api: Noun) -> None:
    @api.command(**_policy)
    def run(endpoint: EndpointId, input: Input, webhook: Webhook = None, *, choices: Choices) -> Command:  # noqa: A002  the flag
        """Submit a job that runs in the background. Never repeated by itself.

        Example: orchestrator api run abc123 --input prompt.json
        """
        return _at(endpoint, choices, partial(calls.api_run, _job_input(input, webhook, choices)))

    @api.command(**_policy)
    def runsync(
        endpoint: EndpointId,
        input: Input,  # noqa: A002
        wait: Wait = None,
        webhook: Webhook = None,
        *,
        choices: Choices,
    ) -> Command:
        """Submit a job and wait for its end; one that takes longer than --wait is asked for until it has finished.

        Example: orchestrator api runsync abc123 --input '{"prompt": "a cat"}'
        """
        job = _job_input(input, webhook, choices)
        return _at(endpoint, choices, partial(calls.api_runsync, job, None if wait is None else _milliseconds(wait)))


def _add_questions(api: Noun) -> None:
    @api.command()
    def status(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Show how a job stands, with its result once it has one.

        Example: orchestrator api status abc123 JOB
        """
        return _at(endpoint, choices, partial(calls.api_status, job))

    @api.command()
    def stream(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Print a job's chunks as they come, one a line, until it ends. The service hands out each chunk once.

        Example: orchestrator api stream abc123 JOB
        """
        return _at(endpoint, choices, partial(calls.api_stream, job))

    @api.command()
    def health(endpoint: EndpointId, *, choices: Choices) -> Command:
        """Show how many jobs and workers the endpoint has in which state.

        Example: orchestrator api health abc123
        """
        return _at(endpoint, choices, calls.api_health)

    @api.command()
    def requests(endpoint: EndpointId, *, choices: Choices) -> Command:
        """Print whatever /requests answers; it is documented nowhere, and an endpoint may not have it.

        Example: orchestrator api requests abc123
        """
        return _at(endpoint, choices, calls.api_requests)


def _add_changes(api: Noun) -> None:
    @api.command()
    def cancel(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Stop a job that waits or runs.

        Example: orchestrator api cancel abc123 JOB
        """
        return _at(endpoint, choices, partial(calls.api_cancel, job))

    @api.command()
    def retry(endpoint: EndpointId, job: JobId, *, choices: Choices) -> Command:
        """Queue a failed or timed-out job again, under the same id. Its former result is gone then.

        Example: orchestrator api retry abc123 JOB
        """
        return _at(endpoint, choices, partial(calls.api_retry, job))

    @api.command(**flags_of(request_settings.LEDGER))
    def purge(endpoint: EndpointId, yes: service_access.Yes = False, *, choices: Choices) -> Command:
        """Take every waiting job out of the endpoint's queue; asks first, and warns if the ledger has jobs there.

        Example: orchestrator api purge abc123
        """
        ledger = ledger_of(choices)
        return _at(endpoint, choices, partial(calls.api_purge, ledger if ledger.exists() else None, yes))


def _add_openai(api: Noun) -> None:
    @api.command()
    def openai(endpoint: EndpointId, path: OpenAiPath, input: Body = None, *, choices: Choices) -> Command:  # noqa: A002
        """Call a worker's OpenAI-compatible interface, as in: openai ID /v1/chat/completions --input body.json.

        Example: orchestrator api openai abc123 /v1/chat/completions --input body.json
        """
        body = None if input is None else object_text(input)
        return _at(endpoint, choices, partial(calls.api_openai, path, body))


def _at(endpoint: str, choices: Choices, work: Work) -> Command:
    quiet = choices.is_on(command_settings.QUIET) or choices.is_on(command_settings.JSON)
    named = is_looked_up(endpoint, choices)
    return partial(calls.send, endpoint, named, quiet, ledger_of(choices), work)


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
