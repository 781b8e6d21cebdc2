"""A run that another process serves: how it stands, as the ledger and that process's heartbeat tell."""

from collections import Counter
from typing import Final

import anyio

from orchestrator.api.runs.process_commands import Acknowledged, ask_process
from orchestrator.api.runs.run_lookup import served_by
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.observers.run_elsewhere import NOBODY, RunElsewhere
from orchestrator.engine.observers.served_run import totals
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, is_locked_here
from orchestrator.ledger.commands.command_types import QUEUES_AGAIN, Action, AskedCommands, ReplyCode
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.runs.heartbeats import STALE_US, Heartbeat
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import SECOND_US

TAKES_PLACE: Final = "where it stands still for good, end it: this process goes on in its place"

LOOK_S: Final = 0.25
"""How often to look whether the other process is still there, and has done anything."""


def check_place(ledger: Ledger) -> None:
    """Raises `StorageError` where the open `ledger` is lost: whoever opened it by its name would make another one."""
    if (lost := ledger.place.lost()) is not None:
        raise StorageError(f"{lost}; follow it where it is now")


async def warn_if_still(ledger: Ledger, console: Console) -> None:
    """Says once that another part of this very program works on `ledger` and gives no sign of life, should that be."""
    while True:
        await anyio.sleep(LOOK_S)
        if not is_locked_here(ledger.address):
            continue
        now = ledger.now()
        beats = [beat for beat in await ledger.runs.heartbeats.all() if beat.process == process_name()]
        if beats and not any(beat.is_fresh(now) for beat in beats):
            since = format_duration(now - max(beat.beaten_at for beat in beats))
            console.warn(
                f"{ledger.address}: another Orchestrator of this program works on it, and has given no sign of life for"
                f" {since}: its event loop stands still, and nothing is sent or collected until it goes on"
            )
            return


class FollowedRun(RunElsewhere):
    """`run` of `ledger`, which is open beside the process that works on it, `holder`. `serve` keeps it up to date.

    `silent` is what there is to say should that process stand still.
    """

    def __init__(self, ledger: Ledger, run: Run, console: Console, *, silent: str, holder: str | None) -> None:
        super().__init__(ledger, run)
        self._console = console
        self._silent_advice = silent
        self._refreshed_at = self._heard_at = ledger.now()
        self._is_silent = False
        self._asked_of: tuple[str, int] | None = None
        self._asked_for = frozenset[str]()
        """What was asked of the run and is not done."""

        self._commands_before: AskedCommands | None = None
        """The commands that were asked before this process followed."""

        self.is_told_to_stop = False
        """Whether somebody has asked since then for the end of whoever works here, or waits to."""

        self._sent_before: Counter[str] = Counter()
        """What the process that is followed had sent before: nothing, but for the first one."""

        self.is_served_here = False
        """Whether it is this very process that has begun to serve it."""

        self.holder = holder
        """Who works on the run, or on the ledger; None once nobody does, and nothing is kept up to date."""

    @property
    def is_over(self) -> bool:
        """As ever, and whoever is to carry out what was asked of it has queued again what that queues."""
        return super().is_over and (self.is_released or not self._asked_for & QUEUES_AGAIN)

    @property
    def sent(self) -> Counter[str]:
        """What the process that serves it has sent since that began, or this one follows; see `totals`."""
        return totals(self.report) - self._sent_before

    @property
    def refreshed_at(self) -> int:
        """When it stood as it does here: when the ledger was last asked what has changed, and has answered."""
        return self._refreshed_at

    async def serve(self) -> None:
        """Keeps it up to date until cancelled. Raises `StorageError` where the ledger is lost."""
        known: int | None = None
        while True:
            check_place(self.ledger)
            asked_at = self.ledger.now()
            version = await self.ledger.commits_of_others()
            if version != known:
                known = version
                await self.look()
            self._refreshed_at = asked_at
            await self._look_at_holder()
            await anyio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Also what was asked of it, and whether this process is to stop."""
        if self._commands_before is None:
            self._commands_before = await self.ledger.commands.asked()
        self.is_told_to_stop = await self.ledger.commands.is_stop_asked(since=self._commands_before)
        asked = await self.ledger.commands.pending()
        self._asked_for = frozenset(each.action for each in asked if each.run == self.run.id)
        await super()._look()
        await self._ask_anew()

    async def hears(self, beat: Heartbeat) -> None:
        """The process that serves it has said something else, or another one serves it by now."""
        if beat.began_at != self.beat.began_at:
            is_at_work = self.beat is NOBODY and not self.is_served_here
            self._sent_before = totals(beat.report) if is_at_work else Counter()
        await super().hears(beat)
        self._heard_at, self._is_silent = self.ledger.now(), False

    async def ask(self) -> Acknowledged:
        """Asks the process that works to serve the run; each that takes its place is asked, too.

        Raises `UsageError` where it refuses.
        """
        while True:
            self._asked_of = None
            await self.look()
            self._asked_of = self._process
            acknowledged = await ask_process(self.ledger, Action.SERVE, run=self.run.id)
            if acknowledged.code is not ReplyCode.ASKED_ANOTHER:
                return acknowledged
            await anyio.sleep(LOOK_S)  # it was asked before the process was there that has the ledger by now

    @property
    def _process(self) -> tuple[str, int]:
        return self.beat.process, self.beat.began_at

    async def _ask_anew(self) -> None:
        """Asks whoever has taken the place of the one that was asked, unless what was asked waits there still: where
        several beat by turns, commands would come faster than they are carried out.
        """
        if self._asked_of not in (None, self._process) and Action.SERVE not in self._asked_for:
            self._asked_of = self._process
            await self.ledger.commands.ask(Action.SERVE, run=self.run.id)

    async def _look_at_holder(self) -> None:
        held_by = await served_by(self.ledger, self.run)
        if held_by != self.holder:
            self.holder, self._heard_at = held_by, self.ledger.now()
            self.progress.nudge()
        silent_us = self.ledger.now() - self._heard_at
        if held_by is not None and silent_us > STALE_US and not self._is_silent:
            self._is_silent = True
            self._console.warn(
                f"{held_by} works on this ledger and has said nothing for {silent_us // SECOND_US} s; "
                f"{self._silent_advice}"
            )


async def followed_run(ledger: Ledger, run: Run, console: Console, *, silent: str = TAKES_PLACE) -> FollowedRun:
    """`run` as whoever works on `ledger` now serves it."""
    return FollowedRun(ledger, run, console, silent=silent, holder=await served_by(ledger, run))
