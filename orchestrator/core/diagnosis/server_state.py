"""What is known of the server on which a ledger is, for `server_rules`. Times are microseconds."""

from collections.abc import Sequence

import msgspec


class OldestSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest view of the data that somebody still has: what has changed since then cannot be swept up."""

    holder: str
    transactions: int
    """So many have begun since."""

    lasts_us: int | None = None
    """For how long; None where the server does not tell."""


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """How a table of a ledger, or what numbers its rows, stands with the role that asks."""

    table: str
    is_writable: bool
    is_left_out: bool = False
    """Whether the server is told not to sweep it with the others."""

    dead_rows: int = 0
    """As the server believes; so are the others."""

    live_rows: int = 0


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """How a server stands with a ledger, as it tells the role that asks."""

    version: str
    role: str
    tls: str | None
    """Which version of TLS the line to it has; None: none."""

    is_on_network: bool
    """Whether anybody could stand between."""

    is_proven: bool
    """Whether it has to prove who it is, by its certificate and its name."""

    is_pooled: bool
    """Whether somebody stands between who is not the server."""

    ahead_us: int = 0
    """How far this machine's clock is ahead of its own; negative where it is behind."""

    unsafe_settings: Sequence[str]
    """Those that are off and should keep what was committed from being lost with its machine."""

    standbys: int
    waits_for_standby: bool
    """Whether a commit waits until a standby has it."""

    connections_free: int
    connections_bound: str
    """What bounds them."""

    sees_others: bool
    """Whether it tells this role what others do."""

    oldest_snapshot: OldestSnapshot | None
    is_swept: bool
    """Whether it sweeps by itself (autovacuum)."""

    tables: Sequence[TableState]
    silent_processes: Sequence[str] = ()
    """Those of the ledger that do not beat."""

    is_succeeded: bool = False
    """Whether another one beats, which takes their place."""

    is_set_to_read: bool = False
    """Whether this role, or the database, is set so that nothing can be written, whatever the role may."""

    @property
    def is_read_only(self) -> bool:
        """Whether the role is there to read: it can write nowhere."""
        return self.is_set_to_read or not any(each.is_writable for each in self.tables)
