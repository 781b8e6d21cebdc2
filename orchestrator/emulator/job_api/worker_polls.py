"""The long polls of official workers: who waits for a job, and who is to hear of a stop (as observed).

Jobs go to whoever has waited longest. An answer of "nothing" at once would make the worker ask again at once, some
thousand times a second; so a poll is held.
"""

from collections import deque

import anyio

from orchestrator.emulator.jobs.jobs import JobExecution


class TakePoll:
    """One worker waits for up to `slots` jobs."""

    def __init__(self, worker_id: str, slots: int) -> None:
        self.worker_id = worker_id
        self.slots = slots
        self.executions: tuple[JobExecution, ...] = ()
        self.answered = anyio.Event()

    def answer(self, executions: tuple[JobExecution, ...]) -> None:
        self.executions = executions
        self.answered.set()


class TakeQueues:
    """The polls that wait for jobs, by endpoint, longest waiting first."""

    def __init__(self) -> None:
        self._polls: dict[str, deque[TakePoll]] = {}

    def join(self, endpoint: str, poll: TakePoll) -> None:
        self._polls.setdefault(endpoint, deque()).append(poll)

    def leave(self, endpoint: str, poll: TakePoll) -> None:
        polls = self._polls.get(endpoint, deque())
        if poll in polls:
            polls.remove(poll)

    def waiting(self, endpoint: str) -> tuple[TakePoll, ...]:
        return tuple(self._polls.get(endpoint, ()))

    def release(self, endpoint: str, worker_id: str) -> None:
        """Answer the polls of a worker that is to go: there is nothing for it."""
        for poll in tuple(self._polls.get(endpoint, ())):
            if poll.worker_id == worker_id:
                self.leave(endpoint, poll)
                poll.answer(())


class StopLine:
    """What one worker is to stop, and whether it has listened."""

    def __init__(self) -> None:
        self._job_ids: list[str] = []
        self._bell = anyio.Event()
        self._unheard: list[anyio.Event] = []
        self._told: list[anyio.Event] = []

    def tell(self, job_id: str) -> anyio.Event:
        """Have the worker stop a job. The event is set once it has asked again, so must have read the answer."""
        heard = anyio.Event()
        if job_id not in self._job_ids:
            self._job_ids.append(job_id)
        self._unheard.append(heard)
        self._bell.set()
        return heard

    def untell(self, job_id: str) -> None:
        """The worker is to run the job again."""
        if job_id in self._job_ids:
            self._job_ids.remove(job_id)

    def asked(self) -> None:
        """The worker polls: it has read whatever it was told before."""
        for heard in self._told:
            heard.set()
        self._told = []

    def ring(self) -> None:
        """End a poll without anything to stop."""
        self._bell.set()

    async def listen(self) -> tuple[str, ...]:
        """The jobs to stop, once there are any or `ring` is called."""
        if not self._job_ids:
            self._bell = anyio.Event()
            await self._bell.wait()
        job_ids, self._job_ids = tuple(self._job_ids), []
        self._told, self._unheard = self._told + self._unheard, []
        return job_ids
