"""Tells people of flows and schedules: posts to their URL, or begins their command."""

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from orchestrator.api.flows.subprocesses import carry_out
from orchestrator.core.pipelines.flow_paths import moment
from orchestrator.core.pipelines.notifications import headers, message_id, signing_key
from orchestrator.core.pipelines.pipeline import Notify, Pipeline
from orchestrator.core.pipelines.placeholders import expanded, variables
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.engine.flows.command_stage import CommandFailed
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.command_names import ledger_words, message_with_commands
from orchestrator.settings.parsers.service import parse_hook_url
from orchestrator.settings.values import LEDGER_DEFAULT

COMMAND_S_MAX: Final = 60.0
"""So long a command may take."""

_OK: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)


async def send_notification(
    told: Notification, pipeline: Pipeline, ledger: Path, dependencies: Dependencies
) -> str | None:
    """Sends one notification of `ledger`; returns why nobody has taken it, None where somebody has."""
    told, notify = replace(told, body=_with_commands(told.body, ledger)), pipeline.notify
    if notify is None:
        return "its pipeline tells nobody any more"
    if notify.url is not None:
        return await _posted(told, pipeline.name, notify, dependencies)
    return await commanded(told, pipeline, dependencies.environ)


def signature_key(notify: Notify, environ: Mapping[str, str]) -> bytes | None:
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


def _with_commands(body: bytes, ledger: Path) -> bytes:
    """A message whose commands find the ledger, wherever they are given."""
    return message_with_commands(body, ledger_words(ledger if ledger == LEDGER_DEFAULT else ledger.absolute()))


async def send_run_notification(message: RunMessage, ledger: Path, dependencies: Dependencies) -> str | None:
    """Sends one of a single run, whose command runs in the folder of `ledger`; returns why nobody has taken it, None
    where somebody has.
    """
    folder, message = ledger.parent.absolute(), replace(message, body=_with_commands(message.body, ledger))
    notify, environ = message.notify, dependencies.environ
    if notify is None:
        return "the run tells nobody any more"
    if (named := REFERENCE.fullmatch(notify)) is not None:
        notify = environ.get(named[1], "").strip()
        try:
            notify = parse_hook_url(notify)
        except ValueError:
            return f"{named[1]}, which is to hold the URL, is not set in the environment of this process, or holds none"
    if "://" not in notify.split(" ")[0]:
        given = {**environ, "ORCHESTRATOR_RUN": message.name}
        return await _by_command(shlex.split(notify), message.body, folder, given)
    number = message_id(message.id, message.owed_at, f"run {message.run}")
    return await _by_post(notify, number, message.body, None, dependencies)


async def _posted(told: Notification, name: str, notify: Notify, dependencies: Dependencies) -> str | None:
    try:
        key = signature_key(notify, dependencies.environ)
    except OrchestratorError as error:
        return str(error)
    number = message_id(told.id, told.owed_at, told.flow or name)
    return await _by_post(notify.url or "", number, told.body, key, dependencies)


async def _by_post(url: str, number: str, body: bytes, key: bytes | None, dependencies: Dependencies) -> str | None:
    clock = dependencies.clock
    try:
        sent = headers(number, at=clock.now(), body=body, key=key)
        status = await dependencies.post_hook(url, sent, body, clock)
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
    return await _by_command(command, told.body, Path(pipeline.folder), given, within_s=within_s)


async def _by_command(
    command: Sequence[str],
    message: bytes,
    folder: Path,
    environ: Mapping[str, str],
    *,
    within_s: float = COMMAND_S_MAX,
) -> str | None:
    with tempfile.TemporaryFile() as body:  # no pipe: what it does not read breaks nothing
        body.write(message + b"\n")
        body.seek(0)
        try:
            await carry_out(
                command,
                told=f"the command {command[0]}",
                folder=folder,
                environ=environ,
                given=body,
                within_s=within_s,
            )
        except CommandFailed as failed:
            return str(failed)
    return None
