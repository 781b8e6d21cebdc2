"""Makes files of members of outputs, away from the event loop, before the outputs count as results.

A file is in its place, durably, before the step is written that tells of it: what ends in between leaves a file that
is found again, with the same in it, once the result is collected again. What cannot be saved stays in the output as it
came, and says why; where it is the disk that cannot take it, nothing more is sent of the run until somebody mends that.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from orchestrator.core.jobs.job import Job, Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.outputs.save_rules import SaveRule, file_parts
from orchestrator.core.outputs.saved_members import (
    Link,
    SavedFile,
    Unusable,
    content_of,
    members_at,
    saved_file,
    saved_text,
    unsaved_member,
    unsaved_text,
    with_replaced,
)
from orchestrator.errors import Unanswered, UsageError
from orchestrator.formats.output.saved_objects import file_to_save
from orchestrator.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUnsaved
from orchestrator.units import MIB

if TYPE_CHECKING:
    from orchestrator.client.http.link_fetcher import FetchLink

T = TypeVar("T")

FILES_AT_ONCE: Final = 4
"""So many files are written at once: a disk is no faster for more."""

LINKS_AT_ONCE: Final = 16

WAITING_BYTES_MAX: Final = 32 * MIB
"""Once so much of outputs waits to be saved, no more is collected."""

PAGE_JOBS: Final = 100

LINK_BYTES: Final = MIB
"""So much of what a link leads to is in memory."""


class Saved(NamedTuple):
    """An output whose members were saved as far as they could be."""

    output: bytes
    why_not: str | None = None
    """Of the first member that was not: which, and why."""

    disk_fault: str | None = None
    """Why files cannot be written at all."""

    @property
    def unsaved(self) -> Unsaved | None:
        """Of which kind it is that some were not."""
        if self.why_not is None:
            return None
        return Unsaved.MEMBER if self.disk_fault is None else Unsaved.DISK


class SavedAgain(NamedTuple):
    """What came of outputs that were there already."""

    saved: int
    """Of so many all members are files by now that were none."""

    unsaved: int
    """So many have a member that still is none."""

    disk_fault: str | None = None


class _Unsaved(Exception):
    """Why a member could not be saved."""

    def __init__(self, why: str, *, is_disk: bool = False, is_unusable: bool = False) -> None:
        super().__init__(why)
        self.is_disk = is_disk
        self.is_unusable = is_unusable


class OutputSaver:
    """That of all runs of one process."""

    def __init__(
        self, ledger: Ledger, settings_of: Mapping[int, RunSettings], warn: Callable[[str], None], fetch: "FetchLink"
    ) -> None:
        self._ledger = ledger
        self._settings_of = settings_of
        self._warn = warn
        self._fetch = fetch
        self._threads = anyio.CapacityLimiter(FILES_AT_ONCE)
        self._links = anyio.Semaphore(LINKS_AT_ONCE)
        self._waiting_bytes = 0
        self._has_room = anyio.Event()
        self._warned: set[int] = set()

    def is_needed(self, run: int) -> bool:
        """Whether members of the outputs of `run` become files."""
        return bool(self._settings_of[run].save)

    async def room(self) -> None:
        """Returns once so few bytes of outputs wait to be saved that more may come."""
        while self._waiting_bytes > WAITING_BYTES_MAX:
            await self._has_room.wait()

    async def saved(self, job: Job, output: bytes) -> Saved:
        """What is kept of `output`, a result of `job`: with what tells of the files that its members became."""
        [custom_id] = await self._ledger.jobs.custom_ids([job.id])
        found = await self._kept(job.run, custom_id, output)
        is_kept = self._settings_of[job.run].on_unsaved is OnUnsaved.KEEP or found.disk_fault is not None
        if found.why_not is not None and is_kept and job.run not in self._warned:
            self._warned.add(job.run)
            self._warn(f"{custom_id}: {found.why_not}; it stays in its row, as others will, each with the reason")
        return found

    async def save_again(self, run: int) -> str | None:
        """Saves what the disk did not take of the results of `run`; returns why it still does not, if so.

        What could not be saved for other reasons is tried again with it.
        """
        if not (await self._ledger.runs.counts(run)).get(Unsaved.DISK, 0):
            return None
        return (await self.save_all(run)).disk_fault

    async def save_all(self, run: int) -> SavedAgain:
        """Saves what is not yet of the results of `run` that there are, and keeps what tells of it in their place."""
        counts, saved, unsaved, after = await self._ledger.runs.counts(run), 0, 0, (-1, 0)
        while page := await self._ledger.jobs.results.page(
            run, [State.SUCCEEDED], after=after, most=PAGE_JOBS, bytes_max=WAITING_BYTES_MAX
        ):
            after = (page[-1].line, page[-1].job)
            for job in page:
                found = await self._kept(run, job.custom_id, job.output or b"null", is_again=True)
                if found.disk_fault is not None:
                    return SavedAgain(saved, unsaved, found.disk_fault)
                unsaved += found.why_not is not None
                if found.output not in (job.output, b"null"):
                    saved += await self._ledger.jobs.outputs.replace(job, found.output) and found.why_not is None
        more = {Unsaved.DISK: -counts.get(Unsaved.DISK, 0), Unsaved.MEMBER: unsaved - counts.get(Unsaved.MEMBER, 0)}
        await self._ledger.jobs.outputs.recount(run, more)
        return SavedAgain(saved, unsaved)

    @asynccontextmanager
    async def _counted(self, size: int) -> AsyncIterator[None]:
        self._waiting_bytes += size
        try:
            yield
        finally:
            self._waiting_bytes -= size
            self._has_room.set()
            self._has_room = anyio.Event()

    async def _kept(self, run: int, custom_id: str, output: bytes, *, is_again: bool = False) -> Saved:
        """What is kept of `output`. `is_again`: it tells of files already, and of what became none."""
        settings, found = self._settings_of[run], Saved(output)
        async with self._counted(len(output)):
            for rule in settings.save:
                found = await self._by_rule(rule, settings, custom_id, found, is_again=is_again)
        return found

    async def _by_rule(
        self, rule: SaveRule, settings: RunSettings, custom_id: str, before: Saved, *, is_again: bool
    ) -> Saved:
        put, why_not, disk_fault = list[bytes](), before.why_not, before.disk_fault
        for n, found in members_at(before.output, rule.path):
            if is_again and saved_file(found) is not None:
                put.append(found)
                continue
            before_that = unsaved_member(found) if is_again else None
            member = found if before_that is None else bytes(before_that.value)
            try:
                put.append(saved_text(await self._saved(rule.folder, file_parts(rule, custom_id, n), member, settings)))
            except _Unsaved as error:
                is_as_it_was = is_again and before_that is None and error.is_unusable
                put.append(found if is_as_it_was else unsaved_text(member, str(error)))
                why_not = why_not or f"{rule.member} could not be saved: {error}"
                disk_fault = disk_fault or (f"{rule.folder}: {error}" if error.is_disk else None)
        return Saved(with_replaced(before.output, rule.path, put), why_not, disk_fault) if put else before

    async def _saved(self, folder: str, parts: Sequence[str], member: bytes, settings: RunSettings) -> SavedFile:
        """The file that `member` became. Raises `_Unsaved`."""
        content = await self._in_thread(partial(content_of, member))
        if isinstance(content, Unusable):
            raise _Unsaved(content.why, is_unusable=True)
        try:
            if isinstance(content, Link):
                async with self._links:
                    return await self._fetched(folder, parts, content.url, settings)
            return await self._in_thread(partial(_written, folder, parts, content))
        except OSError as error:
            raise _Unsaved(error.strerror or type(error).__name__, is_disk=True) from None
        except UsageError as error:  # the driver of its store is not installed here
            raise _Unsaved(error.message, is_disk=True) from None
        except Unanswered as error:
            raise _Unsaved(str(error)) from None

    async def _fetched(self, folder: str, parts: Sequence[str], url: str, settings: RunSettings) -> SavedFile:
        file, came = file_to_save(folder, parts), bytearray()
        await self._in_thread(file.__enter__)
        try:
            pieces = self._fetch(url, networks=settings.save_from, bytes_max=settings.save_bytes_max)
            async with aclosing(pieces):
                async for piece in pieces:
                    came += piece
                    if len(came) >= LINK_BYTES:
                        await self._in_thread(partial(file.write, bytes(came)))
                        came.clear()
            await self._in_thread(partial(file.write, bytes(came)))
            return await self._in_thread(file.commit)
        finally:
            with anyio.CancelScope(shield=True):
                await self._in_thread(partial(file.__exit__, None, None, None))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads)


def _written(folder: str, parts: Sequence[str], content: bytes) -> SavedFile:
    with file_to_save(folder, parts) as file:
        file.write(content)
        return file.commit()
