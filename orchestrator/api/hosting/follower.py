"""A run that another process serves: how it stands, as the ledger and that process's heartbeat tell."""

from collections import Counter
from typing import Final

import anyio

from orchestrator.api.runs.process_commands import Acknowledged, ask_process
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.hosting.served_run import ServedRun, totals
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.progress import Progress
from orchestrator.errors import StoppedError, StorageError
from orchestrator.ledger import Ledger, is_locked_here
from orchestrator.ledger.commands.command_types import Action, ReplyCode
from orchestrator.ledger.runs.heartbeats import STALE_US, Heartbeat, ProcessReport, this_process
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy

TAKES_PLACE: Final = "where it stands still for good, end it: this process goes on in its place"

LOOK_S: Final = 0.25
"""How often to look whether the other process is still there, and has done anything."""


async def as_it_is(ledger: Ledger, run: Run) -> Run:
    """`run` as the ledger has it now. Raises `StoppedError` where it was deleted."""
    found = await ledger.runs.all([run.id])
    if not found or await ledger.runs.is_gone(run.id):
        raise StoppedError(f"{ledger.address}: the run {run.name!r} was deleted meanwhile")
    return found[0]


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
        beats = [beat for beat in await ledger.runs.heartbeats.all() if beat.process == this_process()]
        if beats and not any(beat.is_fresh(now) for beat in beats):
            since = format_duration(now - max(beat.beaten_at for beat in beats))
            console.warn(
                f"{ledger.address}: another Orchestrator of this program works on it, and has given no sign of life for"
                f" {since}: its event loop stands still, and nothing is sent or collected until it goes on"
            )
            return


_NOBODY: Final = Heartbeat(slot=0, process="", began_at=0, beaten_at=0, epoch=0, report=ProcessReport())


class FollowedRun(ServedRun):
    """`run` of `ledger`, which is open beside the process that works on it, `holder`. `serve` keeps it up to date.

    `silent` is what there is to say should that process stand still.
    """

    def __init__(self, ledger: Ledger, run: Run, console: Console, *, silent: str, holder: str | None) -> None:
        super().__init__(run, Progress(run.id, {}, margin_min_s=None, clock=ledger.clock))
        self._ledger = ledger
        self._console = console
        self._silent_advice = silent
        self._controls = RunControls()
        self._learned = Learned()
        self._beat = _NOBODY
        self._heard_at = ledger.now()
        self._is_silent = False
        self._asked_of: tuple[str, int] | None = None
        self._commands_before: int | None = None
        """The last command that was asked before this process followed."""

        self.is_told_to_stop = False
        """Whether somebody has asked since then for the end of whoever works here, or waits to."""

        self._sent_before: Counter[str] = Counter()
        """What the process that is followed had sent before: nothing, but for the first one."""

        self.holder = holder
        """Who works on the ledger; None once nobody does, and nothing is kept up to date."""

    @property
    def report(self) -> ProcessReport:
        """What the other process said last."""
        return self._beat.report

    @property
    def sent(self) -> Counter[str]:
        """What the process that serves it has sent since that began, or this one follows; see `totals`."""
        return totals(self.report) - self._sent_before

    @property
    def controls(self) -> RunControls:
        """What people ask of it."""
        return self._controls

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of it can be submitted, if so."""
        return self.of_run.stopped

    @property
    def is_uncollectable(self) -> bool:
        """Whether even `/status` is refused."""
        return self.of_run.is_uncollectable

    @property
    def is_adoptable(self) -> bool:
        """Whether webhooks may tell of its uncertain submissions."""
        collecting = self.of_run.collecting
        return collecting is not None and collecting.by is not CollectedBy.POLLING

    @property
    def is_released(self) -> bool:
        """Whether somebody asked that no more of it is sent, without pausing it."""
        return self.of_run.is_released

    @property
    def is_saving(self) -> bool:
        """Whether files are made of its results before it is sent."""
        return self.of_run.is_saving

    @property
    def retention_us(self) -> int:
        """For how long its results may be counted on."""
        return self._learned.retention_us(self.run.settings.retention_us)

    async def serve(self) -> None:
        """Keeps it up to date until cancelled. Raises `StorageError` where the ledger is lost."""
        known: int | None = None
        while True:
            check_place(self._ledger)
            version = await self._ledger.commits_of_others()
            if version != known:
                known = version
                await self.look()
            await self._look_at_holder()
            await anyio.sleep(LOOK_S)

    async def look(self) -> None:
        """Reads how it stands."""
        ledger, run = self._ledger, self.run.id
        if self._commands_before is None:
            self._commands_before = await ledger.commands.latest()
        self.is_told_to_stop = await ledger.commands.is_stop_asked(after=self._commands_before)
        self.run = await as_it_is(ledger, self.run)
        self._controls = await ledger.runs.controls(run)
        self._learned = await ledger.runs.learned.of(self.run.endpoint_id)
        beats = [beat for beat in await ledger.runs.heartbeats.all() if beat.is_fresh(ledger.now())]
        if (beat := next(iter(beats), None)) is not None and beat != self._beat:
            if beat.began_at != self._beat.began_at:
                self._sent_before = totals(beat.report) if self._beat is _NOBODY else Counter()
            self._beat, self._heard_at, self._is_silent = beat, ledger.now(), False
            await self._ask_anew()
        self.progress.margin_min_s = (await ledger.jobs.margins.of(run)).min
        self.progress.recount(await ledger.runs.counts(run))

    async def ask(self) -> Acknowledged:
        """Asks the process that works to serve the run; each that takes its place is asked, too.

        Raises `UsageError` where it refuses.
        """
        while True:
            await self.look()
            self._asked_of = self._process
            acknowledged = await ask_process(self._ledger, Action.SERVE, run=self.run.id)
            if acknowledged.code is not ReplyCode.ASKED_ANOTHER:
                return acknowledged
            await anyio.sleep(LOOK_S)  # it was asked before the process was there that has the ledger by now

    @property
    def _process(self) -> tuple[str, int]:
        return self._beat.process, self._beat.began_at

    async def _ask_anew(self) -> None:
        if self._asked_of not in (None, self._process):
            self._asked_of = self._process
            await self._ledger.commands.ask(Action.SERVE, run=self.run.id)

    async def _look_at_holder(self) -> None:
        held_by = await self._ledger.holder()
        if held_by != self.holder:
            self.holder, self._heard_at = held_by, self._ledger.now()
            self.progress.nudge()
        silent_us = self._ledger.now() - self._heard_at
        if held_by is not None and silent_us > STALE_US and not self._is_silent:
            self._is_silent = True
            self._console.warn(
                f"{held_by} works on this ledger and has said nothing for {silent_us // SECOND_US} s; "
                f"{self._silent_advice}"
            )


async def followed_run(ledger: Ledger, run: Run, console: Console, *, silent: str = TAKES_PLACE) -> FollowedRun:
    """`run` as whoever works on `ledger` now serves it."""
    return FollowedRun(ledger, run, console, silent=silent, holder=await ledger.holder())
