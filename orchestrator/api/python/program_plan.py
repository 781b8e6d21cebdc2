"""The plan of a program's inputs: what it has as values is written to a file for as long as that takes."""

import tempfile
from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.api.planning.plan import plan
from orchestrator.api.python.inputs import Inputs, check_inputs
from orchestrator.api.python.results import Job
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.keyword_options import settings_from
from orchestrator.core.planning.plan_types import Plan
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import absolute_members
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import UsageError
from orchestrator.settings import command_requests, run_request
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import BODY_BYTES_MAX_DEFAULT
from orchestrator.stores.object_url import location_of
from orchestrator.user_code import call, each, each_awaited

UNNAMED = "plan"
"""What a run is called that has no name yet."""


async def planned(
    inputs: Inputs,
    choices: Choices,
    options: Mapping[str, object],
    *,
    connection: ConnectionSettings,
    dependencies: Dependencies,
    console: Console,
) -> Plan:
    """How a run of `inputs` would go, with what was chosen. Raises what `plan` raises, and `UserCodeError`."""
    check_inputs(inputs)
    endpoint = choices[run_request.ENDPOINT]
    if endpoint is None:
        raise UsageError("endpoint= is missing: give your endpoint's id, or local:FILE.py:FUNCTION")
    names = EndpointNames(connection=connection, dependencies=dependencies)
    endpoint = await names.id_of(endpoint)
    given = fspath(inputs) if isinstance(inputs, str | PathLike) else None
    name = choices[run_request.NAME] or (UNNAMED if given is None else Path(location_of(given).name).stem)
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/inputs.jsonl" if given is None else given
        if given is None:
            await _written(inputs, Path(source))
        run = RunRequest(
            name=name,
            source=source,
            endpoint=endpoint,
            members=absolute_members(await names.in_members(choices.members)),
            ledger=choices.ledger,
            connection=connection,
            settings=settings_from(choices, options, None),
            body_bytes_max=choices[run_request.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
        )
        figures = choices.build(PlanFigures, command_requests.FIGURES_OF_PLAN)
        request = PlanRequest(run=run, figures=figures, probe=choices[command_requests.PROBE])
        return await plan(request, console, dependencies)


async def _written(inputs: Any, path: Path) -> None:
    """Writes values as lines. Raises `UserCodeError`."""
    with path.open("wb") as file:
        if isinstance(inputs, AsyncIterable):
            async with aclosing(each_awaited(inputs)) as values:
                async for value in values:
                    file.write(call(_line, value))
        else:
            file.writelines(call(_line, value) for value in each(inputs))


def _line(value: Mapping[str, Any] | Job) -> bytes:
    try:
        whole = {"custom_id": value.custom_id, "input": value.input} if isinstance(value, Job) else value
        return msgspec.json.encode(whole) + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"an input cannot be written as JSON: {error}") from None
