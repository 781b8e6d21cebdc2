"""Makes files of members of outputs, away from the event loop, before the outputs count as results.

A file is in its place, durably, before the step is written that tells of it: what ends in between leaves a file that
is found again, with the same in it, once the result is collected again. What cannot be saved stays in the output as it
came, and says why; where it is the disk that cannot take it, nothing more is sent of the run until somebody mends that.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from orchestrator.core.jobs.job import Job, Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.outputs.linked_pages import is_called_page
from orchestrator.core.outputs.save_rules import SaveRule, file_parts
from orchestrator.core.outputs.saved_members import (
    Link,
    SavedFile,
    Unusable,
    content_of,
    made_files,
    members_at,
    saved_file,
    saved_text,
    unsaved_member,
    unsaved_text,
    with_replaced,
)
from orchestrator.errors import DamagedError, Unanswered, UsageError, leading
from orchestrator.formats.output.saved_objects import file_to_save
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
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

CUT: Final = "it was not fetched before the run was stopped"

LINK_BYTES: Final = MIB
"""So much of what a link leads to is in memory."""


class Saved(NamedTuple):
    """An output whose members were saved as far as they could be."""

    output: bytes
    members: tuple[str, ...] = ()
    """Those in whose places stands what tells of their files."""

    why_not: str | None = None
    """Of the first member that was not: which, and why."""

    disk_fault: str | None = None
    """Why files cannot be written at all."""

    is_cut: bool = False
    """Whether links were not fetched, as we are to end."""

    is_result: bool = True
    """Whether the output is one all the same, as its run wants it."""

    @property
    def unsaved(self) -> Unsaved | None:
        """Of which kind it is that some were not."""
        if self.why_not is None:
            return None
        if self.disk_fault is not None:
            return Unsaved.DISK
        return Unsaved.LATER if self.is_cut else Unsaved.MEMBER


class SavedAgain(NamedTuple):
    """What came of outputs that were there already."""

    saved: int
    """Of so many all members are files by now that were none."""

    unsaved: int
    """So many have a member that still is none."""

    disk_fault: str | None = None


class _Unsaved(Exception):
    """Why a member could not be saved."""

    def __init__(self, why: str, *, is_disk: bool = False, is_cut: bool = False, is_unusable: bool = False) -> None:
        super().__init__(why)
        self.is_disk = is_disk
        self.is_cut = is_cut
        self.is_unusable = is_unusable


class _Terms(NamedTuple):
    """By what the members of an output become files."""

    settings: RunSettings
    custom_id: str
    links: bool = True
    ours: frozenset[SavedFile] | None = None
    """Of one that was kept before: the files of which it tells already, for none else did we make."""

    @property
    def is_again(self) -> bool:
        """Whether it was kept before."""
        return self.ours is not None

    def is_ours(self, member: bytes) -> bool:
        """Whether `member` tells of a file that was made."""
        return self.ours is not None and saved_file(member) in self.ours


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
        self._again = anyio.Semaphore(LINKS_AT_ONCE)
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

    async def saved(self, job: Job, output: bytes, *, links: bool = True) -> Saved:
        """What is kept of `output`, a result of `job`: with what tells of the files that its members became. Without
        `links` nothing is fetched now, but as the run is gone on with.
        """
        [custom_id] = await self._ledger.jobs.custom_ids([job.id])
        settings = self._settings_of[job.run]
        found = await self._kept(output, _Terms(settings, custom_id, links=links))
        if found.unsaved is Unsaved.MEMBER and settings.on_unsaved is OnUnsaved.FAIL:
            return found._replace(is_result=False)
        if found.why_not is not None and job.run not in self._warned:
            self._warned.add(job.run)
            until = "" if found.unsaved is Unsaved.MEMBER else " until the run is gone on with"
            self._warn(
                f"{custom_id}: {found.why_not}; it stays in its row{until}, as others will, each with the reason"
            )
        return found

    async def save_all(self, run: int) -> SavedAgain:
        """Saves what is not yet of the results of `run` that there are, and keeps what tells of it in their place."""
        counts, done, after = await self._ledger.runs.counts(run), SavedAgain(0, 0), (-1, 0)
        while page := await self._ledger.jobs.results.page(
            run, [State.SUCCEEDED], after=after, most=PAGE_JOBS, bytes_max=WAITING_BYTES_MAX
        ):
            after = (page[-1].line, page[-1].job)
            found = await self._saved_page(run, page)
            done = SavedAgain(
                done.saved + sum(each.saved for each in found),
                done.unsaved + sum(each.unsaved for each in found),
                next((each.disk_fault for each in found if each.disk_fault is not None), None),
            )
            if done.disk_fault is not None:
                return done
        now = Counter({Unsaved.MEMBER: done.unsaved})
        await self._ledger.jobs.outputs.recount(run, {why: now[why] - counts.get(why.value, 0) for why in Unsaved})
        return done

    async def _saved_page(self, run: int, page: Iterable[FinishedJob]) -> list[SavedAgain]:
        found = list[SavedAgain]()
        try:
            async with anyio.create_task_group() as group:
                for job in page:
                    group.start_soon(self._save_again, run, job, found)
        except BaseExceptionGroup as errors:
            raise leading(errors) from errors
        return found

    async def _save_again(self, run: int, job: FinishedJob, found: list[SavedAgain]) -> None:
        async with self._again:
            try:
                output = job.output
            except DamagedError:  # whoever verifies is told
                return
            if output is None:
                return
            ours = frozenset(made_files(output, job.saved))
            kept = await self._kept(output, _Terms(self._settings_of[run], job.custom_id, ours=ours), job.saved)
            if kept.disk_fault is not None:
                found.append(SavedAgain(0, 0, kept.disk_fault))
                return
            is_new = kept.output != output and await self._ledger.jobs.outputs.replace(
                job, kept.output, saved=kept.members
            )
            found.append(SavedAgain(is_new and kept.why_not is None, kept.why_not is not None))

    @asynccontextmanager
    async def _counted(self, size: int) -> AsyncIterator[None]:
        self._waiting_bytes += size
        try:
            yield
        finally:
            self._waiting_bytes -= size
            self._has_room.set()
            self._has_room = anyio.Event()

    async def _kept(self, output: bytes, terms: _Terms, members: tuple[str, ...] = ()) -> Saved:
        """What is kept of `output`, of which `members` are files already."""
        found = Saved(output, members)
        async with self._counted(len(output)):
            for rule in terms.settings.save:
                found = await self._by_rule(rule, terms, found)
        return found

    async def _by_rule(self, rule: SaveRule, terms: _Terms, before: Saved) -> Saved:
        put, after = list[bytes](), before
        for n, found in members_at(before.output, rule.path):
            if terms.is_ours(found):
                put.append(found)
                continue
            earlier = unsaved_member(found) if terms.is_again else None
            member = found if earlier is None else bytes(earlier.value)
            try:
                saved = await self._saved(rule.folder, file_parts(rule, terms.custom_id, n), member, terms)
                put.append(saved_text(saved))
            except _Unsaved as error:
                is_left = error.is_unusable and terms.is_again and earlier is None and saved_file(found) is None
                put.append(found if is_left else unsaved_text(member, str(error)))
                after = after._replace(
                    why_not=after.why_not or f"{rule.member} could not be saved: {error}",
                    disk_fault=after.disk_fault or (f"{rule.folder}: {error}" if error.is_disk else None),
                    is_cut=after.is_cut or error.is_cut,
                )
        output = with_replaced(before.output, rule.path, put) if put else before.output
        if output == before.output:
            return after
        return after._replace(output=output, members=tuple(dict.fromkeys((*before.members, rule.member))))

    async def _saved(self, folder: str, parts: Sequence[str], member: bytes, terms: _Terms) -> SavedFile:
        """The file that `member` became. Raises `_Unsaved`."""
        content = await self._in_thread(partial(content_of, member))
        if isinstance(content, Unusable):
            raise _Unsaved(content.why, is_unusable=True)
        try:
            if isinstance(content, Link):
                if not terms.links:
                    raise _Unsaved(CUT, is_cut=True)
                async with self._links:
                    return await self._fetched(folder, parts, content.url, terms.settings)
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
            pieces = self._fetch(
                url,
                networks=settings.save_from,
                bytes_max=settings.save_bytes_max,
                pages=is_called_page(parts[-1]),
            )
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
