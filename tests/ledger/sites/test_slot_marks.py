"""Which submissions may have left, where several processes work on a ledger: each by the marks of its own slot."""

import secrets
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.jobs.job import Job
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import SLOTS
from orchestrator.ledger.opening import open_ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.postgres.identity.ledger_identity import LedgerIdentity
from orchestrator.ledger.processes.shard_owner import shard_owner_of
from orchestrator.ledger.sites.sent_marks import BYTES, KEPT, Marks, Seal
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.ledger.sites.slot_marks import SlotFiles, SlotMarks
from orchestrator.settings.addresses.companions import companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from tests.factories import TTL_US
from tests.ledger.ledgers import a_run
from tests.postgres.databases import Databases, of_role
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BOOT = "2c5ad34e-1be3-4212-9074-f44fc7dae6ee"
OTHER_BOOT = BOOT[::-1]
LATEST = 1_000_000
"""The latest submission of the ledger, when somebody asks what never left."""


@pytest.fixture
def url(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a database with an empty ledger, on a machine that keeps its state in the folder of the test."""
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with databases.one() as url:
        yield url


@pytest.fixture
async def home(url: str) -> AsyncIterator[LedgerIdentity]:
    """What the ledger knows of itself."""
    site = ServerSite(parse_ledger_url(url), connect=waited_for(url))
    yield LedgerIdentity(site.database)
    await site.aclose()


def file_of(url: str, slot: int) -> Path:
    return companion_of(parse_ledger_url(url), f".sent-{slot}")


def number(at: int, slot: int) -> int:
    """A submission of the process in `slot`."""
    return at * SLOTS + slot


async def process(
    url: str, home: LedgerIdentity, slot: int, *, boot: str | None = BOOT, latest: int = 0, later: int = LATEST
) -> SlotMarks:
    """One that begins to work in `slot` when the ledger has its submissions up to `latest`; `later` it has more."""
    now = latest

    async def asked() -> int:
        return now

    files = SlotFiles(parse_ledger_url(url), home, boot, asked)
    own, unkept = await files.own_of(slot)
    now = later
    return SlotMarks(own, unkept, slot=slot, files=files)


async def test_of_each_submission_the_marks_of_its_slot_decide(url: str, home: LedgerIdentity) -> None:
    first, second = await process(url, home, 0), await process(url, home, 1)
    first.own.mark(number(1, 0))
    second.own.mark(number(2, 1))

    asked = [number(at, slot) for at in (1, 2) for slot in (0, 1)]

    for each in (first, second):
        assert await each.never_left(asked) == {number(2, 0), number(1, 1)}
    assert (first.unkept, second.unkept) == (None, None)


async def test_what_another_one_has_marked_since_it_was_asked_last_counts(url: str, home: LedgerIdentity) -> None:
    first, second = await process(url, home, 0), await process(url, home, 1)
    assert await second.never_left([number(1, 0)]) == {number(1, 0)}
    first.own.mark(number(1, 0))
    assert await second.never_left([number(1, 0)]) == set()


async def test_nothing_is_known_of_a_slot_that_has_no_file_here(url: str, home: LedgerIdentity) -> None:
    only = await process(url, home, 1)
    assert await only.never_left([number(1, 0), number(1, 1), number(1, 2)]) == {number(1, 1)}


async def test_a_file_of_another_machine_is_not_read_and_an_older_one_not_believed(
    url: str, home: LedgerIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    monkeypatch.setenv("XDG_STATE_HOME", str(here))
    asks = await process(url, home, 1)
    (await process(url, home, 0)).own.mark(number(1, 0))
    assert await asks.never_left([number(2, 0)]) == {number(2, 0)}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
    (await process(url, home, 0, latest=number(1, 0))).own.mark(number(2, 0))
    monkeypatch.setenv("XDG_STATE_HOME", str(here))
    assert file_of(url, 0).exists()
    assert await asks.never_left([number(2, 0)]) == set()


async def test_an_older_file_is_not_believed_by_who_has_that_slot_again(
    url: str, home: LedgerIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, never_left in (("here", {128}), ("here", {128}), ("there", set()), ("here", set())):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        found = await process(url, home, 0, latest=64 if never_left else 128)
        assert await found.never_left([128]) == never_left


@pytest.mark.parametrize("boot", [OTHER_BOOT, None])
async def test_after_a_crash_of_the_machine_nothing_is_known_of_what_any_process_claimed(
    url: str, home: LedgerIdentity, boot: str | None
) -> None:
    (await process(url, home, 0)).own.mark(number(1, 0))
    await process(url, home, 1)
    later = await process(url, home, 1, boot=boot, latest=number(2, 1))
    assert await later.never_left([number(2, 0), number(2, 1), number(3, 1)]) == {number(3, 1)}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: BYTES // 2])


def _zeroed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:256] + bytes(len(content) - 256))


@pytest.mark.parametrize("spoil", [Path.unlink, _cut, _zeroed], ids=lambda f: f.__name__)
async def test_of_another_one_whose_file_is_not_whole_nothing_is_known(
    url: str, home: LedgerIdentity, spoil: Any
) -> None:
    (await process(url, home, 0)).own.mark(number(1, 0))
    spoil(file_of(url, 0))
    assert await (await process(url, home, 1)).never_left([number(2, 0)]) == set()


async def test_marks_of_what_the_ledger_does_not_have_are_not_believed(url: str, home: LedgerIdentity) -> None:
    (await process(url, home, 0)).own.mark(number(2, 0))
    for later, never_left in ((number(2, 0), {number(1, 0)}), (number(1, 0), set())):
        found = await process(url, home, 1, later=later)
        assert await found.never_left([number(1, 0)]) == never_left


async def test_up_to_the_floor_of_its_slot_nothing_is_known(url: str, home: LedgerIdentity) -> None:
    await process(url, home, 0, latest=number(3, 5))
    asks = await process(url, home, 1)
    assert await asks.never_left([number(3, 0), number(4, 0)]) == {number(4, 0)}


async def test_who_has_the_slot_next_goes_on_from_what_was_marked_in_a_file_of_its_own(
    url: str, home: LedgerIdentity
) -> None:
    before = await process(url, home, 0)
    before.own.mark(number(1, 0))
    then = await process(url, home, 0, latest=number(3, 0))
    before.own.mark(number(2, 0))  # it was frozen, and goes on; it cannot send
    then.own.mark(number(4, 0))
    asked = [number(at, 0) for at in range(1, 6)]
    for each in (then, await process(url, home, 1)):
        assert await each.never_left(asked) == {number(2, 0), number(3, 0), number(5, 0)}


async def test_a_file_that_is_marked_while_it_is_read_is_whole(tmp_path: Path) -> None:
    seal = Seal(BOOT, 1, 2, 3)
    Marks.made(tmp_path / "sent", seal, floor=0)
    head = array("Q", (tmp_path / "sent").read_bytes()[: BYTES - 8 * KEPT])
    words = array("Q", [*head, *range(1, 4), *[0] * (KEPT - 3)])
    words[16] = 5  # two more were made since the others were read
    for counted, is_believed in ((2, True), (3, True), (4, False)):
        assert Marks(memoryview(words), counted=counted).is_believed(seal, latest=LATEST) == is_believed


async def test_its_folder_is_for_this_user_alone(url: str, home: LedgerIdentity, tmp_path: Path) -> None:
    await process(url, home, 0)
    assert file_of(url, 0).parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file_of(url, 0).parent.iterdir()] == [file_of(url, 0).name]


async def test_where_no_file_can_be_made_no_older_one_is_believed_afterwards(url: str, home: LedgerIdentity) -> None:
    await process(url, home, 0)
    content = file_of(url, 0).read_bytes()
    file_of(url, 0).unlink()
    file_of(url, 0).mkdir()
    found = await process(url, home, 0)
    assert found.unkept is not None
    assert found.unkept.startswith(f"{file_of(url, 0)} cannot be kept")
    file_of(url, 0).rmdir()
    file_of(url, 0).write_bytes(content)
    assert await (await process(url, home, 1)).never_left([number(2, 0)]) == set()


async def test_where_the_server_does_not_say_which_one_it_is_nothing_is_marked_and_that_is_told(url: str) -> None:
    for withheld in ("pg_control_system", "pg_current_wal_lsn"):
        role = f"nobody_{secrets.token_hex(4)}"
        owner = await waited_for(url)({}, LineBounds())
        await owner.execute(
            f"REVOKE ALL ON FUNCTION {withheld} FROM PUBLIC; CREATE ROLE {role} LOGIN;"
            f" GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}; GRANT INSERT ON writers TO {role}"
        )
        site = ServerSite(parse_ledger_url(url), connect=waited_for(of_role(url, role)))
        for _ in range(2):
            marks = await process(url, LedgerIdentity(site.database), 0, latest=number(1, 0))
            assert marks.unkept is not None
            assert marks.unkept.endswith("so what has left is not marked")
            marks.own.mark(number(2, 0))
            asked = [number(1, 0), number(2, 0), number(3, 0), number(3, 1)]
            assert await marks.never_left(asked) == {number(3, 0)}
        await site.aclose()
        await owner.execute(f"GRANT EXECUTE ON FUNCTION {withheld} TO PUBLIC; DROP OWNED BY {role}; DROP ROLE {role}")
        await owner.close()
    assert not file_of(url, 0).exists()


# --- with ledgers


@asynccontextmanager
async def at_work(address: LedgerUrl, url: str, mark: str) -> AsyncIterator[Ledger]:
    """The ledger, for one of several processes that work on it."""
    here, connect = on_virtual_time(mark=mark), waited_for(url)
    async with (
        shard_owner_of(str(address), connect, here.called("serve"), here=here),
        open_ledger(address, clock=VirtualClock(), connect=connect, boot=lambda: BOOT, here=here) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        yield ledger
        group.cancel_scope.cancel()


async def claimed(ledger: Ledger, *, jobs: int, marked: int) -> list[Job]:
    """So many jobs, claimed; the first of them are marked."""
    run = await ledger.runs.named("run") or await a_run(ledger, 9)
    line = ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US)
    found = [claim.job for claim in (await ledger.jobs.claims.take(line, most=jobs)).claims]
    for each in found[:marked]:
        ledger.marks.mark(each.submission or 0)
    return found


async def test_a_process_knows_what_another_one_on_its_machine_has_sent_whatever_their_slots(url: str) -> None:
    address = parse_ledger_url(url)
    async with at_work(address, url, " #2") as second:
        async with at_work(address, url, " #1") as first:
            theirs = await claimed(first, jobs=3, marked=1)
            ours = await claimed(second, jobs=2, marked=1)
            expected = {theirs[1].submission, theirs[2].submission, ours[1].submission}
            assert {job.submission % SLOTS for job in (*theirs, *ours) if job.submission} == {0, 1}
            assert await second.never_left([*theirs, *ours]) == expected
        assert await second.never_left([*theirs, *ours]) == expected, "the other one is gone"
        async with at_work(address, url, " #3") as third:
            assert await third.never_left([*theirs, *ours]) == expected, "one in the slot of the one that is gone"
            assert await second.never_left([*theirs, *ours]) == expected
