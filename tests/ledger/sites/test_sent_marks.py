"""Which submissions may have left: what the marks beside a ledger tell, and when they are believed."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.sites.sent_marks import BYTES, KEPT, Marks, Seal, this_boot
from tests.factories import TTL_US, S
from tests.ledger.ledgers import a_run, brought_to, gone, jobs_now, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BOOT = "2c5ad34e-1be3-4212-9074-f44fc7dae6ee"
LATEST = 1_000_000
"""The latest submission of the ledger."""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "l.db"
    path.write_bytes(b"a ledger")
    return path


def beside(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.sent")


def sealed(ledger: Path, *, boot: str = BOOT, number: int = 7) -> Seal:
    found = ledger.stat()
    return Seal(boot, found.st_dev, found.st_ino, number)


def made(ledger: Path, *submissions: int, floor: int = 0) -> Marks:
    marks = Marks.made(beside(ledger), sealed(ledger), floor=floor)
    for each in submissions:
        marks.mark(each)
    return marks


def test_the_next_process_knows_what_was_marked(ledger: Path) -> None:
    made(ledger, 3, 5)
    marks = Marks.kept(beside(ledger), sealed(ledger), latest=LATEST)

    assert marks is not None
    assert marks.never_left([2, 3, 4, 5, 6]) == {2, 4, 6}
    marks.mark(4)
    again = Marks.kept(beside(ledger), sealed(ledger), latest=LATEST)
    assert again is not None
    assert again.never_left([2, 3, 4, 5, 6]) == {2, 6}
    assert again.never_left([]) == frozenset()


def test_of_submissions_up_to_the_floor_nothing_is_known(ledger: Path) -> None:
    marks = made(ledger, 13, floor=10)

    assert marks.never_left([9, 10, 11, 12, 13]) == {11, 12}


def test_a_mark_that_is_overwritten_raises_the_floor_to_its_submission(ledger: Path) -> None:
    marks = made(ledger, *range(2, 2 * KEPT + 2, 2))
    assert marks.never_left([1, 2, 3]) == {1, 3}

    marks.mark(2 * KEPT + 2)

    assert marks.never_left([1, 2, 3, 4, 5]) == {3, 5}
    again = Marks.kept(beside(ledger), sealed(ledger), latest=LATEST)
    assert again is not None
    assert again.never_left([1, 2, 3, 4, 5]) == {3, 5}


def test_a_process_killed_between_a_mark_and_its_count_leaves_a_whole_file(ledger: Path) -> None:
    marks = made(ledger, 3, 5)
    marks._words[16] = 1  # the count

    again = Marks.kept(beside(ledger), sealed(ledger), latest=LATEST)
    assert again is not None
    again.mark(6)
    assert again.never_left([3, 4, 5, 6, 7]) == {7}, "the mark without a count is overwritten, and known by the floor"


def _cut(path: Path) -> None:
    os.truncate(path, BYTES // 2)


def _zeroed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:256] + bytes(4096) + content[256 + 4096 :])


def _scribbled(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:256] + b"scribble" + content[256 + 8 :])


def _sealed_otherwise(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:20] + b"!" + content[21:])


def _of_another_version(path: Path) -> None:
    path.write_bytes(b"orch sent 99" + path.read_bytes()[12:])


@pytest.mark.parametrize(
    "spoil", [Path.unlink, _cut, _zeroed, _scribbled, _sealed_otherwise, _of_another_version], ids=lambda f: f.__name__
)
def test_a_file_that_is_missing_or_torn_is_not_believed(ledger: Path, spoil: Callable[[Path], None]) -> None:
    made(ledger, *range(100, 1_000))
    spoil(beside(ledger))

    assert Marks.kept(beside(ledger), sealed(ledger), latest=LATEST) is None


def test_marks_of_another_boot_number_or_file_are_not_believed(ledger: Path, tmp_path: Path) -> None:
    made(ledger, 3)
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copy(ledger, tmp_path / "copy"))
    shutil.copy(beside(ledger), beside(copy))

    assert Marks.kept(beside(ledger), sealed(ledger), latest=LATEST) is not None
    assert Marks.kept(beside(ledger), sealed(ledger, boot="another"), latest=LATEST) is None
    assert Marks.kept(beside(ledger), sealed(ledger, number=8), latest=LATEST) is None
    assert Marks.kept(beside(copy), sealed(copy), latest=LATEST) is None


def test_marks_of_submissions_that_the_ledger_never_made_are_not_believed(ledger: Path) -> None:
    made(ledger, 3, 5)

    assert Marks.kept(beside(ledger), sealed(ledger), latest=5) is not None
    assert Marks.kept(beside(ledger), sealed(ledger), latest=4) is None, "the ledger was put back to an older copy"


def test_a_ledger_without_a_number_believes_no_file(ledger: Path) -> None:
    Marks.made(beside(ledger), sealed(ledger, number=0), floor=0)

    assert Marks.kept(beside(ledger), sealed(ledger, number=0), latest=LATEST) is None


def test_marks_that_cannot_be_kept_leave_nothing_behind(tmp_path: Path, ledger: Path) -> None:
    beside(ledger).mkdir()  # nothing can take its place

    with pytest.raises(OSError, match="directory"):
        made(ledger)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.db", "l.db.sent"]
    assert Marks.unkept(floor=3).never_left([3, 4]) == {4}


def test_a_boot_is_known_by_what_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text(f"{BOOT}\n")
    assert this_boot(tmp_path / "boot_id") == BOOT
    assert this_boot() == this_boot() != ""


# --- with a real ledger


async def claimed(path: Path, *, jobs: int, boot: str | None = BOOT) -> list[int]:
    """The submissions of so many jobs, claimed by a process that died then."""
    async with opened(path, boot=lambda: boot) as ledger:
        run = await ledger.runs.named("run") or await a_run(ledger, 9)
        claims = (
            await ledger.jobs.claims.take(
                ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=jobs
            )
        ).claims
        found = [claim.job.submission or 0 for claim in claims]
        ledger.marks.mark(found[0])
        return found


async def never_left(path: Path, *, boot: str | None = BOOT) -> frozenset[int]:
    """What the next process knows never to have left."""
    async with opened(path, boot=lambda: boot) as ledger:
        return await ledger.never_left([job for job in await jobs_now(ledger) if job.state is State.SUBMITTING])


def _removed(path: Path) -> None:
    beside(path).unlink()


def _restored(path: Path) -> None:
    """The ledger was put in the place of this one, from another folder."""
    content = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 12345")
    assert content != path.read_bytes()


def _truncated(path: Path) -> None:
    os.truncate(beside(path), 0)


async def test_after_a_crash_of_the_process_what_was_not_marked_never_left(tmp_path: Path) -> None:
    first = await claimed(tmp_path / "l.db", jobs=3)
    assert await never_left(tmp_path / "l.db") == set(first[1:])
    second = await claimed(tmp_path / "l.db", jobs=2)
    assert await never_left(tmp_path / "l.db") == {*first[1:], second[1]}


@pytest.mark.parametrize("spoil", [_removed, _restored, _truncated], ids=lambda f: f.__name__)
async def test_a_process_that_finds_no_marks_to_believe_knows_of_nothing_claimed_before_that_it_never_left(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    await claimed(tmp_path / "l.db", jobs=3)
    spoil(tmp_path / "l.db")

    assert await never_left(tmp_path / "l.db") == frozenset()
    assert await never_left(tmp_path / "l.db") == frozenset(), "nor does the one after it, which believes the new file"
    again = await claimed(tmp_path / "l.db", jobs=2)
    assert await never_left(tmp_path / "l.db") == {again[1]}


@pytest.mark.parametrize("boot", ["another", None])
async def test_after_a_crash_of_the_machine_nothing_is_known_of_what_was_claimed(
    tmp_path: Path, boot: str | None
) -> None:
    await claimed(tmp_path / "l.db", jobs=3)

    assert await never_left(tmp_path / "l.db", boot=boot) == frozenset()
    assert await never_left(tmp_path / "l.db", boot=BOOT) == frozenset()


async def test_marks_older_than_a_process_that_could_keep_none_are_not_believed(tmp_path: Path) -> None:
    await claimed(tmp_path / "l.db", jobs=1)
    beside(tmp_path / "l.db").rename(tmp_path / "away")
    beside(tmp_path / "l.db").mkdir()
    await claimed(tmp_path / "l.db", jobs=2)
    beside(tmp_path / "l.db").rmdir()
    (tmp_path / "away").rename(beside(tmp_path / "l.db"))

    assert await never_left(tmp_path / "l.db") == frozenset()


async def test_of_a_retry_the_marks_tell_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, EPOCH_AT)
        [*_, claim] = await gone(ledger, job, "retried_remotely", "claimed_for_retry", at=EPOCH_AT + 9 * S)

        assert await ledger.never_left([claim.after]) == frozenset()
