"""Which runs are to be served: those with something to do that nobody has released."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import bindparam, select, update

from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.statements import Among
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.run_controls import HAS_UNFINISHED

_TO_SERVE: Final = Among(
    select(runs.c.id).where(runs.c.intake_accepted > 0, runs.c.is_released == 0, HAS_UNFINISHED).order_by(runs.c.id),
    runs.c.endpoint_id,
)
_SET: Final = update(runs).where(runs.c.id == bindparam("of")).values(is_released=bindparam("is_so"))


class Releases(Repository):
    """Which runs of a ledger are released: no more of them is sent until somebody asks for that again."""

    async def to_serve(self, at: Collection[int] | None = None) -> list[int]:
        """The runs that have unfinished jobs, and that nobody has released, oldest first: all, or those `at` these
        endpoints.
        """
        return [row[0] for row in await self._access.rows(*_TO_SERVE.of(at))]

    async def set(self, run: int, *, is_released: bool) -> None:
        """Writes down whether `run` is released."""
        await self._access.signalling.execute(_SET, {"of": run, "is_so": int(is_released)})
