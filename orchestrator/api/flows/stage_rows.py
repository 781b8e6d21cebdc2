"""The rows of a stage: which endpoint they are for, and how they are read from an input or made of other rows."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from orchestrator.api.flows.flow_input import FlowInput
from orchestrator.api.flows.stage_settings import stage_choices
from orchestrator.api.outcomes.row_input import row_batches, row_variables
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.core.service.profiles import address_of, place, profile_of
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.engine.flows.row_mapper import RowMapper
from orchestrator.engine.intake.intake import InputBatch
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import is_local
from orchestrator.errors import UsageError
from orchestrator.formats.input.readers import ReadOptions
from orchestrator.formats.input.sources import InputPositions
from orchestrator.ledger import Ledger
from orchestrator.settings import connection_settings, run_request
from orchestrator.settings.connection_settings import PROFILE, ConnectionSettings, own_keys, place_for, whose
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import BODY_BYTES_MAX_DEFAULT, LOCAL


def stage_endpoint(stage: Stage, connection: ConnectionSettings) -> tuple[str, str]:
    """The service and the endpoint of `stage`; for a command, this machine and its words. Raises `UsageError` where
    its profile is not ours, or is elsewhere.
    """
    if stage.command:
        return LOCAL, shlex.join(stage.command)
    endpoint = stage_choices(stage)[run_request.ENDPOINT]
    assert endpoint is not None
    return LOCAL if is_local(endpoint) else place_for(endpoint, _address_of(stage, connection)), endpoint


def _address_of(stage: Stage, connection: ConnectionSettings) -> str:
    choices = stage_choices(stage)
    ours = connection.serverless_url.rstrip("/")
    profile = choices[PROFILE]
    if profile is not None and profile != profile_of(ours):
        raise UsageError(f"the stage {stage.name} {whose(place(address_of(ours), profile))}; nothing was sent")
    url = (choices[connection_settings.SERVERLESS_URL] or ours).rstrip("/")
    if url in (ours, address_of(ours)):
        return ours
    if profile is not None:
        raise UsageError(f"the stage {stage.name} is at {url}, and its profile {profile} at {address_of(ours)}")
    return url


async def stage_batches(
    source: FlowInput,
    stage: Stage,
    settings: RunSettings,
    ledger: Ledger,
    connection: ConnectionSettings,
    environ: Mapping[str, str],
    *,
    webhook_bytes: int,
) -> tuple[Iterator[InputBatch], Callable[[int], str]]:
    """The rows of `source` for `stage`, whose run has `settings`, and what says where each stands."""
    choices, places = stage_choices(stage), InputPositions()
    reading = ReadOptions(
        settings=choices.build(InputSettings),
        variables=await row_variables(ledger, connection, settings, environ),
        run_policy=settings.policy,
        webhook_bytes=webhook_bytes,
        body_bytes_max=choices[run_request.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
        is_resumable=settings.resumable,
        vias=settings.vias,
    )
    return source.watched(row_batches(str(source.path), reading, places)), places.of


def stage_row_mapper(
    pipeline: Pipeline,
    stage: Stage,
    connection: ConnectionSettings,
    dependencies: Dependencies,
    *,
    webhook_bytes: int,
    now: Callable[[], int],
) -> RowMapper:
    """What makes the rows of `stage` of those of other stages."""
    settings, environ = stage_choices(stage).run_settings(), dependencies.environ
    keys = own_keys(connection, environ, pipeline.secret_variables)
    return RowMapper(
        stage=stage,
        folder=Path(pipeline.folder),
        is_folder=dependencies.is_folder,
        variables=RowVariables(environ, settings.allow_env, keys),
        policy=settings.policy,
        is_resumable=settings.resumable,
        webhook_bytes=webhook_bytes,
        body_bytes_max=stage_choices(stage)[run_request.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
        now=now,
        vias=settings.vias,
        code=dependencies.user_code(),
    )
