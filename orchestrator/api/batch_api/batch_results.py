"""The files of a batch that comes to its end: of its results and of what went wrong, each there whole or not at all."""

from contextlib import ExitStack
from dataclasses import dataclass

from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.batch_api.file_store import FileStore, new_id
from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.api.outcomes.result_files import file_outcome
from orchestrator.core.batch_api.posted_batch import ROW_CODES, PostedBatch, PostedState, end_of
from orchestrator.core.batch_api.posted_file import PostedFile, Purpose
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.formats.output.openai_lines import OK, answer_status, error_line, result_line
from orchestrator.formats.output.outcome_lines import ErrorClass, ErrorLine, ResultLine


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
        assert named.run is not None
        async for job in finished_jobs(store.ledger, named.run, WantedRows.ALL):
            line = file_outcome(job).line
            is_good = isinstance(line, ResultLine) and answer_status(line) == OK
            (output if is_good else errors).write(_text(line, end))
        if await store.ledger.runs.is_gone(named.run):  # what was read of it is not all of it
            return False
        made = [await each.committed(named, store) for each in (output, errors) if each.rows]
        return await batches.finish(named, end, files=made, completed=output.rows, failed=errors.rows)


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


def _text(line: ResultLine | ErrorLine, end: PostedState) -> bytes:
    """The line of a request, as OpenAI writes it, whose batch ends so."""
    if isinstance(line, ResultLine):
        return result_line(line, is_any_body=True)
    told = ROW_CODES.get(end)
    if told is not None and line.error.trouble == FailureClass.CANCELLED:
        line = replace(line, error=ErrorClass(*told))
    return error_line(line)
