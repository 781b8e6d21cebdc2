"""Looks at the schedules: records what is due, and what was missed.

Whoever does it (the process that works on the ledger, one that applies another definition, two at once) comes to the
same: what is recorded counts only for the watermark that it was found at.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.core.pipelines.due_fires import GapKind, is_set_back, look
from orchestrator.core.pipelines.overlap_policy import Live, rule
from orchestrator.core.pipelines.schedule_calendar import fires_from
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.fires import FoundFires
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.command_names import command

FIRES_MAX: Final = 1_000
"""So many fires at most are recorded by one transaction."""

NEVER_US: Final = 1 << 62


class Recorded(NamedTuple):
    """What a look has recorded."""

    fires: int
    next_us: int | None
    """When the next fire is due; None: none ever is."""


@dataclass(kw_only=True, eq=False)
class ScheduleEvaluator:
    """Of one ledger. `say` and `warn` tell people, `word` words what they can do."""

    ledger: Ledger
    say: Callable[[str], None]
    warn: Callable[[str], None]
    word: Wording = command
    _next: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    """When the first fire is due, by definition and watermark: to work it out anew costs most of a look."""

    _set_back: set[int] = field(init=False, default_factory=set)
    """The pipelines of which was told that the clock is behind."""

    async def look(self, now: int) -> Recorded:
        """Records everything that is due by `now`, a transaction at a time."""
        fires = 0
        while True:
            scheduled = [each for each in await self.ledger.flows.pipelines.all() if each.watermark is not None]
            self._warn_of_clock(scheduled, now)
            due = [each for each in scheduled if self._is_due(each, now)]
            if not due:
                return Recorded(fires, self._next_of(scheduled, now))
            found = await self._found(due, now)
            recorded = await self.ledger.flows.fires.record(found)
            for each in found:
                if each.pipeline in recorded:
                    fires += len(each.look.fires)
                    self._tell(each)

    async def settle(self, name: str, now: int) -> Defined | None:
        """The pipeline of that name once everything that was due by `now` is recorded, and its watermark is there;
        None where there is none.
        """
        while True:
            found = await self.ledger.flows.pipelines.named(name)
            if found is None or found.watermark is None or found.watermark.is_paused(now):
                return found
            if found.watermark.at_us >= now and found.watermark.paused_at is None:
                return found
            await self.ledger.flows.fires.record(await self._found([found], now))

    async def _found(self, due: Sequence[Defined], now: int) -> list[FoundFires]:
        """What is due of these, of as many as one transaction may record."""
        live: defaultdict[int, list[Live]] = defaultdict(list)
        for flow in await self.ledger.flows.live():
            live[flow.pipeline].append(flow.live)
        found, room = [], FIRES_MAX
        for each in due:
            schedule = each.pipeline.schedule
            assert schedule is not None
            assert each.watermark is not None
            seen = look(schedule, each.name, each.watermark, now, room)
            fires = [fire.at_us for fire in seen.fires]
            ruled = rule(schedule.overlap, schedule.parallel, fires, live[each.id])
            found.append(FoundFires(each.id, each.name, each.definition, each.watermark, seen, ruled))
            room -= len(fires)
            if room <= 0:
                break
        return found

    def _is_due(self, each: Defined, now: int) -> bool:
        assert each.watermark is not None
        if each.watermark.is_paused(now):
            return False
        return each.watermark.paused_at is not None or self._first(each) <= now

    def _first(self, each: Defined) -> int:
        assert each.watermark is not None
        assert each.pipeline.schedule is not None
        key = (each.definition, each.watermark.at_us)
        if key not in self._next:
            self._next[key] = next(fires_from(each.pipeline.schedule, each.watermark.at_us + 1), NEVER_US)
        return self._next[key]

    def _next_of(self, scheduled: Sequence[Defined], now: int) -> int | None:
        self._next = {
            (each.definition, each.watermark.at_us): self._first(each)
            for each in scheduled
            if each.watermark is not None and not each.watermark.is_paused(now)
        }
        ends = [each.watermark.paused_until for each in scheduled if each.watermark and each.watermark.paused_until]
        return min((at for at in (*self._next.values(), *ends) if now < at < NEVER_US), default=None)

    def _warn_of_clock(self, scheduled: Sequence[Defined], now: int) -> None:
        for each in scheduled:
            assert each.watermark is not None
            if not is_set_back(each.watermark.at_us, now):
                self._set_back.discard(each.id)
            elif each.id not in self._set_back:
                self._set_back.add(each.id)
                self.warn(
                    f"{each.name}: the clock is over an hour behind the time of the last look, so it was set back, or"
                    " was ahead then; nothing fires twice, and nothing at all until it has come on"
                )

    def _tell(self, found: FoundFires) -> None:
        for gap in found.look.gaps:
            if gap.kind is GapKind.MISSED:
                self.warn(
                    f"{found.name}: {counted(gap.fires, 'fire')} came too late and were missed; see:"
                    f" {self.word(Suggestion(NextStep.SHOW_SCHEDULE, found.name))}"
                )
        skipped = found.ruled.skipped
        if skipped:
            self.say(f"{found.name}: {counted(len(skipped), 'fire')} skipped: {next(iter(skipped.values()))}")
