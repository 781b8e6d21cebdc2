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
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.engine.runtime.at_once import all_of
from orchestrator.errors import DamagedError, Unanswered, UsageError
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

CUT: Final = "it was not saved before the run was stopped"

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
    """Whether some were left for later, as we are to end."""

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


class _Put(NamedTuple):
    """What stands in the place of a member."""

    text: bytes
    error: _Unsaved | None = None
    """Why it is no file."""


class _Terms(NamedTuple):
    """By what the members of an output become files."""

    settings: RunSettings
    custom_id: str
    is_patient: bool = True
    """Whether there is time for servers: for what links lead to, and for stores."""

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

    async def saved(self, job: Job, output: bytes, *, is_patient: bool = True) -> Saved:
        """What is kept of `output`, a result of `job`: with what tells of the files that its members became. Unless it
        `is_patient`, nothing is fetched now, nor put into a store, but as the run is gone on with.
        """
        [custom_id] = await self._ledger.jobs.custom_ids([job.id])
        settings = self._settings_of[job.run]
        found = await self._kept(output, _Terms(settings, custom_id, is_patient=is_patient))
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
        found = await all_of([partial(self._saved_again, run, job) for job in page], most=LINKS_AT_ONCE)
        return [each for each in found if each is not None]

    async def _saved_again(self, run: int, job: FinishedJob) -> SavedAgain | None:
        try:
            output = job.output
        except DamagedError:  # whoever verifies is told
            return None
        if output is None:
            return None
        ours = frozenset(made_files(output, job.saved))
        kept = await self._kept(output, _Terms(self._settings_of[run], job.custom_id, ours=ours), job.saved)
        if kept.disk_fault is not None:
            return SavedAgain(0, 0, kept.disk_fault)
        is_new = kept.output != output and await self._ledger.jobs.outputs.replace(job, kept.output, saved=kept.members)
        return SavedAgain(is_new and kept.why_not is None, kept.why_not is not None)

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
        members = members_at(before.output, rule.path)
        put = await all_of([partial(self._put, rule, terms, n, found) for n, found in members], most=LINKS_AT_ONCE)
        after = before
        for error in filter(None, (each.error for each in put)):
            after = after._replace(
                why_not=after.why_not or f"{rule.member} could not be saved: {error}",
                disk_fault=after.disk_fault or (f"{rule.folder}: {error}" if error.is_disk else None),
                is_cut=after.is_cut or error.is_cut,
            )
        output = with_replaced(before.output, rule.path, [each.text for each in put]) if put else before.output
        if output == before.output:
            return after
        return after._replace(output=output, members=tuple(dict.fromkeys((*before.members, rule.member))))

    async def _put(self, rule: SaveRule, terms: _Terms, n: int, found: bytes) -> _Put:
        """What stands in the place of the `n`th member of `rule`, in which this was found."""
        if terms.is_ours(found):
            return _Put(found)
        earlier = unsaved_member(found) if terms.is_again else None
        member = found if earlier is None else bytes(earlier.value)
        try:
            return _Put(saved_text(await self._saved(rule.folder, file_parts(rule, terms.custom_id, n), member, terms)))
        except _Unsaved as error:
            is_left = error.is_unusable and terms.is_again and earlier is None and saved_file(found) is None
            return _Put(found if is_left else unsaved_text(member, str(error)), error)

    async def _saved(self, folder: str, parts: Sequence[str], member: bytes, terms: _Terms) -> SavedFile:
        """The file that `member` became. Raises `_Unsaved`."""
        is_object = is_object_url(folder)
        if is_object and not terms.is_patient:
            raise _Unsaved(CUT, is_cut=True)
        try:
            made = await self._in_thread(partial(_made, folder, parts, member), is_left=is_object)
            if isinstance(made, SavedFile):
                return made
            if isinstance(made, Unusable):
                raise _Unsaved(made.why, is_unusable=True)
            if not terms.is_patient:
                raise _Unsaved(CUT, is_cut=True)
            async with self._links:
                return await self._fetched(folder, parts, made.url, terms.settings)
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
            return await self._in_thread(file.commit, is_left=is_object_url(folder))
        finally:
            with anyio.CancelScope(shield=True):
                await self._in_thread(partial(file.__exit__, None, None, None))

    async def _in_thread(self, work: Callable[[], T], *, is_left: bool = False) -> T:
        """What `work` returns; `is_left`: who is cancelled leaves it to itself, as a store may say nothing."""
        return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=is_left)


def _made(folder: str, parts: Sequence[str], member: bytes) -> SavedFile | Link | Unusable:
    """The file that `member` became, unless it is none, or is to be fetched first."""
    content = content_of(member)
    if not isinstance(content, bytes):
        return content
    with file_to_save(folder, parts) as file:
        file.write(content)
        return file.commit()
