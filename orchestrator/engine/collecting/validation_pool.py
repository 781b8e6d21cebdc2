"""Judges outputs before they count as results, away from the event loop, and in bounded time; makes files of them.

A result is in memory by then, and at the service for half an hour more: it is not lost while it is judged. Whatever
cannot be judged (a check that hangs or dies, one that is not there, too many outputs that wait) counts as a result all
the same, and the run is held: an output that was paid for is never thrown away for want of a judge. They can be
judged later (`engine.commands.revalidate`).
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Final, NamedTuple

import anyio

from orchestrator.core.jobs.job import Job
from orchestrator.core.service.job_record import Record
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.collecting.output_saver import OutputSaver, Saved
from orchestrator.engine.collecting.output_validator import CheckDiedError, Validator, named_validator, validator_of
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.user_code.functions import PerformsTasks
from orchestrator.engine.user_code.process import user_code
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import Pinned
from orchestrator.units import MIB, SECOND_US

CHECK_S_MAX: Final = 10.0
"""How long one output may be looked at."""

WAITING_MAX: Final = 1_000
WAITING_BYTES_MAX: Final = 64 * MIB
"""So many outputs, and so much of them, may wait for their judge."""

NULLS_MIN: Final = 20
"""After so many results without anything in them the user hears of it."""


class Validation(NamedTuple):
    """What was found of an output."""

    invalid: str | None = None
    """What is wrong with it."""

    unjudged: str | None = None
    """Why nobody could say."""

    saved: Saved | None = None
    """What is kept of it, where members of it were to become files."""

    @property
    def disk_fault(self) -> str | None:
        """Why no files can be made of it."""
        return None if self.saved is None else self.saved.disk_fault


GOOD: Final = Validation()


class OneThread(Executor):
    """Runs one call after the other, in a thread that keeps no process alive: a call that hangs is left behind."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="checks of outputs", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As of every executor."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002  nobody waits
        """Ends the thread after what it was given."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, work = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001  whoever waits gets it
                    future.set_exception(error)
            del call, future, work  # an output is not kept until the next one comes


_Key = tuple[Pinned | None, Pinned | None]


class ValidationPool:
    """Those of all runs of one process. `warn` tells the user something; `most_s`: see `CHECK_S_MAX`; `make_code` makes
    what calls people's functions. `saver` makes files of what was found good; without it nobody does.
    """

    def __init__(
        self,
        settings_of: Mapping[int, RunSettings],
        warn: Callable[[str], None],
        *,
        most_s: float = CHECK_S_MAX,
        make_code: Callable[[], PerformsTasks] = user_code,
        saver: OutputSaver | None = None,
    ) -> None:
        self.saver = saver
        self._settings_of = settings_of
        self._warn = warn
        self._most_s = most_s
        self._make_code = make_code
        self._loaded: dict[_Key, Validator | None] = {}
        self._broken: dict[_Key, str] = {}
        """Those that cannot be had, or did not come to an end, and why."""

        self._thread: OneThread | None = None
        self._turn = anyio.Lock()
        self._waiting = self._waiting_bytes = 0
        self._nulls: dict[int, int] = {}

    def load(self, settings: RunSettings) -> None:
        """Makes the validator of a run ready. Raises `UsageError` where it cannot be had as it was named."""
        key = _key(settings)
        self._broken.pop(key, None)
        self._loaded[key] = validator_of(settings, self._make_code)

    def leave(self) -> None:
        """Nobody is asked any more: lets go of the functions, and of the thread, which ends with what it does."""
        for validator in self._loaded.values():
            if validator is not None:
                validator.leave()
        self._leave_thread()

    def is_needed(self, run: int) -> bool:
        """Whether anybody has to look at the outputs of `run`."""
        return _key(self._settings_of[run]) != (None, None) or (self.saver is not None and self.saver.is_needed(run))

    async def room(self) -> None:
        """Returns once so little waits to be saved that more may come."""
        if self.saver is not None:
            await self.saver.room()

    async def save_all(self, run: int) -> str | None:
        """Saves what is not yet of the results of `run`; returns why the disk does not take it, if so."""
        return None if self.saver is None else (await self.saver.save_all(run)).disk_fault

    async def received(self, job: Job, record: Record, *, is_patient: bool = True) -> Validation:
        """What the validator of its run says of the output of `record`, which is COMPLETED; of one that is a result the
        files are in their places by then. Unless it `is_patient`, servers are not waited for: see `OutputSaver.saved`.
        """
        found, saver = await self.judged(job.run, record), self.saver
        if found.invalid is not None or record.output is None or saver is None or not saver.is_needed(job.run):
            return found
        saved = await saver.saved(job, record.output, is_patient=is_patient)
        return found._replace(saved=saved) if saved.is_result else found._replace(invalid=saved.why_not)

    async def judged(self, run: int, record: Record) -> Validation:
        """What the validator of `run` says of the output of `record`, which is COMPLETED."""
        settings = self._settings_of[run]
        if record.output in (None, b"null"):
            if settings.output_required:
                return GOOD  # it is none: that says nothing else of it
            self._count_null(run)
        key = _key(settings)
        if key == (None, None):
            return GOOD
        size = len(record.output or b"")
        if self._waiting and (self._waiting >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX):
            return Validation(unjudged=f"{self._waiting:,} outputs wait for it already: it is slower than they come")
        self._waiting, self._waiting_bytes = self._waiting + 1, self._waiting_bytes + size
        try:
            async with self._turn:
                return await self._judged(key, settings, record)
        finally:
            self._waiting, self._waiting_bytes = self._waiting - 1, self._waiting_bytes - size

    async def _judged(self, key: _Key, settings: RunSettings, record: Record) -> Validation:
        if (why := self._broken.get(key)) is not None:
            return Validation(unjudged=why)
        if key not in self._loaded:
            try:
                self.load(settings)
            except UsageError as error:
                return self._gave_out(key, error.message)
        validator = self._loaded[key]
        assert validator is not None
        self._thread = self._thread or OneThread()
        try:
            with anyio.fail_after(self._most_s):
                loop = asyncio.get_running_loop()
                return Validation(await loop.run_in_executor(self._thread, validator.why_invalid, record.output))
        except TimeoutError:
            self._leave_thread()
            validator.leave()
            limit = format_duration(round(self._most_s * SECOND_US))
            return self._gave_out(key, f"{named_validator(*key)} has looked at one output for {limit}")
        except CheckDiedError as error:
            return self._gave_out(key, f"{named_validator(*key)} has died: {error}")

    def _leave_thread(self) -> None:
        """It is left behind with what it does."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _gave_out(self, key: _Key, why: str) -> Validation:
        self._broken[key] = why
        self._warn(f"{why}: outputs are kept without being judged, and nothing more is sent of the run")
        return Validation(unjudged=why)

    def _count_null(self, run: int) -> None:
        seen = self._nulls[run] = self._nulls.get(run, 0) + 1
        if seen == NULLS_MIN:
            self._warn(
                f"{seen} results have no output, or null: they count as results; with <setting require-output> such"
                " jobs have failed, and are tried again"
            )


def _key(settings: RunSettings) -> _Key:
    return settings.schema, settings.check


def validation_pool(
    ledger: Ledger, settings_of: Mapping[int, RunSettings], warn: Callable[[str], None], dependencies: Dependencies
) -> ValidationPool:
    """Those of a process that works on `ledger`: what they find good becomes files, where its run wants that."""
    saver = OutputSaver(ledger, settings_of, warn, dependencies.fetch_link)
    return ValidationPool(settings_of, warn, make_code=dependencies.user_code, saver=saver)
