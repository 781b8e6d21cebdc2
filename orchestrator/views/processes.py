"""Who works on a ledger, or stands by, and what each has of it."""

from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.core.text.figures import second

NAMED_MAX: Final = 3
"""So many endpoints are named; of more there is a number."""

KEEPERS_PART: Final = "schedules and flows"
"""What the shard is called that belongs to no run."""


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
    """Whether it has nothing, and takes what others leave."""

    is_keeper: bool = True
    """Whether it looks after what belongs to no run: schedules, flows, messages, pruning."""

    shards: tuple[ShardShown, ...] = ()
    """What it has; on a file it has all."""

    @property
    def has(self) -> str:
        """What it has, as text for people."""
        if self.stands_by:
            return "stands by"
        if not self.shards:
            return "all of it"
        endpoints = tuple(endpoint for each in self.shards for endpoint in each.endpoints)
        wanted = [f"wanted by {each.wanted_by}" for each in self.shards if each.wanted_by]
        return "; ".join(
            [*([KEEPERS_PART] if self.is_keeper else []), *([_named(endpoints)] if endpoints else []), *wanted]
        )


class LackShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a process at work cannot serve."""

    run: str
    process: str
    why: str


class ShardLackShown(msgspec.Struct, frozen=True, kw_only=True):
    """What a process lacks to serve a shard."""

    process: str
    why: str


class UnservableShown(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that none of the processes can serve. One may have it all the same, and collects there."""

    shard: int
    endpoints: tuple[str, ...]
    lacks: tuple[ShardLackShown, ...]
    """Of each process, what it lacks."""

    @property
    def text(self) -> str:
        """All of that, as text for people."""
        by_why: dict[str, list[str]] = {}
        for each in self.lacks:
            by_why.setdefault(each.why, []).append(each.process)
        whys = "; ".join(f"{why} ({_named(tuple(processes))})" for why, processes in by_why.items())
        return f"nobody can serve {_named(self.endpoints) if self.endpoints else KEEPERS_PART}: {whys}"


class LedgerProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """All of a ledger."""

    ledger: str
    processes: tuple[ProcessShown, ...]
    """The first that came first."""

    free: tuple[ShardShown, ...] = ()
    """What nobody has, though runs there are not finished."""

    lacks: tuple[LackShown, ...] = ()
    unservable: tuple[UnservableShown, ...] = ()
    """What no process can serve as it should."""

    @property
    def remarks(self) -> Iterator[str]:
        """What there is to say besides who has what, as texts for people."""
        if not self.processes:
            yield f"nobody works on {self.ledger}"
        for shard in self.free:
            left = "" if shard.left_at is None else f"; who had it was gone at {second(shard.left_at)} UTC"
            if shard.endpoints:
                yield f"nobody has {_named(shard.endpoints)}, where runs are not finished{left}"
            else:
                yield f"nobody has the {KEEPERS_PART}{left}"
        for lack in self.lacks:
            yield f"{lack.run} is not served by {lack.process}: {lack.why}"
        for each in self.unservable:
            yield each.text


def _named(endpoints: tuple[str, ...]) -> str:
    named = ", ".join(endpoints[:NAMED_MAX])
    more = len(endpoints) - NAMED_MAX
    return f"{named} and {more:,} more" if more > 0 else named
