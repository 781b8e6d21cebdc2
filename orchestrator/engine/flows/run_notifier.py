"""Tells of single runs: finds what holds of those that this process serves, and sends what is owed.

That a run has started, or is over, is owed by the transaction in which that happens. That it is held, stands still,
will be late, or has spent its money is found here. Such an episode is told once, by whichever process, and that it is
over once it has been so for a while: what comes and goes is one episode.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus

from orchestrator.client.notify.delivery import Delivery
from orchestrator.clock import Clock
from orchestrator.core.batches.stuck import stuck_sentence
from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.lanes.via import Via
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.engine.flows.flow_notifier import FINISH_S_MAX
from orchestrator.engine.flows.outbox_sender import OutboxSender
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""How often to see whether something holds of a run that somebody wants to hear of."""

STALLED_US: Final = 10 * MINUTE_US
"""Who hears of a standstill hears of it after so long."""

QUIET_US: Final = 10 * MINUTE_US
"""What has not held for so long is over."""

LEAVING_S_MAX: Final = 5.0
"""So long a process that was interrupted goes on telling so."""


class RunNotificationSender(Protocol):
    """Brings messages of runs to whom they are for."""

    async def __call__(self, message: RunMessage, /) -> Delivery:
        """Sends one."""
        ...


@dataclass(kw_only=True, eq=False)
class RunEpisodes:
    """Of the runs that one engine serves: finds what holds of them that somebody wants to hear of. `found` is called
    once something is owed by that.
    """

    ledger: Ledger
    clock: Clock
    sessions: Mapping[int, RunSession]
    settings_of: Mapping[int, RunSettings]
    scrub: Callable[[bytes], bytes]
    paid_for_nothing: Callable[[int], str | None] = lambda _: None
    """That a run pays for what does nothing, in a sentence; None where it does not."""

    found: Callable[[], None] = lambda: None

    _known: dict[int, dict[RunNews, int | None]] = field(init=False, default_factory=dict)
    """What the ledger has of each run, as far as it was looked up."""

    def tells(self, run: int) -> bool:
        """Whether anybody wants to hear of that run."""
        settings = self.settings_of.get(run)
        return settings is not None and settings.notify is not None

    @property
    def has_any(self) -> bool:
        """Whether anybody wants to hear of any that is served."""
        return any(map(self.tells, self.sessions))

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Looks now and then until cancelled, where another engine sends what is owed."""
        task_status.started()
        while True:
            try:
                await self.look()
            except StorageError as error:
                log.warning("what is owed of runs is unknown: %s", error)
            await anyio.sleep(LOOK_S)

    async def look(self) -> None:
        """Begins and ends the episodes of the runs that tell somebody. Raises `StorageError`."""
        for run, session in tuple(self.sessions.items()):
            if session.progress.unfinished and self.tells(run):
                await self._look_at(run, dict(self._holds(session)))
            else:
                self._known.pop(run, None)

    async def _look_at(self, run: int, holds: Mapping[RunNews, str]) -> None:
        outbox, now = self.ledger.flows.run_outbox, self.clock.now()
        known = self._known.get(run)
        if known is None:
            known = self._known[run] = await outbox.episodes_of(run)
        for news, why in holds.items():
            if news not in known or known[news] is not None:
                await outbox.begin_episode(run, news, self.scrub(why.encode()).decode())
                known[news] = None
                self.found()
        gone = [news for news, over_at in known.items() if over_at is None and news not in (*holds, RunNews.STARTED)]
        if gone:
            await outbox.leave_episodes(run, gone)
            known |= dict.fromkeys(gone, now)
        if any(over_at is not None and over_at <= now - QUIET_US for over_at in known.values()):
            for news in await outbox.end_episodes(run, now - QUIET_US):
                known.pop(news, None)
                self.found()

    def _holds(self, session: RunSession) -> Iterator[tuple[RunNews, str]]:
        now = self.clock.now()
        if session.controls.cancel:
            return
        if (why := session.why_stopped) is not None:
            yield RunNews.STOPPED if session.brakes.why_stopped is None else RunNews.ON_HOLD, why
        elif (why := session.why_stalled(now - STALLED_US) or self._why_stuck(session)) is not None:
            yield RunNews.STALLED, why
        if (why := session.brakes.why_late) is not None:
            yield RunNews.WILL_MISS, why
        if (why := session.brakes.why_spent) is not None:
            yield RunNews.SPEND, why

    def _why_stuck(self, session: RunSession) -> str | None:
        """That something of it is stuck, whatever else of it moves: one of its batches, or a pod that is paid."""
        if not session.controls.pause and session.run.settings.via is Via.BATCH:
            stuck = (stuck_sentence(each.batch, each.rows) for each in session.of_run.batches if each.is_stuck)
            return next(stuck, None)
        return self.paid_for_nothing(session.run.id)


async def note_interruption(ledger: Ledger, run: int) -> None:
    """Whoever wants to hear of `run` is to be told that nobody works on it any more, where nothing else is to be told
    that has not passed. Raises `StorageError`.
    """
    known = await ledger.flows.run_outbox.episodes_of(run)
    if all(over_at is not None or news is RunNews.STARTED for news, over_at in known.items()):
        why = "the process that worked on it was ended, or asked to end"
        await ledger.flows.run_outbox.begin_episode(run, RunNews.INTERRUPTED, why)


@dataclass(kw_only=True, eq=False)
class RunNotifier:
    """Of one ledger: sends what is owed of runs, whichever engine has found it. `episodes` are those of its own engine,
    which is the only one where it `is_alone`.
    """

    episodes: RunEpisodes
    ledger: Ledger
    clock: Clock
    tell: RunNotificationSender
    scrub: Callable[[bytes], bytes]
    warn: Callable[[str], None]
    is_alone: bool

    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _outbox_sender: OutboxSender[RunMessage] = field(init=False)

    def __post_init__(self) -> None:
        self._outbox_sender = OutboxSender(
            outbox=self.ledger.flows.run_outbox,
            send=self.tell,
            name_of=lambda message: f"{message.name}: nobody could be told that it is {message.news}",
            clock=self.clock,
            scrub=self.scrub,
            warn=self.warn,
            on_sent=self._wakeup.wake,
        )

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """A run may be over by these."""
        for step in taken:
            if is_terminal(step.after) and (not self.is_alone or self.episodes.tells(step.after.run)):
                self._wakeup.wake()
                return

    def on_change(self) -> None:
        """Another process may have asked that something is sent again."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled."""
        async with self._outbox_sender.working():
            task_status.started()
            await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def finish(self) -> None:
        """Sends what is to be sent by now, for a while at most. Inside of `serve`."""
        with anyio.move_on_after(FINISH_S_MAX):
            await self._told(self._outbox_sender.until_idle)

    async def leave(self) -> None:
        """Tells of the runs of which jobs are left and nothing else was told, and of those that ended while what was in
        flight did. After `serve`.
        """
        sessions = self.episodes.sessions
        told = [run for run in sessions if self.episodes.tells(run)]
        if not told or not self.is_alone:  # else another engine goes on
            return
        left = [run for run in told if sessions[run].progress.unfinished]
        with anyio.move_on_after(LEAVING_S_MAX):
            async with self._outbox_sender.working():
                for run in left:
                    await note_interruption(self.ledger, run)
                await self._told(self._outbox_sender.until_idle)

    async def _poll(self) -> float:
        next_s = SELDOM_S
        try:
            await self.episodes.look()
            next_s = await self._outbox_sender.send_due()
        except StorageError as error:
            log.warning("what is owed of runs is unknown: %s", error)
        return min(next_s, LOOK_S) if self.episodes.has_any or not self.is_alone else next_s

    async def _told(self, send: Callable[[], Awaitable[None]]) -> None:
        try:
            await self.episodes.look()
            await send()
        except StorageError as error:
            log.warning("what is owed of runs is unknown: %s", error)
