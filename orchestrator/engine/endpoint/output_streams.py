"""What workers yield, gathered into the outputs of their jobs (contract, `/stream`).

The service keeps what a worker has yielded apart from the output of its job, which is empty, unless the worker is told
to put it there as well. It hands each chunk out once: so they are asked for when the job has ended, all at once, and
nothing is known of those whose answer was cut off, or that a process took that died. Such a job is executed anew: a
result that lacks a part would look like one.

Where a run does not gather them, and takes an empty output for a result, its first one is looked into all the same,
once: people hear of it at once.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from orchestrator.client import ServerlessEndpoint
from orchestrator.client.jobs.service_answers import StreamPart, read_stream
from orchestrator.core.jobs.job import Job
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import TERMINAL_STATUSES
from orchestrator.core.text.wording import counted
from orchestrator.errors import NotSent, Unanswered
from orchestrator.settings.run_settings import RunSettings

EMPTY: Final = frozenset({None, b"null", b"[]"})
"""Outputs that may stand for chunks."""

PARTS_MAX: Final = 1_000
"""So many answers one job's chunks may come in."""


class OutputStreams:
    """Of the jobs at one endpoint."""

    def __init__(
        self,
        api: ServerlessEndpoint,
        settings_of: Mapping[int, RunSettings],
        *,
        warn: Callable[[str], None],
        scrub: Callable[[bytes], bytes],
    ) -> None:
        self._api = api
        self._settings_of = settings_of
        self._warn = warn
        self._scrub = scrub
        self._looked: set[int] = set()
        """The runs of which a first empty output was looked into."""

        self._kept: dict[str, list[bytes]] = {}
        """Chunks of jobs whose stream has not been read to its end."""

    def gathers(self, run: int) -> bool:
        """Whether what workers yield belongs into the outputs of `run`."""
        return self._settings_of[run].stream

    def wants(self, run: int, record: Record) -> bool:
        """Whether there may be chunks of a job of `run` that has ended so, and that matters."""
        if record.status != "COMPLETED" or record.output not in EMPTY:
            return False
        return self.gathers(run) or (run not in self._looked and not self._settings_of[run].output_required)

    async def gathered(self, job: Job, record: Record) -> Record | None:
        """`record` of `job`, with what its worker has yielded as output; None where that is to be asked for again."""
        self._looked.add(job.run)
        remote_id, gathers = job.remote_id or "", self.gathers(job.run)
        is_whole = await self._read(remote_id)
        if not is_whole and gathers:
            return None
        chunks = self._kept.pop(remote_id, [])
        if not chunks:
            return record
        if not gathers:
            self._warn(
                f"the worker yields: {counted(len(chunks), 'chunk')} of a job stood in its stream, and its output is"
                f" empty. <setting stream> gathers them into the output, and so does return_aggregate_stream: True in"
                " the worker's call of runpod.serverless.start; this one job has them, and no other of this run"
            )
        return msgspec.structs.replace(record, output=b"[" + b",".join(chunks) + b"]")

    async def _read(self, remote_id: str) -> bool:
        """Keeps the chunks that are left of a job which has ended; False where an answer did not come."""
        for _ in range(PARTS_MAX):
            part = await self._part(remote_id)
            if part is None:
                return False
            if part.chunks:
                self._kept.setdefault(remote_id, []).extend(msgspec.json.encode(chunk.output) for chunk in part.chunks)
            if part.status in TERMINAL_STATUSES or not part.chunks:
                break
        return True

    async def _part(self, remote_id: str) -> StreamPart | None:
        permit = await self._api.limiter.permit(Operation.STREAM)
        try:
            answer = await self._api.send(permit, Operation.STREAM, self._api.question(f"stream/{remote_id}"))
        except (NotSent, Unanswered):
            return None
        if answer.status != 200:  # noqa: PLR2004  a refusal has no effect
            return None
        try:
            return read_stream(self._scrub(answer.body))
        except ValueError:
            return None
