"""A batch from its input to its files: the verb `run`."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from orchestrator.api.foreground.foreground_run import Foreground
from orchestrator.api.foreground.run_files import RunFiles, checked_files
from orchestrator.api.foreground.run_log import log_of, written
from orchestrator.api.hosting.host import host_of
from orchestrator.api.messages.target_checks import check_run_receivers
from orchestrator.api.runs.file_owners import FileStates
from orchestrator.api.runs.run_defaults import recall
from orchestrator.api.runs.run_identity import check_given
from orchestrator.api.runs.settings_check import check_not_planned
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import NotBegunError, UsageError, leading
from orchestrator.settings.run_checks import check_brakes
from orchestrator.settings.run_request import RunRequest
from orchestrator.stores.object_url import asked_about
from orchestrator.views.status import Summary


async def run(
    request: RunRequest,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> Summary:
    """Runs or resumes a batch until every job has an outcome, or `stop` is set.

    Where another process works on the ledger, the jobs are taken in beside it, and it serves the run.

    Raises `UsageError` (nothing was sent), `NotBegunError` where `stop` is set before anything has begun,
    `StoppedError` where going on is pointless and other `OrchestratorError`s; everything so far is in the ledger.
    Whatever ends a run that had begun has an attribute `summary`, which says how far it came.
    """
    console, dependencies = console or SilentConsole(), dependencies or Dependencies()
    async with unless_stopped(stop):
        await check_given(request)
        if request.settings is not None:
            check_run_receivers(request.settings.notify, request.connection.targets, dependencies.environ)
        request, before = await _recalled(request, console, dependencies)
    log = log_of(request, console, dependencies.clock, dependencies.environ)
    host = host_of(request, log or console, dependencies, stop, doing=f"run {request.name}")
    foreground = Foreground(request, host, log, RunFiles(request, host.console, before))
    try:
        with written(log, f"{request.name} of {request.ledger}", foreground.why_ended):
            return await foreground.run()
    except BaseExceptionGroup as group:
        cause = leading(group)
        if not isinstance(cause, UsageError):
            cause.summary = foreground.so_far  # type: ignore[attr-defined]  # a defect's exception may be anybody's
        raise cause from group


@asynccontextmanager
async def unless_stopped(stop: anyio.Event | None) -> AsyncIterator[None]:
    """Leaves what is done inside, before anything has begun, once `stop` is set. Raises `NotBegunError` then."""
    is_done = False

    async def leave(stop: anyio.Event) -> None:
        await stop.wait()
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            if stop is not None:
                tasks.start_soon(leave, stop)
            yield
            is_done = True
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise leading(errors) from errors
    if not is_done:
        raise NotBegunError


async def _recalled(request: RunRequest, console: Console, dependencies: Dependencies) -> tuple[RunRequest, FileStates]:
    """Goes on with what the run was told last, where this request says nothing else; and how its files are found.

    What can be refused is refused here, before anything is opened: raises `UsageError`.
    """
    recalled = await recall(request, dependencies)
    request = recalled.request
    if request.settings is not None:
        check_brakes(request.settings)
        check_not_planned(request.settings)
    before = await asked_about(
        lambda: checked_files(request, are_remembered=recalled.has_files), request.output, request.errors
    )
    if recalled.words:
        console.info(f"{request.name}: as before: {shlex.join(recalled.words)}")
    return request, before
