"""Requests that wait for a job: `/runsync`, `/status-sync` and `/stream`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import anyio

from orchestrator.emulator.jobs.world import World


class JobWatch:
    """Follows one job."""

    def __init__(self) -> None:
        self._bell = anyio.Event()

    def ring(self) -> None:
        self._bell.set()

    async def change(self) -> None:
        """Returns when something has happened to the job since the last call, or since the watch began."""
        await self._bell.wait()
        self._bell = anyio.Event()


class LongPolls:
    """Who follows which job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watches: dict[str, list[JobWatch]] = {}

    @contextmanager
    def watching(self, job_id: str) -> Iterator[JobWatch]:
        """A watch on the job, which need not exist."""
        watch = JobWatch()
        self._watches.setdefault(job_id, []).append(watch)
        self._world.watch(job_id)
        try:
            yield watch
        finally:
            watches = self._watches[job_id]
            watches.remove(watch)
            if not watches:
                del self._watches[job_id]
                self._world.unwatch(job_id)

    def notify(self, job_ids: Iterable[str]) -> None:
        """Something has happened to these jobs."""
        for job_id in job_ids:
            for watch in self._watches.get(job_id, ()):
                watch.ring()
