"""The files of a batch that comes to its end: of its results and of what went wrong, each there whole or not at all."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.batch_api.file_store import FileStore, new_id
from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.api.outcomes.result_files import file_outcome
from orchestrator.api.outcomes.thread_writer import ThreadWriter
from orchestrator.core.batch_api.posted_batch import ROW_CODES, PostedBatch, PostedState, end_of
from orchestrator.core.batch_api.posted_file import PostedFile, Purpose
from orchestrator.core.batch_api.token_usage import TokenUsage
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.formats.output.openai_lines import OK, answer_line, answer_of, error_line
from orchestrator.formats.output.outcome_lines import ErrorClass, ErrorLine, ResultLine, WrittenOutcome


async def write_batch_files(store: FileStore, batch: PostedBatch) -> bool:
    """Writes the files of a batch whose run is over, and ends it; False where it is in another state by now.

    How they are called is written down before, so that whoever comes after a kill writes the same ones. Raises
    `StorageError`.
    """
    batches = store.ledger.runs.posted.batches
    await batches.name_files(batch, output_file=new_id("file-"), error_file=new_id("file-"))
    named = await batches.one(batch.owner, batch.id)
    if named is None or named.output_file is None or named.error_file is None:
        return False
    end = end_of(named)
    with ExitStack() as stack:
        output = _Growing(stack.enter_context(store.coming(named.output_file)))
        errors = _Growing(stack.enter_context(store.coming(named.error_file)))
        sorting = _Sorting(output, errors, end)
        writer = ThreadWriter(sorting.write)
        assert named.run is not None
        async for job in finished_jobs(store.ledger, named.run, WantedRows.ALL):
            await writer.add(file_outcome(job))
        await writer.finish()
        if await store.ledger.runs.is_gone(named.run):  # what was read of it is not all of it
            return False
        made = [await each.committed(named, store) for each in (output, errors) if each.rows]
        usage = None if sorting.usage is None else msgspec.json.encode(sorting.usage)
        return await batches.finish(named, end, files=made, completed=output.rows, failed=errors.rows, usage=usage)


@dataclass(eq=False)
class _Growing:
    """A file while its lines are written."""

    content: Replacement
    rows: int = 0
    size: int = 0

    def write(self, line: bytes) -> None:
        self.content.write(line)
        self.rows += 1
        self.size += len(line)

    async def committed(self, batch: PostedBatch, store: FileStore) -> PostedFile:
        await to_thread.run_sync(self.content.commit)
        now = store.ledger.now()
        kind = "output" if self.content.path.name == batch.output_file else "error"
        return PostedFile(
            id=self.content.path.name,
            owner=batch.owner,
            filename=f"{batch.id}_{kind}.jsonl",
            purpose=Purpose.BATCH_OUTPUT,
            size=self.size,
            created_at=now,
            expires_at=now + (batch.keep_output_us or store.settings.keep_files_us),
        )


class _Sorting:
    """The outcomes of requests on their way into the files of a batch that ends so."""

    def __init__(self, output: _Growing, errors: _Growing, end: PostedState) -> None:
        self._output = output
        self._errors = errors
        self._told = ROW_CODES.get(end)
        self.usage: TokenUsage | None = None
        """What all have taken so far; None where none of them says."""

    def write(self, outcomes: Sequence[WrittenOutcome]) -> None:
        """Some more of them."""
        for each in outcomes:
            self._add(each.line)

    def _add(self, line: ResultLine | ErrorLine) -> None:
        if isinstance(line, ErrorLine):
            if self._told is not None and line.error.trouble == FailureClass.CANCELLED:
                line = replace(line, error=ErrorClass(*self._told))
            self._errors.write(error_line(line))
            return
        answer = answer_of(line)
        if answer.usage is not None:
            self.usage = answer.usage if self.usage is None else self.usage + answer.usage
        (self._output if answer.status == OK else self._errors).write(answer_line(line, answer))
