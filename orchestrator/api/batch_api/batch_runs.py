"""A batch becomes a run: its file is checked, and taken in as `orchestrator run` would do it here.

What is wrong with it is said in OpenAI's codes, with lines. Whoever comes after a kill begins anew: rows that were
taken in are known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.api.batch_api.model_runs import model_run
from orchestrator.api.foreground.run_intake import RunIntake
from orchestrator.api.outcomes.row_input import input_reading
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.process_commands import ask_process
from orchestrator.core.batch_api.posted_batch import PostedBatch, PostedError, PostedState
from orchestrator.core.text.wording import counted
from orchestrator.engine.intake.intake import right_kept, until_taken_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import InputError, StoppedError, StorageError, UsageError
from orchestrator.formats.input.openai_requests import CheckedRequests, check_requests, first_model
from orchestrator.formats.input.readers import ReadOptions
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.sources import Choices

REFUSED: Final = "invalid_batch"
"""What it is called where nothing is wrong with any line, and it can be no run here all the same."""


@dataclass(kw_only=True, eq=False)
class BatchRuns:
    """Makes runs of batches, for the engine that works on the ledger."""

    files: FileStore
    models: Mapping[str, Choices]
    connection: ConnectionSettings
    dependencies: Dependencies
    console: Console
    webhook_bytes: Callable[[], int]
    wake: Callable[[], None]
    """Tells the engine that something was asked."""

    async def validate(self, batch: PostedBatch) -> None:
        """Makes a run of a batch, or refuses it. Raises `StorageError`."""
        try:
            errors = await self._begin(batch)
        except FileNotFoundError:  # deleted as the batch was made, or expired
            told = f"The file {batch.input_file} is not there any more."
            errors = [PostedError(code="file_not_found", message=told, param="input_file_id")]
        except InputError as error:
            errors = [PostedError(code=REFUSED, message=each) for each in error.problems]
        except StorageError:  # which is a `StoppedError` too, and says nothing of the batch
            raise
        except (UsageError, StoppedError) as error:
            errors = [PostedError(code=REFUSED, message=str(error))]
        batches = self.files.ledger.runs.posted.batches
        if not errors:
            await batches.move(batch, PostedState.IN_PROGRESS)
        elif await batches.move(batch, PostedState.FAILED, errors=msgspec.json.encode(errors), total=0):
            self.console.warn(f"{batch.id}: refused: {errors[0].message}")

    async def cancel(self, run: int) -> None:
        """Has a run cancelled whose batch is to end."""
        await ask_process(self.files.ledger, Action.CANCEL, run=run, asked=self.dependencies.asked, wake=self.wake)

    async def _begin(self, batch: PostedBatch) -> list[PostedError]:
        path = self.files.path(batch.input_file)
        model = await anyio.to_thread.run_sync(_first_model, path)
        request = None
        if model is not None and model in self.models:
            request = await self._request(batch, model)
        options = ReadOptions() if request is None else await self._options(request)
        checked = await anyio.to_thread.run_sync(self._checked, batch, path, options)
        if checked.errors:
            return [*checked.errors]
        assert checked.model is not None
        assert request is not None, "the first of requests that are all well is for a model that is served"
        self.console.info(
            f"{batch.id}: {counted(checked.rows, 'request')} of {batch.owner or 'a program'} for {checked.model}"
        )
        take_in = partial(self._take_in, batch, request, checked.model, checked.rows)
        await until_taken_in(take_in, batch.id, self.console.info)
        return []

    def _checked(self, batch: PostedBatch, path: Path, options: ReadOptions) -> CheckedRequests:
        with path.open("rb") as file:
            return check_requests(
                file,
                options.rows(),
                url=batch.endpoint,
                models=self.models,
                rows_max=self.files.settings.rows_max,
                line_bytes_max=options.line_bytes_max,
            )

    async def _options(self, request: RunRequest) -> ReadOptions:
        assert request.settings is not None
        return await input_reading(
            request,
            self.files.ledger,
            request.settings,
            self.dependencies.environ,
            webhook_bytes=self.webhook_bytes(),
        )

    async def _request(self, batch: PostedBatch, model: str) -> RunRequest:
        names = EndpointNames(connection=self.connection, dependencies=self.dependencies)
        return await model_run(batch, self.models[model], self.files, names, self.connection)

    async def _take_in(self, batch: PostedBatch, request: RunRequest, model: str, rows: int) -> None:
        ledger = self.files.ledger
        intake = RunIntake(self.console, self.dependencies, anyio.Event())
        async with intake.turn(ledger, request) as right, right_kept(right):
            run, settings = await intake.found(ledger, request, alone=True)
            await ledger.runs.posted.batches.learned(batch.id, run=run.id, model=model, total=rows)
            await intake.take_in(ledger, request, run, settings, webhook_bytes=self.webhook_bytes(), refusal_advice=str)
        await ask_process(ledger, Action.SERVE, run=run.id, wake=self.wake)


def _first_model(path: Path) -> str | None:
    with path.open("rb") as file:
        return first_model(file, ReadOptions().line_bytes_max)
