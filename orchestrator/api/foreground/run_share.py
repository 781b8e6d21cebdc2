"""What a run in the foreground serves of a ledger on a server: its own shard, where nobody else is there for that.

The run is followed all the same. So it goes on without a break where another process comes to serve it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup

from orchestrator.api.hosting.follower import LOOK_S, FollowedRun
from orchestrator.api.hosting.host import Host
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.core.ownership.beat_watch import SILENCE_US, Beat, BeatWatch
from orchestrator.engine.flows.run_notifier import note_interruption
from orchestrator.errors import DeposedError, leading
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.api.hosting.shared_ledger import SharedLedger

LATE_US: Final = SILENCE_US // 2
"""An answer that takes longer is one of a server that could not be asked for a while."""


class RunShare:
    """That of the run `followed`, in `tasks` of the process of `host`."""

    def __init__(self, host: Host, followed: FollowedRun, tasks: TaskGroup) -> None:
        self._host = host
        self._followed = followed
        self._tasks = tasks
        self._listens = anyio.Event()
        self._stop = anyio.Event()
        self._ended = anyio.Event()
        self._is_begun = False
        self._is_to_end = False
        self._shared: SharedLedger | None = None
        self._finishing: anyio.CancelScope | None = None
        self._watch = BeatWatch()
        self._back_at = -SILENCE_US
        """When the ledger could be asked again that could not for a while, in which nobody could beat, or connect."""

    @property
    def webhook_bytes(self) -> int:
        """How many bytes the URL for webhooks takes of each request, here or where the run is served."""
        if self._shared is None:
            return self._followed.report.webhook_bytes
        return self._shared.process.listener.url_bytes

    @property
    def is_begun(self) -> bool:
        """Whether this process has come to be one of those that serve the ledger."""
        return self._is_begun

    async def begin_where_nobody_serves(self) -> bool:
        """Has this process serve the run where nobody is there who serves whatever there is; returns, once it listens,
        whether it has begun just now.

        Raises `UsageError` where it cannot.
        """
        if self._is_begun or self._host.stop.is_set() or await self._is_served():
            return False
        self._is_begun = True
        self._tasks.start_soon(self._serve)
        await self._listens.wait()
        if self._shared is not None:
            await self._shared.ability.check(self._followed.run)
        return True

    async def _is_served(self) -> bool:
        """Whether somebody serves whatever there is, and beats. One that is frozen, or cut off, is connected still."""
        ledger = self._followed.ledger
        asked_at, tries = _now(), ledger.patience.tries
        servers = await ledger.servers()
        answered_at = _now()
        if ledger.patience.tries != tries or answered_at - asked_at > LATE_US:
            self._watch, self._back_at = BeatWatch(), answered_at
        self._watch.saw((Beat(*each) for each in servers.items()), answered_at)
        if not servers and answered_at - self._back_at < SILENCE_US:
            return True  # who serves it may be about to connect anew
        return len(self._watch.silent(answered_at)) < len(servers)

    async def serve_until(self, is_left: Callable[[], bool]) -> None:
        """Begins as soon as nobody serves the run any more; returns once `is_left` holds, and all that is then to be
        done here is done, and handed over.
        """
        while True:
            while not is_left():
                if await self.begin_where_nobody_serves():
                    self._host.console.info("nobody serves this ledger any more: this process goes on with its run")
                with anyio.move_on_after(LOOK_S):
                    await self._host.stop.wait()
            await self._finish()
            if is_left():  # else somebody has had its failed jobs queued again meanwhile
                break
        await self._end()

    async def _end(self) -> None:
        """Hands over what it has; returns once nothing of it is under way."""
        self._is_to_end = True
        if self._is_begun:
            self._stop.set()
            await self._ended.wait()

    async def _finish(self) -> None:
        """Has done what nobody else may be there to do, and what was sent known to who follows; where its share is
        lost meanwhile, that is for whoever gets it.
        """
        if (shared := self._shared) is None:
            return
        with anyio.CancelScope() as self._finishing:
            try:
                await self._finish_share(shared)
            except (DeposedError, BaseExceptionGroup) as error:
                if not isinstance(leading(error), DeposedError):
                    raise

    async def _finish_share(self, shared: "SharedLedger") -> None:
        if self._host.stop.is_set():
            self._host.console.info(start_and_stop_texts.STOPPING)
            if self._followed.ledger.patience.trouble is not None:
                shared.process.ledger.patience.hurry(is_away=True)
                return
            await self._tell_of_interruption(shared)
        else:
            for engine in shared.engines:
                await engine.finish()
        await shared.process.heart.beat()
        await self._followed.look()

    async def _tell_of_interruption(self, shared: "SharedLedger") -> None:
        followed = self._followed
        is_told = followed.run.settings.notify is not None and followed.progress.unfinished > 0
        if is_told and not await self._is_served():
            await note_interruption(followed.ledger, followed.run.id)
            for engine in shared.engines:
                await engine.tell()

    async def _serve(self) -> None:
        from orchestrator.api.hosting.shared_host import serve_shared  # noqa: PLC0415  with it comes what few need

        def at_work(shared: "SharedLedger | None") -> None:
            self._shared = shared
            if shared is not None:
                self._followed.is_served_here = True
                shared.process.services.use_key_for(self._followed.run.service_url)
                self._listens.set()
            elif self._finishing is not None:
                self._finishing.cancel()

        async with anyio.create_task_group() as beside:
            beside.start_soon(self._give_up)
            await serve_shared(replace(self._host, stop=self._stop, run=self._followed.run.id), at_work=at_work)
            beside.cancel_scope.cancel()
        self._listens.set()  # also where it never did: it was stopped before
        if not self._is_to_end:  # somebody has asked for the end of this process
            self._host.stop.set()
        self._ended.set()

    async def _give_up(self) -> None:
        """Whoever is stopped before it is one of those that serve is none of them."""
        await self._host.stop.wait()
        if self._shared is None:
            self._stop.set()


@asynccontextmanager
async def run_share(host: Host, followed: FollowedRun) -> AsyncIterator[RunShare]:
    """That of the run `followed`, of which nothing is left after the block."""
    async with anyio.create_task_group() as tasks:
        yield RunShare(host, followed, tasks)


def _now() -> int:
    return round(anyio.current_time() * SECOND_US)
