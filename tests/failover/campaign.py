"""One fault after the other under load, and what must be true of each, and of all of it at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import anyio

from tests.failover.fault import SILENCE_S_MAX, Fault
from tests.failover.faults import FAULTS
from tests.failover.world import RUNS_MAX, WINDOW_S, Sent, World
from tests.system.processes import Verdict

LOADED_S: Final = 20.0
"""For as long as it takes to see who sends, before a fault and after it, and for all that is sent meanwhile."""

SETTLED_S_MAX: Final = 30.0
"""So soon somebody sends again, or nobody will. How long nobody did is another question."""


@dataclass(frozen=True, kw_only=True)
class Met:
    """What came of one fault."""

    name: str
    before: str
    """Who owned the ledger."""

    after: str
    """Who did afterwards; nothing: nobody has sent again."""

    silence_s: float
    """The longest time in which nobody sent anything."""

    wrong: Sequence[str] = ()
    said: Mapping[str, str] = field(default_factory=dict)
    """What the process of each machine had said by then."""

    @property
    def is_loss(self) -> bool:
        """Whether the process that sent was gone, by whatever, so that another one had to find out."""
        return FAULTS[self.name].silence_s_max == SILENCE_S_MAX and self.before != self.after


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
    """Requests of a process after the first one of its successor."""

    crowded: int
    """How many submissions came within one window of the limit, at the most."""

    verified: Verdict

    def wrong(self) -> list[str]:
        """What must not be, in words."""
        rules = {
            # Of those that waited some may have their results by the time at which these are counted.
            "a job has not one result": not self.results <= self.jobs <= self.results + self.waiting,
            f"{self.late} requests came of one whose successor had sent": self.late > 0,
            f"{self.crowded} submissions came within one window": self.crowded > RUNS_MAX,
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
    """In that `world`, where there is something to send for `loaded_s` before each fault."""

    world: World
    loaded_s: float = LOADED_S
    met: list[Met] = field(default_factory=list)

    async def meet(self, name: str, *, is_last: bool = False) -> Met:
        """Has that fault happen to whoever owns the ledger, once that sends. Unless it `is_last`, all is ready for another
        one afterwards.
        """
        fault, world = FAULTS[name], self.world
        await world.load(round(RUNS_MAX / WINDOW_S * (self.loaded_s + fault.lasts_s)))
        before = await world.settled(SETTLED_S_MAX)
        if before is None:
            said = {machine.name: machine.said for machine in world.machines.values()}
            await world.replace_others(None)
            met = Met(name=name, before="", after="", silence_s=0.0, wrong=["nobody sends before it"], said=said)
            self.met.append(met)
            return met
        began = anyio.current_time()
        await fault.does(world, before)
        after = await world.settled(SETTLED_S_MAX)
        await world.leave_alone()
        silence_s = longest(world.submissions(began - WINDOW_S))
        said = {machine.name: machine.said for machine in world.machines.values()}
        wrong = [] if is_last else await world.replace_others(after)
        met = Met(
            name=name,
            before=before.name,
            after="" if after is None else after.name,
            silence_s=silence_s,
            wrong=[*wrong, *_wrong(fault, silence_s, is_same=before is after, goes_on=after is not None)],
            said=said,
        )
        self.met.append(met)
        return met

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
            late=late_in([each.key for each in world.sent if each.key in world.keys]),
            crowded=crowded_in([each.at for each in world.submissions()]),
            verified=verified,
        )


def _wrong(fault: Fault, silence_s: float, *, is_same: bool, goes_on: bool) -> list[str]:
    rules = {
        "nobody took the place of the one that was gone": fault.is_replaced and is_same,
        "nobody sends any more": not goes_on,
        f"nothing was sent for {silence_s:.1f} s": silence_s > fault.silence_s_max,
    }
    return [what for what, is_so in rules.items() if is_so]


def longest(sent: Sequence[Sent]) -> float:
    """The longest time between one of these and the next."""
    return max((later.at - earlier.at for earlier, later in pairwise(sent)), default=float("inf"))


def crowded_in(times: Sequence[float]) -> int:
    """How many of these ascending times lie within one window, at the most."""
    return max(
        sum(at <= other < at + WINDOW_S for other in times[place : place + 4 * RUNS_MAX])
        for place, at in enumerate(times)
    )


def late_in(senders: Sequence[str]) -> int:
    """How many of these requests came of one whose successor had sent: each may own the ledger once here."""
    late, gone, present = 0, set[str](), ""
    for name in senders:
        if name in gone:
            late += 1
        elif name != present:
            gone.add(present)
            present = name
    return late
