"""Tells on the screen of one of several processes who serves which part of their ledger."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.ownership.service_reach import UNREACHED_US
from orchestrator.core.ownership.shard_bids import KEEPERS
from orchestrator.engine.runtime.console import Console
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.processes.leases import LeaseRow, LedgerSighting
from orchestrator.ledger.processes.shard_needs import ShardNeeds
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US
from orchestrator.views.processes import KEEPERS_PART

HERE = "this process"

UNKNOWN_US: Final = 10 * SECOND_US
"""What is unknown for so long is told. A line that is lost for a moment is nobody's affair."""


def stands_by_text(holder: str, ledger: LedgerAddress) -> str:
    """Says that nothing is done here as long as `holder` works."""
    return f"stands by: {holder} works on {ledger}; this process takes its place once it is gone"


@dataclass(kw_only=True, eq=False)
class ShardNews:
    """Of the process `me` on the ledger at `path`."""

    path: LedgerAddress
    me: int
    console: Console
    stands_by: str | None = field(init=False, default=None)
    """Who has the whole ledger alone, as text for people; None where nobody has."""

    _is_told: bool = field(init=False, default=False)
    """Whether it was said that this process serves."""

    _unknown_since: int | None = field(init=False, default=None)
    _is_unknown_told: bool = field(init=False, default=False)

    _unreached: frozenset[int] = field(init=False, default=frozenset())
    _lacks: Mapping[int, str] = field(init=False, default_factory=dict)
    """What was lacking last, by the shards' numbers."""

    _served_by: dict[int, str] = field(init=False, default_factory=dict)
    """What was said last, by the shards' numbers."""

    def saw(self, seen: LedgerSighting, needs: ShardNeeds) -> None:
        """The ledger is found so."""
        before, self.stands_by = self.stands_by, self._alone(seen)
        if self.stands_by is not None:
            if self.stands_by != before:
                self.console.info(stands_by_text(self.stands_by, self.path))
                self.console.ready()
            self._is_told = False
            return
        if not self._is_told:
            self._is_told = True
            self.console.info(f"serving {self.path}; stop with Ctrl-C")
            self.console.ready()
        self._tell_owners(seen, needs)

    def knows_nothing(self, error: Exception, at: int) -> None:
        """Who has what could not be found out at that time, by `error`: told once, where that goes on for a while."""
        if self._unknown_since is None:
            self._unknown_since = at
        if at - self._unknown_since >= UNKNOWN_US and not self._is_unknown_told:
            self._is_unknown_told = True
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            self.console.warn(
                f"{self.path}: for {UNKNOWN_US // SECOND_US} s it cannot be found out who serves which part; nothing is"
                f" taken or handed over meanwhile: {why}"
            )

    def knows_again(self) -> None:
        """It was found out."""
        self._unknown_since, self._is_unknown_told = None, False

    def hands_over(self, unreached: Collection[int], needs: ShardNeeds) -> None:
        """Those shards are handed over because nothing is answered there."""
        for shard in sorted(set(unreached) - self._unreached):
            self.console.warn(
                f"{_names_of(shard, needs)}: no answer for {UNREACHED_US // SECOND_US} s; another process goes on there"
            )
        self._unreached = frozenset(unreached)

    def lacks(self, lacks: Mapping[int, str], needs: ShardNeeds) -> None:
        """That is lacking here to serve those shards."""
        for shard, why in lacks.items():
            if self._lacks.get(shard) != why:
                self.console.info(f"{_names_of(shard, needs)}: left to other processes where these can: {why}")
        self._lacks = lacks

    def _alone(self, seen: LedgerSighting) -> str | None:
        keepers = next((lease for lease in seen.leases if lease.shard == KEEPERS), None)
        owner = None if keepers is None else seen.processes.get(keepers.owner or 0)
        if keepers is None or owner is None or owner.id == self.me or not owner.is_alone:
            return None
        return since_then(owner.name, keepers.taken_at or owner.began_at)

    def _tell_owners(self, seen: LedgerSighting, needs: ShardNeeds) -> None:
        needed = needs.shards | {KEEPERS}
        self._served_by = {shard: text for shard, text in self._served_by.items() if shard in needed}
        for lease in seen.leases:
            who = self._who(lease, seen)
            if lease.shard not in needed or who is None:
                continue
            text = f"{_names_of(lease.shard, needs)}: served by {who}"
            if self._served_by.get(lease.shard) != text:
                self._served_by[lease.shard] = text
                self.console.info(text)

    def _who(self, lease: LeaseRow, seen: LedgerSighting) -> str | None:
        if lease.owner == self.me:
            return HERE
        owner = seen.processes.get(lease.owner or 0)
        return None if owner is None else owner.name


def _names_of(shard: int, needs: ShardNeeds) -> str:
    return ", ".join(place.name for place in needs.of(shard)) or KEEPERS_PART
