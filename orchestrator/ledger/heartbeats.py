"""What each process at work says of itself, for those who look at the ledger from outside: one row a process.

Whoever works knows at every moment how results are collected, until when they are safe and how its limits stand;
others would have to go through all outstanding jobs, or cannot know.
"""

import os
import platform
from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.pacing import Operation
from orchestrator.ledger.doors import Doors
from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.tables import heartbeats
from orchestrator.units import SECOND_US
from orchestrator.views import Collecting, JanitorSummary, StuckSummary

STALE_US: Final = 30 * SECOND_US
"""What a process said longer ago says nothing of the present: it was stopped, or cannot write."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation of an endpoint stands with its limit: `used` of `allowance` slots, 429s so far."""

    endpoint_id: int
    operation: Operation
    used: int
    allowance: int
    throttled: int


class RunSaid(msgspec.Struct, frozen=True, kw_only=True):
    """How a process stands with one run."""

    collecting: Collecting | None = None
    """None where it does not serve the run's endpoint, and for `local:` ones."""

    stuck: StuckSummary = StuckSummary()
    held: str | None = None
    """Why no job of it is sent, or single ones only, where the reason is not that people asked for that: what they ask
    stands with the run. None where nothing is wrong, and where the process does not serve the run.
    """


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a process says of itself."""

    runs: Mapping[int, RunSaid] = {}
    meters: tuple[Reading, ...] = ()
    janitor: JanitorSummary | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one process. Times are microseconds UTC."""

    slot: int
    process: str
    began_at: int
    beaten_at: int
    epoch: int
    said: Said

    def is_fresh(self, now: int) -> bool:
        """Whether it says anything of the present; clocks of two processes may differ either way."""
        return abs(now - self.beaten_at) <= STALE_US


_said: Final = msgspec.json.Decoder(Said)

_WRITE: Final = upsert(
    heartbeats, lambda new: {name: new[name] for name in ("process", "began_at", "beaten_at", "epoch", "said")}
)


class Heartbeats:
    """The heartbeats of a ledger. This process beats in `slot`, with `epoch`."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._began_at = doors.now()
        self.slot = 0
        """Where one process works, it is always the first one."""

        self.epoch = 0

    async def beat(self, said: Said) -> None:
        """Writes down what this process says of itself now. Raises `StorageError`."""
        row = {
            "slot": self.slot,
            "process": this_process(),
            "began_at": self._began_at,
            "beaten_at": self._doors.now(),
            "epoch": self.epoch,
            "said": msgspec.json.encode(said),
        }
        await self._doors.execute(_WRITE, row)

    async def all(self) -> list[Heartbeat]:
        """What each process said last, however long ago."""
        async with self._doors.reading() as connection:
            return await heartbeats_all(connection)


async def heartbeats_all(connection: AsyncConnection) -> list[Heartbeat]:
    """What each process said last, however long ago."""
    return [
        Heartbeat(
            slot=row.slot,
            process=row.process,
            began_at=row.began_at,
            beaten_at=row.beaten_at,
            epoch=row.epoch,
            said=_decoded(row.said),
        )
        for row in await connection.execute(select(heartbeats).order_by(heartbeats.c.slot))
    ]


def _decoded(said: bytes) -> Said:
    """What another program may have said in words that this one does not know is no news."""
    try:
        return _said.decode(said)
    except msgspec.ValidationError:
        return Said()


def this_process() -> str:
    """What people find this process by."""
    return f"{platform.node()} {os.getpid()}"
