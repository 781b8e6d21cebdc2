"""Tells people of flows and schedules: posts to their URL, or begins their command."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from orchestrator.api.user_commands import carry_out
from orchestrator.core.flow_paths import moment
from orchestrator.core.notifications import headers, message_id, signing_key
from orchestrator.core.pipelines import Notify, Pipeline
from orchestrator.core.placeholders import expanded, variables
from orchestrator.core.s3_config import REFERENCE
from orchestrator.engine.dependencies import Dependencies
from orchestrator.engine.upkeep.command_stage import CommandFailed
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.ledger.outbox import Notification

COMMAND_S_MAX: Final = 60.0
"""So long a command may take."""

_OK: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)


async def told_to(told: Notification, pipeline: Pipeline, dependencies: Dependencies) -> str | None:
    """Sends one notification; returns why nobody has taken it, None where somebody has."""
    notify = pipeline.notify
    if notify is None:
        return "its pipeline tells nobody any more"
    if notify.url is not None:
        return await _posted(told, pipeline.name, notify, dependencies)
    return await commanded(told, pipeline, dependencies.environ)


def key_of(notify: Notify, environ: Mapping[str, str]) -> bytes | None:
    """The key that messages are signed with; None where they are not. Raises `UsageError` where it is not there."""
    if notify.secret is None:
        return None
    found = REFERENCE.fullmatch(notify.secret)
    assert found is not None
    name = found[1]
    if not (secret := environ.get(name)):
        raise UsageError(f"the secret of [notify] is not there: {name} is not set in the environment of this process")
    try:
        return signing_key(secret)
    except ValueError as error:
        raise UsageError(f"the secret of [notify] cannot be used: {name}: {error}") from None


async def _posted(told: Notification, name: str, notify: Notify, dependencies: Dependencies) -> str | None:
    clock, url = dependencies.clock, notify.url or ""
    try:
        key = key_of(notify, dependencies.environ)
        message = message_id(told.id, told.owed_at, told.flow or name)
        sent = headers(message, at=clock.now(), body=told.body, key=key)
        status = await dependencies.post_hook(url, sent, told.body, clock)
    except OrchestratorError as error:
        return str(error)
    if status in _OK:
        return None
    host = urlsplit(url).hostname
    if status in _REDIRECTS:
        return f"{host} answered {status}, and redirects are not followed: write the address that it leads to"
    return f"{host} answered {status}"


async def commanded(
    told: Notification, pipeline: Pipeline, environ: Mapping[str, str], *, within_s: float = COMMAND_S_MAX
) -> str | None:
    """Has the pipeline's command take one, on its standard input; returns why it has not, None where it has."""
    assert pipeline.notify is not None
    nothing = moment(pipeline, told.owed_at)  # braces that mean themselves are all that there are
    command = [expanded(each, nothing, {}) for each in pipeline.notify.command]
    given = dict(environ)
    if told.fire_at is not None:
        given |= variables(moment(pipeline, told.fire_at, told.again or 1))
    with tempfile.TemporaryFile() as body:  # no pipe: what it does not read breaks nothing
        body.write(told.body + b"\n")
        body.seek(0)
        try:
            await carry_out(
                command,
                told=f"the command {command[0]}",
                folder=Path(pipeline.folder),
                environ=given,
                given=body,
                within_s=within_s,
            )
        except CommandFailed as failed:
            return str(failed)
    return None
