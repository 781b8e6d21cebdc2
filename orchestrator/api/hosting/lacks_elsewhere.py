"""What the other processes of a ledger lack to serve its shards, as they say in their heartbeats."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0


@dataclass(kw_only=True, eq=False)
class LacksElsewhere:
    """As it is told in `ledger`."""

    ledger: Ledger
    _counts: Mapping[int, Mapping[int, int]] = field(init=False, default_factory=dict)
    """By the numbers of processes and of shards."""

    def of(self, process: int | None, shard: int) -> int:
        """How many things that process lacks to serve that shard, as far as it has said so."""
        return 0 if process is None else self._counts.get(process, {}).get(shard, 0)

    async def serve(self) -> None:
        """Looks now and then, until cancelled."""
        while True:
            try:
                heard = await self.ledger.runs.heartbeats.all()
            except StorageError as error:
                log.info("what others lack is unknown: %s", error)
            else:
                self._counts = {each.epoch: each.report.lack_counts for each in heard if not each.is_gone}
            await anyio.sleep(LOOK_S)
