"""How a command comes to its run: looked up or made, given its settings, and its input taken in."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import msgspec

from orchestrator.api.foreground.pod_check import check_pods
from orchestrator.api.outcomes.row_input import drops, input_reading, row_batches
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.next_command import continue_command
from orchestrator.api.runs.run_identity import check_not_local, find_run, settings_of
from orchestrator.api.runs.settings_check import check_reach
from orchestrator.engine.intake.intake import Intake, turn_to_take_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import UsageError
from orchestrator.formats.input.sources import InputPositions, shown_sources
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings


class RunIntake:
    """What one command takes into its run, once, whichever process serves it by then."""

    def __init__(self, console: Console, dependencies: Dependencies, stop: anyio.Event) -> None:
        self._console = console
        self._dependencies = dependencies
        self._stop = stop
        self._turn = AsyncExitStack()
        """The turn to take in, from before the run is looked up to the end of its intake."""

        self._intake: Intake | None = None
        self._retry: int | None = None
        """The number of the command to queue failed jobs again, where that was asked for."""

        self.is_begun = False
        self.done = anyio.Event()

    @property
    def is_reading(self) -> bool:
        """Whether the input is being read."""
        return self._intake is not None

    @property
    def rows_read(self) -> int | None:
        """How many rows of the input have been read; None unless it is being read."""
        return None if self._intake is None else self._intake.rows_read

    @asynccontextmanager
    async def turn(self, ledger: Ledger, request: RunRequest) -> AsyncIterator[IntakeRight]:
        """Inside of the block nobody else takes in for the run until its input is taken in, where it has any.

        Raises `IntakeBusyError` where somebody wants this process to stop before.
        """
        if request.source is None or self.is_begun:
            yield IntakeRight()
            return
        hold = self._dependencies.holding_intakes(ledger.address)
        async with AsyncExitStack() as self._turn:
            right = await self._turn.enter_async_context(
                turn_to_take_in(ledger, request.name, hold=hold, say=self._console.info, stop=self._stop)
            )
            yield right

    async def found(self, ledger: Ledger, request: RunRequest, *, alone: bool) -> tuple[Run, RunSettings]:
        """The run, made if it is new, and its settings from now on. `alone`: this process works on the ledger.

        Raises `UsageError` where the request cannot be meant for it.
        """
        await check_pods(ledger, request, self._dependencies)
        run = await find_run(ledger, request, self._console, alone=alone)
        if not alone:
            await check_not_local(run, ledger)
        request = msgspec.structs.replace(request, name=run.name)  # the beginning of it may be given
        check_reach(run, request)
        if request.retry_failed and (await ledger.runs.controls(run.id)).cancel:
            raise UsageError(
                f"{run.name} was cancelled, and <setting retry-failed> reopens nothing of a cancelled run; lift that"
                f" with: {continue_command(request)}\nthen give this command again; it reopens what was cancelled, too"
            )
        is_stage = await ledger.flows.part(run.id) is not None
        machine = self._dependencies.machine()
        return run, settings_of(run, request, is_stage=is_stage, now=ledger.now(), machine=machine)

    async def take_in(
        self,
        ledger: Ledger,
        request: RunRequest,
        run: Run,
        settings: RunSettings,
        *,
        webhook_bytes: int,
        refusal_advice: Callable[[], str],
    ) -> None:
        """Reads the input, if there is one, makes `settings` those of the run, but for what others have changed since
        they were made, and asks for failed jobs to be queued again where the request says so.
        """
        self.is_begun = True
        if request.source is not None:
            places = InputPositions()
            environ = self._dependencies.environ
            reading = await input_reading(request, ledger, settings, environ, webhook_bytes=webhook_bytes)
            batches = row_batches(request.source, reading, places, only=request.only_rows)
            self._intake = Intake(ledger, run, source=shown_sources(request.source.splitlines()), place_of=places.of)
            taken = await self._intake.take(
                batches, advice=refusal_advice, drops=partial(drops, request, run, self._console)
            )
            self._intake = None
            start_and_stop_texts.say_taken(self._console, run.name, taken)
            await self._turn.aclose()
        await ledger.runs.configure(run.id, settings, before=run.settings)
        if request.retry_failed:
            asked = self._dependencies.asked
            self._retry = await ledger.commands.ask(Action.RETRY, run=run.id, argument=RetryChoice(), asked=asked)
        self.done.set()

    async def say_reopened(self, ledger: Ledger, request: RunRequest) -> None:
        """What came of queueing the failed jobs again, which whoever works has done by now."""
        number, self._retry = self._retry, None
        if number is not None:
            command, name = await ledger.commands.answer(number), request.name
            if command.is_refused:
                self._console.warn(f"{name}: {command.outcome}: {continue_command(request)}")
            else:
                self._console.info(f"{name}: {command.outcome or 'what failed is queued again soon'}")
