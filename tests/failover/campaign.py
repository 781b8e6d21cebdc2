"""One fault after the other under load, and what must be true of each, and of all of it at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import anyio

from tests.failover.fault import SILENCE_S_MAX, Fault
from tests.failover.faults import FAULTS
from tests.failover.machine import Machine
from tests.failover.owners import Sent
from tests.failover.world import ENDPOINTS, RUNS_MAX, WINDOW_S, World
from tests.system.processes import Verdict

LOADED_S: Final = 45.0
"""For as long as it may take until the machines share, and to see who sends after a fault: at one endpoint that goes on
all the time.
"""

SETTLED_S_MAX: Final = 30.0
"""So soon somebody sends again, or nobody will. How long nobody did is another question."""


BESIDE_OTHERS: Final = 2.0
"""The patience of tests that run beside others, on machines that may be slow."""


@dataclass(frozen=True, kw_only=True)
class Met:
    """What came of one fault."""

    name: str
    befell: str
    """Which machine."""

    before: Mapping[str, str]
    """Which machine had each endpoint; nothing: they did not share them."""

    after: Mapping[str, str]
    """The same afterwards; nothing: nobody has sent again at some of them."""

    silence_s: float
    """The longest time in which nobody sent anything at one of them."""

    wrong: Sequence[str] = ()
    said: Mapping[str, str] = field(default_factory=dict)
    """What the process of each machine had said by then."""

    is_moved: bool = False
    """Whether another machine has sent since then at all endpoints that it had."""

    @property
    def is_loss(self) -> bool:
        """Whether the process that sent was gone, by whatever, so that another one had to find out."""
        return FAULTS[self.name].silence_s_max == SILENCE_S_MAX and self.is_moved

    @property
    def owners(self) -> str:
        """Who had the endpoints before it and after it, for people."""
        return " -> ".join(",".join(had.values()) or "nobody" for had in (self.before, self.after))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of all of them."""

    met: Sequence[Met]
    jobs: int
    results: int
    """Jobs that have one, each exactly one."""

    waiting: int
    """Jobs of which it cannot be known yet whether they were sent."""

    accepted: int
    """Submissions that the service took."""

    uncertain: int
    repeated_max: int
    late: int
    """Requests of a process after the first one of its successor at the same endpoint."""

    crowded: int
    """How many submissions came within one window of the limit, at the most."""

    verified: Verdict

    def wrong(self) -> list[str]:
        """What must not be, in words."""
        rules = {
            # Of those that waited some may have their results by the time at which these are counted.
            "a job has not one result": not self.results <= self.jobs <= self.results + self.waiting,
            f"{self.late} requests came of one whose successor had sent": self.late > 0,
            f"{self.crowded} submissions came within one window at an endpoint": self.crowded > RUNS_MAX,
            "more was paid twice than was uncertain": self.twice > self.uncertain + self.repeated_max,
            f"the ledger is wrong: {self.verified}": self.verified.exit_code != 0,
        }
        found = [f"{met.name}: {what}" for met in self.met for what in met.wrong]
        return found + [what for what, is_so in rules.items() if is_so]

    @property
    def twice(self) -> int:
        """Submissions beyond one for each job."""
        return self.accepted - (self.jobs - self.waiting)


@dataclass
class Campaign:
    """In that `world`. Where others use the machine, too, nothing may be sent for `patience` times as long as promised."""

    world: World
    patience: float = 1.0
    met: list[Met] = field(default_factory=list)

    async def meet(self, name: str, *, is_last: bool = False) -> Met:
        """Has that fault happen to one of the machines: by turns once both send, and as soon as somebody does at each
        endpoint, which may be the same. Unless it `is_last`, all is ready for another one afterwards.
        """
        fault, world = FAULTS[name], self.world
        await world.load(round(RUNS_MAX / WINDOW_S * (LOADED_S + fault.lasts_s)))
        is_shared = len(self.met) % 2 == 0
        before = await world.settled(SETTLED_S_MAX, is_shared=is_shared)
        if before is None:
            met = Met(
                name=name,
                befell="",
                before={},
                after={},
                silence_s=0.0,
                wrong=["not both send before it" if is_shared else "nobody sends at some endpoint before it"],
                said=self._said(),
            )
        else:
            met = await self._happens(name, fault, before)
        if not is_last:
            await world.replace()
        self.met.append(met)
        return met

    async def _happens(self, name: str, fault: Fault, before: Mapping[str, Machine]) -> Met:
        world, machine = self.world, before[ENDPOINTS[len(self.met) // 2 % len(ENDPOINTS)]]
        began, key, heard = anyio.current_time(), machine.key, len(machine.said)
        await fault.does(world, machine)
        after = await world.settled(SETTLED_S_MAX)
        await world.leave_alone()
        if fault.stands_back:
            await machine.stop()
        silence_s = max(longest(world.submissions(endpoint, began - WINDOW_S)) for endpoint in ENDPOINTS)
        senders = [
            {each.key for each in world.submissions(endpoint, began)}
            for endpoint, owner in before.items()
            if owner is machine
        ]
        is_moved = all(keys - {key} for keys in senders)
        is_heard = fault.says in machine.said[heard:]
        return Met(
            name=name,
            befell=machine.name,
            before=_names(before),
            after=_names(after or {}),
            silence_s=silence_s,
            wrong=self._wrong(fault, silence_s, is_moved=is_moved, goes_on=after is not None, is_heard=is_heard),
            said=self._said(),
            is_moved=is_moved,
        )

    def _wrong(self, fault: Fault, silence_s: float, *, is_moved: bool, goes_on: bool, is_heard: bool) -> list[str]:
        rules = {
            "nobody took the place of the one that was gone": fault.is_replaced and not is_moved,
            "nobody sends any more at some endpoint": not goes_on,
            f"its process said nothing of {fault.says!r}": not is_heard,
            f"nothing was sent at some endpoint for {silence_s:.1f} s": silence_s > fault.silence_s_max * self.patience,
        }
        return [what for what, is_so in rules.items() if is_so]

    def _said(self) -> Mapping[str, str]:
        return {machine.name: machine.said for machine in self.world.machines.values()}

    async def end(self, *, is_whole: bool = True) -> Ended:
        """Waits for the results, stops all, and checks it; `is_whole`: also whether each result can be had."""
        world = self.world
        await world.until_nothing_waits()
        stood = await world.stood()
        results = await world.rows() if is_whole else stood.results
        verified = await world.end()
        return Ended(
            met=self.met,
            jobs=stood.jobs,
            results=results,
            waiting=stood.waiting,
            accepted=world.service.counted("accepted"),
            uncertain=stood.uncertain,
            repeated_max=world.repeated_max,
            late=await world.late(),
            crowded=max(crowded_in([each.at for each in world.submissions(endpoint)]) for endpoint in ENDPOINTS),
            verified=verified,
        )


def _names(owners: Mapping[str, Machine]) -> Mapping[str, str]:
    return {endpoint: machine.name for endpoint, machine in owners.items()}


def longest(sent: Sequence[Sent]) -> float:
    """The longest time between one of these and the next."""
    return max((later.at - earlier.at for earlier, later in pairwise(sent)), default=float("inf"))


def crowded_in(times: Sequence[float]) -> int:
    """How many of these ascending times lie within one window, at the most."""
    return max(
        sum(at <= other < at + WINDOW_S for other in times[place : place + 4 * RUNS_MAX])
        for place, at in enumerate(times)
    )
