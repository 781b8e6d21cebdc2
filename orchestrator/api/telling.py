"""Tells people of flows and schedules: posts to their URL, or begins their command."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, Final
from urllib.parse import urlsplit

from anyio import to_thread

from orchestrator.core.flow_paths import moment
from orchestrator.core.notifications import headers, message_id, signing_key
from orchestrator.core.pipelines import Notify, Pipeline
from orchestrator.core.placeholders import expanded, variables
from orchestrator.core.s3_config import REFERENCE
from orchestrator.engine.dependencies import Dependencies
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.ledger.outbox import Notification

COMMAND_S_MAX: Final = 60.0
"""So long a command may take."""

STDERR_SHOWN: Final = 200
"""So much of what a command says is told where it fails."""

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
    # Files, not pipes: what it does not read breaks nothing, and what it leaves running keeps nobody waiting.
    with tempfile.TemporaryFile() as body, tempfile.TemporaryFile() as stderr:
        body.write(told.body + b"\n")
        body.seek(0)
        begin = partial(_begin, command, pipeline.folder, given, body, stderr)
        try:
            process = await to_thread.run_sync(begin)
        except OSError as error:
            return f"the command {command[0]} cannot be run ({error.strerror})"
        try:
            code = await to_thread.run_sync(partial(process.wait, within_s), abandon_on_cancel=True)
        except subprocess.TimeoutExpired:
            return f"the command {command[0]} did not end within {within_s:g} s"
        finally:
            _kill(process)
        return _ended(command[0], code, stderr) if code else None


def _begin(
    command: Sequence[str], folder: str, environ: Mapping[str, str], body: IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """In a session of its own, so that it can be ended with all that it begins."""
    return subprocess.Popen(  # noqa: S603  what the pipeline's file says
        command,
        stdin=body,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd=folder,
        env=environ,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(program: str, code: int, stderr: IO[bytes]) -> str:
    stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, stderr.tell() - STDERR_SHOWN))
    said = stderr.read().decode(errors="replace").strip()
    return f"the command {program} ended with exit code {code}{said and ': '}{said}"
