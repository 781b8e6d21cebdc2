"""How all that was posted to the Batch API stands together."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import Integer, Label, String, func, literal_column, select, union_all

from orchestrator.ledger.posted.posted_batches import IS_OPEN
from orchestrator.ledger.posted.posted_files import SIZES
from orchestrator.ledger.schema.posted_tables import posted_batches, posted_ends, posted_storage
from orchestrator.ledger.transactions.repository import Repository

_STORED, _BOUND, _OPEN, _ENDED = "stored", "bound", "open", "ended"
_NOTHING: Final = literal_column("''", String).label("state")
_ZEROS: Final = tuple(literal_column("0", Integer).label(each) for each in ("completed", "failed"))


def _of(what: str) -> Label[str]:
    return literal_column(f"'{what}'", String).label("of")


_ALL: Final = union_all(
    select(_of(_STORED), _NOTHING, SIZES.scalar_subquery().label("n"), *_ZEROS),
    select(_of(_BOUND), _NOTHING, posted_storage.c.bytes_max, *_ZEROS),
    select(_of(_OPEN), posted_batches.c.state, func.count(), *_ZEROS).where(IS_OPEN).group_by(posted_batches.c.state),
    select(_of(_ENDED), posted_ends.c.state, posted_ends.c.n, posted_ends.c.completed, posted_ends.c.failed),
)
"""By one question, as whoever scrapes metrics asks many: of what, of which state, how many or how large, and the two
figures of requests.
"""


class BatchEnds(NamedTuple):
    """So many batches have ended so, with so many requests that were `completed`, and that have `failed`."""

    n: int = 0
    completed: int = 0
    failed: int = 0


class PostedSums(NamedTuple):
    """All of it."""

    stored_bytes: int
    """How many bytes all files have together."""

    bytes_max: int | None
    """How many they may have, as whoever keeps them was told; None where nobody has ever kept any."""

    under_way: Mapping[str, int]
    """How many batches are in each state that goes on; nothing of states in which none is."""

    ends: Mapping[str, BatchEnds]
    """How often batches have ended in each state, those included that are forgotten; nothing of states in which none
    has.
    """


class PostedTotals(Repository):
    """That of a ledger."""

    async def now(self) -> PostedSums:
        """How it stands now."""
        rows = await self._access.rows(_ALL)
        stored, bound = ({int(row[2]) for row in rows if row[0] == of} for of in (_STORED, _BOUND))
        return PostedSums(
            stored_bytes=max(stored),
            bytes_max=max(bound, default=None),
            under_way={row[1]: int(row[2]) for row in rows if row[0] == _OPEN},
            ends={row[1]: BatchEnds(*map(int, row[2:])) for row in rows if row[0] == _ENDED},
        )
