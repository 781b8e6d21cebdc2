"""What a server says of itself and of the tables of a ledger."""

import msgspec

from orchestrator.core.diagnosis.server_state import OldestSnapshot


class TableSize(msgspec.Struct, frozen=True, kw_only=True):
    """How much room a table takes, and what of it is to be swept up."""

    table: str
    bytes: int
    """Large values included."""

    index_bytes: int
    dead_rows: int
    """As the server believes."""

    swept_at: int | None
    """When it was last swept (vacuumed), microseconds UTC; None: never, as far as is known."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a server stands on which a ledger is."""

    version: str
    role: str
    """As which we are there."""

    is_synced: bool
    """Whether what is committed is on its disk (`fsync`)."""

    commits_wait_for: str
    """Of its setting `synchronous_commit`."""

    standbys: int
    synchronous_standbys: str
    """Of its setting `synchronous_standby_names`; empty: commits wait for none."""

    connections: int
    our_connections: int
    """Of programs of ours, to this database."""

    connections_max: int
    database_bytes: int
    tables: tuple[TableSize, ...]
    """The largest first."""

    oldest_snapshot: OldestSnapshot | None
    """None where nobody but us has one, or none that this role may see."""
