"""The chunks of a simulated world as they are drawn: how large they are, and what their handler does with them."""

import msgspec

from orchestrator.core.chunks.chunk_form import ChunkForm
from orchestrator.core.chunks.chunk_terms import ChunkTerms

BY_ID = ChunkForm('{"rows":"{rows}"}', "rows")
"""Each part of the output names its row."""

BY_PLACE = ChunkForm('{"items":"{inputs}"}')


class ChunkPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows of all runs travel together."""

    rows: int | None = None
    bytes: int | None = None
    """Of inputs, where it is not `rows` that there may be so many of."""
    is_by_id: bool = False
    poisonous: tuple[int, ...] = ()
    """The rows of which the handler dies, with whatever travels with them."""
    bad: tuple[int, ...] = ()
    """Those of which it says that they are bad, and has done the others."""
    spoilt_share: float = 0.0
    """The share of its outputs that it spoils, of chunks of several rows."""

    @property
    def terms(self) -> ChunkTerms:
        return ChunkTerms(bytes=self.bytes) if self.rows is None else ChunkTerms(rows=self.rows)

    @property
    def form(self) -> ChunkForm:
        return BY_ID if self.is_by_id else BY_PLACE
