"""The endpoints of a run's pool in its settings, and by which lane jobs leave for each."""

from collections.abc import Sequence
from typing import Self

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings, former_members, lane_at
from orchestrator.settings.lanes.lane_settings import LaneSettings


class MemberLanes(LaneSettings, frozen=True, kw_only=True):
    """The part of a run's settings that says where its jobs go, and how they get there."""

    members: tuple[MemberSettings, ...] = ()
    """The endpoints of the run's pool, its own the first of them; none where it is the only one."""

    former_members: tuple[MemberSettings, ...] = ()
    """Those that are none any more: what is still there goes by their lanes."""

    def at(self, endpoint: str) -> Self:
        """The same as they are for jobs at `endpoint`, which may have a lane of its own."""
        if not self.members and not self.former_members:
            return self
        lane = lane_at((*self.members, *self.former_members), endpoint, self.via, self.path)
        return self if lane == (self.via, self.path) else msgspec.structs.replace(self, via=lane[0], path=lane[1])

    def with_members(self, members: Sequence[MemberSettings], before: "MemberLanes") -> Self:
        """The same with these for the pool of a run that had the settings `before`."""
        former = former_members((*before.former_members, *before.members), members)
        return msgspec.structs.replace(self, members=tuple(members), former_members=former)

    @property
    def vias(self) -> tuple[Via, ...]:
        """The lanes by which its jobs leave, wherever they go, each once: a row has to fit all of them."""
        if not self.members:
            return (self.via,)
        return tuple(dict.fromkeys(self.at(each.endpoint).via for each in self.members))
