"""Outputs of results that are kept in another form than before: with what tells of files in place of their members."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from sqlalchemy import bindparam, update

from orchestrator.core.jobs.job import Unsaved
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.schema.job_tables import outcomes
from orchestrator.ledger.schema.row_codec import checksum, pack
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add

_REPLACE: Final = (
    update(outcomes)
    .values(output=bindparam("new_output"), packed=bindparam("new_packed"), checksum=bindparam("new_checksum"))
    .where(outcomes.c.job_id == bindparam("job"), outcomes.c.checksum == bindparam("before"))
)


class KeptOutputs(Repository):
    """The outputs of a ledger's results."""

    async def replace(self, job: FinishedJob, output: bytes) -> bool:
        """Keeps `output` for `job` from now on, if it still has the one that it was read with; returns whether."""
        stored, packed = pack(output)
        given = {
            "job": job.job,
            "before": checksum(job.job, job.stored),
            "new_output": stored,
            "new_packed": packed,
            "new_checksum": checksum(job.job, stored),
        }
        return bool(await self._access.execute(_REPLACE, given))

    async def recount(self, run: int, more: Mapping[Unsaved, int]) -> None:
        """Of the outputs of `run` so many more (or fewer) have members that are no files, by why they are none."""

        async def block(transaction: Transaction) -> None:
            await counts_add(transaction.connection, Counter({(run, why.value): n for why, n in more.items()}))

        await self._access.write(block)
