"""The rows of an input, counted and measured for a plan."""

from collections.abc import Mapping
from typing import Final

from orchestrator.api.outcomes import row_input
from orchestrator.core.planning.plan_types import Batch
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.errors import Problems
from orchestrator.formats.input.readers import ReadOptions
from orchestrator.formats.input.rows import RowProblem
from orchestrator.formats.input.sources import InputPositions, shown_sources
from orchestrator.settings.command_requests import PlanRequest
from orchestrator.settings.connection_settings import own_keys
from orchestrator.settings.run_settings import RunSettings

REPEATS_COUNTED_MAX: Final = 5_000_000
"""Of so many different inputs it is remembered that they were there."""


DIGEST_BYTES: Final = 8
"""So much of an input's digest tells it from the others, where nothing depends on it."""


class _Counter:
    """Counts what an input has."""

    def __init__(self) -> None:
        self.rows = self.repeats = self.oversize = self.bytes = 0
        self.problems = Problems()
        self._seen: set[bytes] = set()

    def row(self, digest: bytes, size: int) -> None:
        self.rows += 1
        self.bytes += size
        short = digest[:DIGEST_BYTES]
        if short in self._seen:
            self.repeats += 1
        elif len(self._seen) < REPEATS_COUNTED_MAX:
            self._seen.add(short)

    def problem(self, problem: RowProblem) -> None:
        if problem.is_oversize:
            self.rows += 1
            self.oversize += 1
            return
        self.problems.add(problem.line, problem.text)


def counted_rows(request: PlanRequest, settings: RunSettings, environ: Mapping[str, str]) -> Batch:
    """Reads the input. Raises `InputError` where rows of it are none."""
    asked = request.run
    assert asked.source is not None
    reading = ReadOptions(
        settings=asked.reading,
        variables=RowVariables(environ, settings.allow_env, own_keys(asked.connection, environ)),
        run_policy=settings.policy,
        body_bytes_max=asked.body_bytes_max,
        is_resumable=settings.resumable,
        vias=settings.vias,
    )
    places, counter = InputPositions(), _Counter()
    for batch in row_input.row_batches(asked.source, reading, places):
        for row in batch.rows:
            counter.row(row.digest, len(row.input))
        for fault in batch.faults:
            assert isinstance(fault, RowProblem)
            counter.problem(fault)
    if not counter.rows and not counter.problems.total:
        counter.problem(RowProblem(line=1, text="the input is empty"))
    if counter.problems.total:
        raise counter.problems.error(shown_sources(asked.source.splitlines()), places.of)
    return Batch(rows=counter.rows, repeats=counter.repeats, oversize=counter.oversize, input_bytes=counter.bytes)
