"""What is handed from stage to stage, as rows."""

from collections.abc import Sequence

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.runs.input_rows import PackedRow
from orchestrator.ledger.schema.handover_tables import By
from orchestrator.ledger.schema.row_codec import unpack


class Relay(msgspec.Struct, frozen=True, array_like=True):
    """One run that hands its rows over to another."""

    from_run: int
    to_run: int
    flow: int
    stage: str
    """The one that is handed them."""

    definition: int
    """The number of the pipeline's version that its flow began with."""

    intake: int
    is_gathering: bool
    """Whether it is handed groups; a row by itself has ended without one, then."""


class Gathering(msgspec.Struct, frozen=True, kw_only=True):
    """How a run gathers what it is handed."""

    by: By
    runs: Sequence[int]
    """All through which its rows come, to where they begin."""

    begins: Sequence[int]
    """Of these, where each row begins a group: with `ALL` none."""


class OwedRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that has ended, as its step is to be given it."""

    job: int
    custom_id: str
    line: int
    state: State
    stored_input: bytes
    packed_input: int
    stored: bytes | None
    packed: int | None
    metadata: bytes | None = None
    """What its row carries unsent."""

    @property
    def input(self) -> bytes:
        """As it came."""
        return unpack(self.stored_input, self.packed_input)

    @property
    def output(self) -> bytes | None:
        """As it came."""
        return None if self.stored is None else unpack(self.stored, self.packed or 0)


class HandedOver(msgspec.Struct, frozen=True):
    """What a row has become."""

    of: OwedRow
    rows: Sequence[PackedRow] = ()
    """With ids of their own."""

    error: str | None = None
    """Why its step failed."""
