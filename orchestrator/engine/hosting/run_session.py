"""One run, as the engine serves it: how it stands, and its sending."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.core.diagnosis.service_rules import UNREACHABLE
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.hosting.run_control import RunController
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.sending.dispatcher import Dispatcher
from orchestrator.engine.sending.run_brakes import RunBrakes
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls


class RunAtEndpoint(NamedTuple):
    """The part of a run at one of its endpoints."""

    endpoint: Endpoint
    dispatcher: Dispatcher
    sending: RunSender


class Standstill(Struct, frozen=True, kw_only=True):
    """For how long a run has stood as it does. Times are microseconds UTC."""

    stands: tuple[int, ...]
    since: int
    due_at: int = 0
    """When it is next found out why."""

    sentence: str | None = None
    """Why, where something holds it up."""

    is_expected: bool = False
    """Whether that is as it is to be expected, and nobody need hear of it."""


class Reporter(Protocol):
    """What a process says of itself."""

    def __call__(self, *, only: int | None = None) -> ProcessReport:
        """All of it; where a run is named, of the runs that one alone: each of thousands asks for its own."""
        ...


class RunSession(ServedRun):
    """One run, from its taking on to its end. Nothing of it is sent before `send`, or after `release`.

    It has a part at its own endpoint, and one at each other to which jobs of it were sent again.
    """

    def __init__(
        self,
        *,
        run: Run,
        part: RunAtEndpoint,
        ledger: Ledger,
        progress: Progress,
        control: RunController,
        taking: TaskGroup,
        said: Reporter,
        brakes: RunBrakes,
    ) -> None:
        super().__init__(run, progress)
        self.brakes = brakes
        self.control = control
        self._ledger = ledger
        self._taking = taking
        self._said = said
        self._is_sending = False
        self._is_released = False
        self._parts = [part]
        self.standstill: Standstill | None = None
        """Since when nothing of it has moved, and why, as far as somebody has found out."""

        self.ended_at: int | None = None
        """Since when it has nothing more to do, as far as somebody has looked."""

        self.saving: anyio.CancelScope | None = None
        """In which files are made of its results, as long as they are, before it is sent."""

        part.endpoint.changes.add(progress.nudge)

    def reports(self, *, only: int | None = None) -> ProcessReport:
        """What this process says of itself; where a run is named, of the runs that one alone."""
        return self._said(only=only)

    @property
    def controls(self) -> RunControls:
        """What people ask of it."""
        return self.control.controls(self.run.id)

    @property
    def why_stopped(self) -> str | None:
        """Why nothing more of it can be submitted, if so: not while another endpoint has jobs of it to send."""
        if (why := self.brakes.why_stopped) is not None:
            return why
        if len(self._parts) == 1:
            return self.own.endpoint.why_stopped(self.run.id)
        at_stake = [
            part.endpoint for part in self._parts if part.endpoint.health.uncollectable or not part.sending.is_empty
        ]
        reasons = [endpoint.why_stopped(self.run.id) for endpoint in at_stake]
        return reasons[0] if reasons and None not in reasons else None

    def why_stalled(self, since: int) -> str | None:
        """Why nothing of it has moved since then, where something holds it up and nobody asked for that."""
        stands = self.standstill
        if stands is None or stands.stands != self.progress.stands or stands.since > since or self.controls.pause:
            return None
        unreachable_since = self.of_run.unreachable_since
        if stands.sentence is None and unreachable_since is not None and unreachable_since <= since:
            return UNREACHABLE
        return None if stands.is_expected else stands.sentence

    @property
    def why_blocked(self) -> str | None:
        """Which brake holds it, or what else has stopped it for good once nothing of it is outstanding, in a sentence;
        None where all goes as it should, or people asked for it.
        """
        if self.progress.unfinished == 0 or self.is_released or self.controls.pause or self.controls.cancel:
            return None
        if (hold := self.own.sending.hold) is not None:
            return hold.why
        return self.why_stopped if self.is_over else None

    @property
    def is_uncollectable(self) -> bool:
        """Whether even `/status` is refused, wherever anything is to be collected."""
        shut = [part.endpoint.health.uncollectable is not None for part in self._parts]
        return any(shut) and all(
            is_shut or part.endpoint.is_idle for is_shut, part in zip(shut, self._parts, strict=True)
        )

    @property
    def is_adoptable(self) -> bool:
        """Whether webhooks may tell of its uncertain submissions."""
        return any(part.endpoint.webhooks and part.sending.builder.via.has_queue for part in self._parts)

    @property
    def is_released(self) -> bool:
        """Whether somebody asked that no more of it is sent, without pausing it."""
        return self._is_released

    @property
    def is_saving(self) -> bool:
        """Whether files are made of its results before it is sent."""
        return self.saving is not None

    @property
    def retention_us(self) -> int:
        """For how long its results may be counted on."""
        return min(part.endpoint.estimates.retention_us(self.run.id) for part in self._parts)

    @property
    def parts(self) -> Sequence[RunAtEndpoint]:
        """All of its parts, that at its own endpoint first."""
        return tuple(self._parts)

    @property
    def own(self) -> RunAtEndpoint:
        """Its part at its own endpoint."""
        return self._parts[0]

    def part(self, endpoint: int) -> RunAtEndpoint | None:
        """Its part at the endpoint of that number, where it has one."""
        return next((part for part in self._parts if part.endpoint.id == endpoint), None)

    async def recount(self) -> None:
        """Jobs may have come that no step tells of."""
        await self._ledger.runs.recount(self.run.id, self.progress.recount)
        await self.jobs_came()

    async def jobs_came(self) -> None:
        """There are jobs that no step has told of: of the first ones those are chosen that go ahead of the others."""
        if self._is_sending:
            await self.brakes.choose()
        self.wake()

    def wake(self) -> None:
        """There may be jobs to send that no step has told of."""
        for part in self._parts:
            part.dispatcher.wake()
        self.progress.nudge()

    async def send(self) -> None:
        """Begins to send its jobs, also where they were released before."""
        if self._is_released or self.run.is_released:
            await self._ledger.runs.releases.set(self.run.id, is_released=False)
            self.run = replace(self.run, is_released=False)
        self._is_sending, self._is_released = True, False
        await self.brakes.choose()
        await self.go_on()

    async def release(self) -> None:
        """Sends no more of its jobs, and makes no more files first; what is at the service is collected."""
        self._is_sending, self._is_released = False, True
        if self.saving is not None:
            self.saving.cancel()
            self.saving = None
        await self.hold_back()
        self.progress.nudge()

    async def hold_back(self) -> None:
        """Sends none of its jobs until `go_on`."""
        for part in self._parts:
            await part.dispatcher.remove(self.run.id)

    async def go_on(self) -> None:
        """Sends its jobs again, if they were sent before."""
        for part in self._parts if self._is_sending else ():
            part.dispatcher.add(part.sending)
            await part.dispatcher.begin(self._taking)

    @property
    def sends(self) -> bool:
        """Whether nothing holds its jobs up, at one of its endpoints at least."""
        asked = self.controls
        if not self._is_sending or asked.pause or asked.cancel:
            return False
        return any(part.sending.blocked_by is None for part in self._parts)

    @property
    def is_in_flight(self) -> bool:
        """Whether it has requests under way."""
        return self.progress.count(State.SUBMITTING.value) > 0

    async def move(self, run: Run, part: RunAtEndpoint) -> None:
        """It is at another endpoint from now on, as `run` says; nothing of it was under way."""
        self.run = self.brakes.run = run
        self._parts.clear()
        await self.add(part)

    async def add(self, part: RunAtEndpoint) -> None:
        """It has jobs at another endpoint, too, from now on."""
        self._parts.append(part)
        part.endpoint.changes.add(self.progress.nudge)
        await self.go_on()
        self.progress.nudge()
