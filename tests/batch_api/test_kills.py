"""The process is killed before and after each commit, from the upload to the end: the batch ends with each row once,
and no file is left that nobody knows.

Time is that of `tests.simulation`.
"""

import os
import sqlite3
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import pytest
from msgspec.structs import replace
from openai import AsyncOpenAI

from orchestrator.api.batch_api.file_store import UNCLAIMED_US
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.units import SECOND_US
from tests.api.desk import Desk
from tests.batch_api.harness import Site, batch_api, ended, lines, request, rows_of
from tests.engine.pods.test_kills import KillAtCommit
from tests.engine.pods.workplace import nobody_holds
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch, async_creator
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.world import SimulatedService

ROWS: Final = 4
COMMITS_MIN: Final = 12
LATER_S: Final = 150.0
"""After so long nobody believes that the killed process lives."""


class Place:
    """A ledger and a service that outlive processes, and what a program knows that asks for a batch, and `cancels` it
    at once, if so.
    """

    def __init__(self, folder: Path, *, cancels: bool = False) -> None:
        folder.mkdir()
        self.folder = folder
        self._cancels = cancels
        self.shop: Desk | None = None
        self.file = self.batch = ""

    async def life(self, commits: CommitWatch | None) -> None:
        """One process, and the program that asks it."""
        if self.shop is None:
            clock = VirtualClock()
            self.shop = Desk(self.folder, clock, SimulatedService(clock))
        async with self.shop.service.serving(), batch_api(self.shop, around=self._around(commits)) as site:
            await self._program(site)
            await self._check(site)

    def _around(self, commits: CommitWatch | None) -> Dependencies:
        assert self.shop is not None
        return replace(
            self.shop.dependencies,
            lock=nobody_holds,
            intake_lock=nobody_holds,
            connect=partial(async_creator, commits=commits),
        )

    async def _program(self, site: Site) -> None:
        client = site.client()
        if not self.file:
            text = lines([request(n) for n in range(ROWS)])
            self.file = (await client.files.create(file=text, purpose="batch")).id
        if not self.batch:
            made = await client.batches.create(
                input_file_id=self.file, endpoint="/v1/chat/completions", completion_window="24h"
            )
            self.batch = made.id
        if self._cancels:
            await self._cancel(client)
            return
        batch = await ended(client, await client.batches.retrieve(self.batch))
        assert batch.status == "completed", batch
        assert [*await rows_of(client, batch.output_file_id)] == [f"r{n}" for n in range(ROWS)]
        assert batch.error_file_id is None

    async def _cancel(self, client: AsyncOpenAI) -> None:
        batch = await client.batches.retrieve(self.batch)
        if batch.status in ("validating", "in_progress"):
            batch = await client.batches.cancel(self.batch)
        batch = await ended(client, batch)
        assert batch.status == "cancelled", batch
        files = [file for file in (batch.output_file_id, batch.error_file_id) if file is not None]
        found = [row for file in files for row in await rows_of(client, file)]
        assert sorted(found) in ([f"r{n}" for n in range(ROWS)], []), "all of them, or it was never taken in"

    async def _check(self, site: Site) -> None:
        """Each batch has ended, also one whose program never heard of it, and each file is known, in the end."""
        while await site.ledger.runs.posted.batches.open():  # noqa: ASYNC110  nobody tells
            await anyio.sleep(1)
        before_s = (site.ledger.now() - UNCLAIMED_US) / SECOND_US - 1
        for name in site.stored:
            os.utime(site.store.folder / name, (before_s, before_s))
        await site.store.tidy()
        known = await site.ledger.runs.posted.files.known(site.stored)
        assert known == {*site.stored}
        assert {self.file} <= known
        assert len(known) == await file_rows(site)


NAMED: Final = "SELECT 1 FROM posted_batches WHERE output_file IS NOT NULL"
"""Whether it is written down how the files of a batch will be called."""

CANCELLED_IN_INTAKE: Final = (
    "SELECT 1 FROM posted_batches JOIN intakes ON intakes.run_id = posted_batches.run"
    " WHERE posted_batches.state = 'cancelling' AND intakes.accepted_at IS NULL"
)
"""Whether a batch is to be cancelled whose rows are being taken in."""


class KillOnce:
    """Kills after the commit by which that is `so`."""

    def __init__(self, place: Place, so: str) -> None:
        self._place, self._so = place, so
        self._crash = Crash()

    def committing(self) -> bool:
        """Before a commit."""
        return True

    def committed(self) -> None:
        """After one."""
        assert self._place.shop is not None
        with closing(sqlite3.connect(self._place.shop.ledger)) as connection:
            is_so = connection.execute(self._so).fetchone()
        if is_so is not None:
            self._crash.pull()


async def file_rows(site: Site) -> int:
    """How many files the ledger knows."""
    return len([each async for each in site.client().files.list()])


def killed_at(folder: Path, number: int, *, is_after: bool, cancels: bool = False) -> bool:
    """Kills a process at that commit, and has the next one go on; False where the first one ended before."""
    return killed_by(Place(folder, cancels=cancels), KillAtCommit(number, is_after=is_after))


def killed_by(place: Place, commits: CommitWatch) -> bool:
    at_s = run_until_crash(lambda: place.life(commits))
    if at_s is None:
        return False
    run(lambda: place.life(None), start_s=at_s + LATER_S)
    return True


def test_killed_as_its_files_are_named_it_ends_all_the_same(tmp_path: Path) -> None:
    place = Place(tmp_path / "1")
    assert killed_by(place, KillOnce(place, NAMED))


def test_killed_as_its_rows_are_taken_in_a_batch_that_is_to_be_cancelled_is_cancelled(tmp_path: Path) -> None:
    place = Place(tmp_path / "1", cancels=True)
    assert killed_by(place, KillOnce(place, CANCELLED_IN_INTAKE))


@pytest.mark.slow
@pytest.mark.parametrize("cancels", [False, True])
def test_killed_at_each_commit_a_batch_ends_with_each_row_once(tmp_path: Path, *, cancels: bool) -> None:
    """Before one and after the next: what is true in between is the same."""
    for number in count(1):
        if not killed_at(tmp_path / str(number), number, is_after=number % 2 == 0, cancels=cancels):
            assert number > COMMITS_MIN
            return
