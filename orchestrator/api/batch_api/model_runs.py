"""What `orchestrator run` would be told for a batch of a model, as the configuration file has that."""

from msgspec.structs import replace

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.settings_check import check_run_endpoint, check_usable
from orchestrator.core.batch_api.posted_batch import PostedBatch
from orchestrator.errors import UsageError
from orchestrator.settings import run_request
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import InputFormat


async def model_run(
    batch: PostedBatch, choices: Choices, files: FileStore, names: EndpointNames, connection: ConnectionSettings
) -> RunRequest:
    """The run of a batch whose model was given `choices`: called by its id, and to be done in its window. Raises
    `UsageError`, and `StoppedError` where nobody can say which endpoint is meant.
    """
    endpoint = await names.id_of(choices[run_request.ENDPOINT] or "")
    members = await names.in_members(choices.members)
    settings = replace(choices.run_settings(), members=members)
    if not settings.finish_by or settings.finish_by > batch.expires_at:
        settings = replace(settings, finish_by=batch.expires_at)
    return RunRequest(
        name=batch.id,
        endpoint=endpoint,
        ledger=files.ledger.address,
        source=str(files.path(batch.input_file)),
        reading=InputSettings(format=InputFormat.OPENAI_BATCH),
        members=members,
        connection=connection,
        settings=settings,
    )


def check_model(choices: Choices) -> None:
    """Raises `UsageError`, with the place, where there can be no runs of a model that is served so."""
    settings, endpoint = choices.run_settings(), choices[run_request.ENDPOINT] or ""
    try:
        check_usable(settings, choices.origin)
        check_run_endpoint(settings, endpoint, choices.members, choices.origin)
    except UsageError as error:
        raise UsageError(f"{choices.origin(run_request.ENDPOINT)}: {error.message}") from None
