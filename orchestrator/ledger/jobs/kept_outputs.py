"""Outputs of results that are kept in another form than before: with what tells of files in place of their members."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, select, update

from orchestrator.core.jobs.job import Unsaved
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.schema.job_tables import outcomes
from orchestrator.ledger.schema.row_codec import checksum, pack, saved_names_text
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.count_writes import counts_add

_REPLACE: Final = (
    update(outcomes)
    .values(
        output=bindparam("new_output"),
        packed=bindparam("new_packed"),
        checksum=bindparam("new_checksum"),
        saved=bindparam("new_saved"),
    )
    .where(outcomes.c.job_id == bindparam("job"), outcomes.c.checksum == bindparam("before"))
)
_WITH_FILES: Final = (
    select(outcomes.c.job_id)
    .where(outcomes.c.saved.is_not(None), outcomes.c.job_id > bindparam("after"))
    .order_by(outcomes.c.job_id)
    .limit(bindparam("most"))
)


class KeptOutputs(Repository):
    """The outputs of a ledger's results."""

    async def with_files(self, *, after: int, most: int) -> list[int]:
        """The jobs, `most` after the one of the number `after`, of whose outputs we have made files, in all runs."""
        rows = await self._access.rows(_WITH_FILES, {"after": after, "most": most})
        return [row[0] for row in rows]

    async def replace(self, job: FinishedJob, output: bytes, *, saved: Sequence[str]) -> bool:
        """Keeps `output` for `job` from now on, of which the members `saved` are files, if it still has the one that it
        was read with; returns whether.
        """
        stored, packed = pack(output)
        given = {
            "job": job.job,
            "before": checksum(job.job, job.stored),
            "new_output": stored,
            "new_packed": packed,
            "new_checksum": checksum(job.job, stored),
            "new_saved": saved_names_text(saved),
        }
        return bool(await self._access.shared.execute(_REPLACE, given))

    async def recount(self, run: int, more: Mapping[Unsaved, int]) -> None:
        """Of the outputs of `run` so many more (or fewer) have members that are no files, by why they are none."""

        async def block(transaction: Transaction) -> None:
            await counts_add(transaction.connection, Counter({(run, why.value): n for why, n in more.items()}))

        await self._access.shared.write(block)
