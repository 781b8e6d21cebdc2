"""Who works on a ledger, or stands by, and what each has of it."""

import msgspec


class ShardShown(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints that runs use together, which one process has at a time. Times are microseconds, UTC."""

    shard: int
    """0: what belongs to no run, schedules above all."""

    endpoints: tuple[str, ...] = ()
    taken_at: int | None = None
    """When somebody last took it."""

    left_at: int | None = None
    """When whoever had it was declared dead; None where it was let go of, or that is long ago."""

    wanted_by: str | None = None
    """The process that needs it, and gets it next."""


class ProcessShown(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a ledger. Times are microseconds since the epoch, UTC."""

    process: str
    """Its number and its machine, and what it does."""

    version: str | None = None
    """That of its program; None where it does not say: on a file."""

    since: int
    is_beating: bool | None = None
    """Whether its beat rises; None where that is not known, or nobody looked twice."""

    is_connected: bool = True
    """Whether it has a connection to the server still."""

    reported_at: int | None = msgspec.field(default=None, name="said_at")
    """When it last said how it stands."""

    stands_by: bool = False
    """Whether it has nothing, and waits for the place of another one."""

    shards: tuple[ShardShown, ...] = ()
    """What it has; on a file it has all."""


class LackShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a process at work cannot serve."""

    run: str
    process: str
    why: str


class LedgerProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """All of a ledger."""

    ledger: str
    processes: tuple[ProcessShown, ...]
    """The first that came first."""

    free: tuple[ShardShown, ...] = ()
    """What nobody has, though runs there are not finished."""

    lacks: tuple[LackShown, ...] = ()
