"""One world of ten weeks: pipelines of every kind, looks at odd times, people who change things, and a crash before and
after each commit of everything that is done. Afterwards each fire is in exactly one place.
"""

import random
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from orchestrator.core.pipelines.due_fires import GapKind, gap
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind, FlowState
from orchestrator.core.pipelines.overlap_policy import Live, startable
from orchestrator.core.pipelines.pipeline import INPUT, Overlap, Pipeline, Schedule, Stage
from orchestrator.core.pipelines.schedule_calendar import fires_between
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.units import HOUR_US, MINUTE_US
from tests.firing.places import ALL, misplaced
from tests.simulation.database import async_creator
from tests.simulation.run import Crash, run_until_crash

DAY_US: Final = 24 * HOUR_US
WEEKS_US: Final = 70 * DAY_US
EPOCHS: Final = (1_772_323_200_000_000, 1_791_072_000_000_000)
"""2026-03-01 and 2026-10-04: in the ten weeks after, clocks are turned."""

CRONS: Final = ("30 2 * * *", "*/20 * * * *", "15 */4 * * *", "0 3 * * 0", "5 1,2,3 * * *", "0 0 1 * *")
ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham")
LEAPS_US: Final = (59 * MINUTE_US, 25 * HOUR_US, 8 * DAY_US, -2 * HOUR_US)
"""How long everybody sleeps now and then, and how far the clock is set back."""

NAMES: Final = ("p", "q", "r")
STAGES: Final = (Stage(name="s", from_=(INPUT,), settings={"endpoint": ("ep",)}),)

Work = Callable[[Ledger], Awaitable[None]]


@dataclass
class Wall:
    """The clock on the wall: what everybody goes by, and people can set."""

    at: int

    def now(self) -> int:
        return self.at


class _Killer:
    """Kills before the first commit of one process, after the first one of the next, and so on."""

    def __init__(self, *, before: bool) -> None:
        self._crash = Crash()
        self._before = before
        self.commits = 0

    def committing(self) -> bool:
        self.commits += 1
        if self._before:
            self._crash.pull()
        return not self._before

    def committed(self) -> None:
        self._crash.pull()


@dataclass
class Weeks:
    """One world. `play` goes through it, `problems` says what is not as it has to be."""

    seed: int
    folder: Path
    lasts_us: int = WEEKS_US
    commits: int = 0
    """How many commits there were; each was killed before and after."""

    fires: int = 0
    gaps: int = 0
    _definitions: dict[str, list[tuple[int, Schedule | None]]] = field(default_factory=lambda: defaultdict(list))
    """By pipeline: since when it is what, as it was found in the ledger."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._wall = Wall(self._chance.choice(EPOCHS) + self._chance.randrange(DAY_US))
        self._path = self.folder / "l.db"
        self._end = self._wall.at + self.lasts_us

    # --- what happens

    def play(self) -> None:
        """Ten weeks, to their end."""
        for name in NAMES:
            self._apply(name)
        while self._wall.at < self._end:
            leap = self._chance.choice(LEAPS_US) if self._chance.random() < 0.1 else 0
            self._wall.at += leap or self._chance.randrange(MINUTE_US, 2 * DAY_US)
            name = self._chance.choice(NAMES)
            kind = self._chance.random()
            if kind < 0.06:
                self._apply(name)
            elif kind < 0.12:
                self._pause(name)
            elif kind < 0.2:
                self._continue(name)
            elif kind < 0.25:
                self._trigger(name)
            else:
                self._look()
        self._wall.at += DAY_US  # should it have been set back
        for name in NAMES:
            self._continue(name)
        self._look()

    def _schedule(self) -> Schedule:
        chance = self._chance
        rules: dict[str, Any] = {
            "overlap": chance.choice(tuple(Overlap)),
            "parallel": chance.choice((1, 1, 2)),
            "catch_up_us": chance.choice((0, HOUR_US, DAY_US, DAY_US, 9 * DAY_US)),
        }
        if chance.random() < 0.4:
            every = chance.choice((20, 59, 240, 1_440)) * MINUTE_US
            return Schedule(every_us=every, jitter_us=chance.choice((0, every // 2)), **rules)
        return Schedule(cron=(chance.choice(CRONS),), zone=chance.choice(ZONES), **rules)

    def _apply(self, name: str) -> None:
        """Another definition, as `apply` records it."""
        pipeline = Pipeline(name=name, folder="/x", input="in", schedule=self._schedule(), stages=STAGES)

        async def work(ledger: Ledger) -> None:
            now = self._wall.now()
            before = await _looker(ledger).settle(name, now)
            if before is not None and before.pipeline == pipeline:
                return
            missed = None
            if before is not None and before.watermark is not None and before.pipeline.schedule is not None:
                missed = gap(GapKind.PAUSED, before.pipeline.schedule, name, before.watermark.at_us, now)
            assert await ledger.flows.pipelines.define(pipeline, now=now, before=before, gap=missed)

        self._done(work)
        self._note(name)

    def _note(self, name: str) -> None:
        """Since when it is what: as the ledger has it."""
        found: list[Defined] = []

        async def work(ledger: Ledger) -> None:
            latest = await ledger.flows.pipelines.named(name)
            assert latest is not None
            found.append(latest)

        self._done(work)
        assert found[-1].watermark is not None
        since = max(found[-1].applied_at, found[-1].watermark.at_us)  # it may be behind: the clock was set back
        self._definitions[name].append((since, found[-1].pipeline.schedule))

    def _pause(self, name: str) -> None:
        until = self._wall.at + 3 * DAY_US if self._chance.random() < 0.5 else None

        async def work(ledger: Ledger) -> None:
            now = self._wall.now()
            found = await _looker(ledger).settle(name, now)
            assert found is not None
            assert found.watermark is not None
            if not found.watermark.is_paused(now):
                await ledger.flows.pipelines.pause(found, now=now, until=until, note="x")

        self._done(work)

    def _continue(self, name: str) -> None:
        catch_up = self._chance.random() < 0.5

        async def work(ledger: Ledger) -> None:
            now = self._wall.now()
            found = await _looker(ledger).settle(name, now)
            assert found is not None
            assert found.watermark is not None
            assert found.pipeline.schedule is not None
            if found.watermark.is_paused(now):
                left_out = gap(GapKind.PAUSED, found.pipeline.schedule, name, found.watermark.at_us, now)
                await ledger.flows.pipelines.proceed(
                    found, now=now, gap=None if catch_up else left_out, catch_up=catch_up
                )

        self._done(work)

    def _trigger(self, name: str) -> None:
        ahead = self._chance.choice((-DAY_US, 0, DAY_US)) // MINUTE_US * MINUTE_US

        async def work(ledger: Ledger) -> None:
            found = await ledger.flows.pipelines.named(name)
            assert found is not None
            at = (self._wall.now() + ahead) // DAY_US * DAY_US  # a fire of some of them
            await ledger.flows.add(found.id, name, found.definition, [at], FlowKind.TRIGGERED)

        self._done(work)

    def _look(self) -> None:
        """A process looks, begins what may begin, and ends something."""
        number = self._chance.randrange(4)
        ending: list[int] = []

        async def work(ledger: Ledger) -> None:
            await _looker(ledger).look(self._wall.now())
            running = [flow for flow in await ledger.flows.live() if flow.state is FlowState.RUNNING]
            if not ending:  # and the same ones by each process that goes on with it
                ending.extend([0, *(flow.id for flow in running[:number])])
            for flow in running:
                if flow.id in ending:
                    event = FlowEvent.CANCELLED if flow.is_cancelled else FlowEvent.SUCCEEDED
                    await ledger.flows.end(flow.id, event)
            live: dict[int, list[Live]] = defaultdict(list)
            for flow in await ledger.flows.live():
                live[flow.pipeline].append(flow.live)
            if begin := [number for flows in live.values() for number in startable(1, flows, self._wall.now())]:
                await ledger.flows.start(begin)

        self._done(work)

    # --- how it is done

    def _done(self, work: Work) -> None:
        """Does `work`, by as many processes as it takes: each is killed before or after its first commit."""
        before = True
        while True:
            killer = _Killer(before=before)
            if run_until_crash(lambda: self._process(work, killer), seed=self.seed) is None:  # noqa: B023
                return
            self.commits += killer.commits and not before
            before = not before

    async def _process(self, work: Work, killer: _Killer) -> None:
        connect = async_creator(self._path, commits=killer)
        async with open_ledger(self._path, clock=self._wall, connect=connect) as ledger, anyio.create_task_group() as g:
            await g.start(ledger.writer.serve)
            await work(ledger)
            g.cancel_scope.cancel()

    # --- what has to be

    def problems(self) -> list[str]:
        """What is not as it has to be; nothing, where all is well."""
        found: list[str] = []

        async def work(ledger: Ledger) -> None:
            for name in NAMES:
                found.extend(await self._problems_of(ledger, name))

        self._done(work)
        return found

    async def _problems_of(self, ledger: Ledger, name: str) -> list[str]:
        pipeline = await ledger.flows.pipelines.named(name)
        assert pipeline is not None
        assert pipeline.watermark is not None
        self.fires += len(await ledger.flows.fires.latest(pipeline.id, ALL))
        self.gaps += len(await ledger.flows.fires.gaps(pipeline.id, ALL))
        return await misplaced(ledger, pipeline, self._due(name, pipeline.watermark.at_us))

    def _due(self, name: str, until: int) -> list[int]:
        """Every fire of the pipeline while it was what it was."""
        changes = [*self._definitions[name], (until, None)]
        return [
            fire.at_us
            for (since, schedule), (end, _) in pairwise(changes)
            if schedule is not None
            for fire in fires_between(schedule, name, since, min(end, until), ALL)
        ]


def _looker(ledger: Ledger) -> ScheduleEvaluator:
    return ScheduleEvaluator(ledger=ledger, say=lambda _: None, warn=lambda _: None)


class Played(NamedTuple):
    """What came of one world."""

    fires: int
    gaps: int
    commits: int
    problems: list[str]


def played(seed: int) -> Played:
    """Plays the world of that seed, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        weeks = Weeks(seed, Path(folder))
        weeks.play()
        found = weeks.problems()
        return Played(weeks.fires, weeks.gaps, weeks.commits, found)
