"""How a request's input is read, and what becomes of jobs that are no longer in it."""

from collections.abc import Container, Iterator, Mapping

from orchestrator.api.outcomes.output_places import own_files
from orchestrator.api.runs.run_defaults import own_outputs
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.engine.intake.intake import InputBatch
from orchestrator.engine.runtime.console import Console
from orchestrator.formats.input.readers import ReadOptions, read_inputs
from orchestrator.formats.input.rows import Row, RowProblem, batches
from orchestrator.formats.input.sources import InputPositions, sources_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.input_corrections import RemovedRows
from orchestrator.ledger.runs.intake_pace import ROWS_ALONE
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings, own_keys
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.stores.object_url import asked_about


async def row_variables(
    ledger: Ledger, connection: ConnectionSettings, settings: RunSettings, environment: Mapping[str, str]
) -> RowVariables:
    """What the rows of a run with these settings may name, whose process reaches its service by `connection`."""
    keys = own_keys(connection, environment, await ledger.flows.pipelines.secret_variables())
    return RowVariables(environment, settings.allow_env, keys)


async def input_reading(
    request: RunRequest, ledger: Ledger, settings: RunSettings, environ: Mapping[str, str], *, webhook_bytes: int
) -> ReadOptions:
    """How the input of `request` is read for a run with `settings`."""
    return ReadOptions(
        settings=request.reading,
        variables=await row_variables(ledger, request.connection, settings, environ),
        run_policy=settings.policy,
        webhook_bytes=webhook_bytes,
        body_bytes_max=request.body_bytes_max,
        is_resumable=settings.resumable,
        vias=settings.vias,
        is_left_out=own_files(request.ledger, await asked_about(lambda: own_outputs(request), request.output)),
    )


def row_batches(
    source: str, reading: ReadOptions, places: InputPositions | None = None, *, only: Container[int] | None = None
) -> Iterator[InputBatch]:
    """The rows of an input, which may be several (one on each line), checked, in batches; `places` learns where they
    stand. `only`: those with these numbers, counted from 1. Raises `UsageError` where one cannot be opened.

    It opens and closes the input itself, in whatever thread it is read: a pipe nobody writes to blocks both.
    """
    rows = read_inputs(sources_of(source.splitlines()), reading, places)
    if only is not None:
        rows = (row for number, row in enumerate(rows, start=1) if number in only)
    for batch in batches(rows, rows_max=ROWS_ALONE):
        faults = [item for item in batch if isinstance(item, RowProblem)]
        yield InputBatch([item for item in batch if isinstance(item, Row)], faults)


async def drops(request: RunRequest, run: Run, console: Console, gone: RemovedRows) -> bool:
    """Whether the jobs of `run` go that are `gone` from its input and have not succeeded.

    Somebody who has given the same input again, corrected, is asked; another input is more of the run, and a probe has
    some of its rows only.
    """
    if request.replace_input:
        return True
    is_same = request.source == run.source and request.only_rows is None
    return is_same and await console.confirm_drop(run.name, gone.unsuccessful)
