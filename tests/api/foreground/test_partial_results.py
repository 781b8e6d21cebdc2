"""The results of a run can be read while it runs."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest

from orchestrator.api.foreground.partial_results import AGAIN_S, APPEND_EVERY_S, PartialResults
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings.run_request import partial_of
from tests.engine.hosting.test_continued import desk_in
from tests.factories import S
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 12
LEDGER = Path("orchestrator.db")


def read(path: Path) -> list[int]:
    """The lines of the file so far, each of them whole."""
    return [json.loads(line)["output"]["n"] for line in path.read_text().splitlines()]


@pytest.mark.slow
async def test_results_stand_in_the_growing_file_as_they_come_and_at_the_end_in_the_output_alone(
    tmp_path: Path,
) -> None:
    seen: list[list[int]] = []
    out = tmp_path / "out.jsonl"

    async def look() -> None:
        while True:
            await anyio.sleep(10.1)
            if partial_of(out, LEDGER).exists():
                seen.append(read(partial_of(out, LEDGER)))

    async with desk_in(tmp_path, workers=2, seconds=lambda _: 10.0) as desk, anyio.create_task_group() as group:
        group.start_soon(look)
        await desk.run(JOBS)
        group.cancel_scope.cancel()
    lengths = [len(each) for each in seen]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3, "it grows"
    assert 0 < lengths[-1] <= JOBS
    assert all(len(set(each)) == len(each) for each in seen)
    assert read(out) == list(range(JOBS))
    assert not partial_of(out, LEDGER).exists()


async def succeeded(ledger: Ledger, jobs: Sequence[int]) -> None:
    for job in jobs:
        await brought_to(ledger, State.SUCCEEDED, EPOCH_AT + job * S, job=job)


def lines_in(path: Path) -> int:
    return len(path.read_bytes().splitlines())


async def test_the_next_process_makes_it_anew_and_what_goes_wrong_with_it_is_told_once(tmp_path: Path) -> None:
    out, said = tmp_path / "there" / "out.jsonl", list[str]()
    async with opened(tmp_path / "l.db", clock=VirtualClock()) as ledger, anyio.create_task_group() as group:
        run = await a_run(ledger, 9)
        await succeeded(ledger, (1, 3))
        group.start_soon(PartialResults(ledger, run.id, out, (), said.append).serve)
        await anyio.sleep(3 * AGAIN_S)
        assert [line for line in said if "No such file or directory" in line] == said
        assert len(said) == 1
        out.parent.mkdir()
        partial_of(out, LEDGER).write_bytes(b'{"torn' * 1_000)  # by a process that was killed
        await anyio.sleep(AGAIN_S)
        assert lines_in(partial_of(out, LEDGER)) == 2
        await succeeded(ledger, (2, 7))
        await anyio.sleep(APPEND_EVERY_S)
        assert lines_in(partial_of(out, LEDGER)) == 4
        group.cancel_scope.cancel()


class Slow(PartialResults):
    """Makes the file anew so slowly that some jobs end meanwhile: one before it is looked at, which waited for its
    transaction, and one behind that.
    """

    async def _so_far(self, began_at: int) -> AsyncIterator[FinishedJob]:
        await brought_to(self._ledger, State.SUCCEEDED, self._ledger.now() - 10 * S, job=2)
        async for job in super()._so_far(began_at):
            yield job
        await brought_to(self._ledger, State.SUCCEEDED, self._ledger.now(), job=4)


async def test_what_ends_while_it_is_made_anew_stands_there_once(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    async with opened(tmp_path / "l.db", clock=VirtualClock()) as ledger, anyio.create_task_group() as group:
        run = await a_run(ledger, 4)
        await succeeded(ledger, (1, 3))
        await anyio.sleep(10)
        group.start_soon(Slow(ledger, run.id, out, (), print).serve)
        await anyio.sleep(3 * APPEND_EVERY_S)
        ids = [json.loads(line)["custom_id"] for line in partial_of(out, LEDGER).read_text().splitlines()]
        group.cancel_scope.cancel()
    assert len(ids) == len(set(ids)) == 4


async def test_a_stream_does_not_grow(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        for output in (None, Path("/dev/stdout")):
            await PartialResults(ledger, 1, output, (), lambda _: None).serve()


async def test_what_the_run_has_not_written_is_not_grown_over(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        partial_of(tmp_path / "out.jsonl", LEDGER).write_text("dear")
        with pytest.raises(UsageError, match=r"out\.jsonl\.partial: this file is there already"):
            await desk.run()
        await desk.run(overwrite=True)
