"""Intake: repeats, duplicates, changed rows, and what becomes of an intake that was not accepted."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import Claim
from orchestrator.ledger.runs.intake_writes import IntakeResult
from orchestrator.ledger.runs.runs import Run
from tests.factories import SETTINGS, TTL_US, S, a_row
from tests.ledger.ledgers import a_run, added, brought_to, counted, dump, job_now, opened, taken_in
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S

SAME = b'{"prompt":"again"}'
DERIVED = a_row(1, payload=SAME).custom_id


def repeats(*lines: int) -> list[Row]:
    return [a_row(line, payload=SAME) for line in lines]


def ids_of(path: Path) -> list[str]:
    return [row[3] for row in dump(path)["jobs"]]


async def a_new_run(ledger: Ledger, name: str = "run") -> Run:
    return await ledger.runs.create(
        name=name, service_url="https://api.example", endpoint="ep", source="-", settings=SETTINGS
    )


async def claimable(ledger: Ledger, run: Run) -> list[Claim]:
    return (
        await ledger.jobs.claims.take(
            ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=100
        )
    ).claims


SPLITS: list[Sequence[Sequence[int]]] = [[[1, 2, 3, 4]], [[1], [2], [3], [4]], [[1, 2], [3, 4]], [[1], [2, 3, 4]]]


@pytest.mark.parametrize("first", SPLITS)
@pytest.mark.parametrize("second", SPLITS)
async def test_repeated_inputs_are_numbered_alike_however_they_are_batched_and_read_again(
    first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], tmp_path: Path
) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_new_run(ledger)
        await taken_in(ledger, run, *[[*repeats(*lines), a_row(100 + lines[0])] for lines in first])
        found = [row for row in ids_of(path) if row.startswith(DERIVED)]
        assert found == [DERIVED, f"{DERIVED}-2", f"{DERIVED}-3", f"{DERIVED}-4"]
        before = dump(path, without=["intakes", "sqlite_sequence", "runs"])

        again = [[*repeats(*lines)] for lines in second]
        again.append([a_row(100 + lines[0]) for lines in first])
        await taken_in(ledger, run, *again)
        assert dump(path, without=["intakes", "sqlite_sequence", "runs"]) == before


async def test_more_repeats_than_before_get_the_numbers_that_follow(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger, repeats(1, 2))
        await taken_in(ledger, run, repeats(1), repeats(2), repeats(3))

        assert ids_of(path) == [DERIVED, f"{DERIVED}-2", f"{DERIVED}-3"]


async def test_a_custom_id_that_stands_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        intake = await ledger.runs.intakes.start(await a_new_run(ledger))
        told = "custom_id 'a' stands on line 1 already; give each row its own"

        found = await added(ledger, intake, [a_row(1, "a"), a_row(2, "a"), a_row(3, "b")])
        assert [(each.line, each.text()) for each in found] == [(2, told)]
        [clash] = await added(ledger, intake, [a_row(4, "a")])
        assert (clash.line, clash.text()) == (4, told)
        assert clash.text("b.jsonl, line {}".format) == told.replace("line 1", "b.jsonl, line 1")
        assert ids_of(path) == ["a", "b"]


async def test_a_known_custom_id_that_stands_twice_is_told_too(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        intake = await ledger.runs.intakes.start(run)
        told = "custom_id 'a' stands on line 7 already; give each row its own"

        same = b'{"line":1}'
        rows = [a_row(7, "a", payload=same), a_row(8, "a", payload=same)]
        found = await added(ledger, intake, rows)
        assert [(each.line, each.text()) for each in found] == [(8, told)]
        [clash] = await added(ledger, intake, [a_row(9, "a", payload=same)])
        assert (clash.line, clash.text()) == (9, told)


async def test_a_changed_input_is_told(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger, [a_row(1, "a"), a_row(2, "b")])
        await brought_to(ledger, State.SUCCEEDED, AT, job=2)
        before = dump(path)["payloads"]
        intake = await ledger.runs.intakes.start(run)
        (clash,) = await added(ledger, intake, [a_row(1, "a"), a_row(2, "b", payload=b"{}")])

        assert clash.line == 2
        assert clash.text().startswith(
            "its custom_id has succeeded with another input; give the changed row a new custom"
        )
        assert dump(path)["payloads"] == before


async def test_a_changed_line_and_policy_apply_only_when_the_intake_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger, [a_row(1, "a"), a_row(2, "b", policy=b'{"ttl":10000}')])
        changed = [
            a_row(5, "a", payload=b'{"line":1}', policy=b'{"ttl":20000}', s3_config=b'{"bucketName":"x"}'),
            a_row(2, "b"),
        ]
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, changed) == []
        rows = dump(path)
        assert [row[5] for row in rows["jobs"]] == [1, 2]
        assert [row[4:] for row in rows["payloads"]] == [(None, None), (b'{"ttl":10000}', None)]

        assert await ledger.runs.intakes.accept(intake) == IntakeResult(rows=2, new=0, gone=0)
        rows = dump(path)
        assert [row[5] for row in rows["jobs"]] == [5, 2]
        assert [row[4:] for row in rows["payloads"]] == [(b'{"ttl":20000}', b'{"bucketName":"x"}'), (None, None)]
        assert rows["intake_known"] == []


async def test_rows_that_are_new_and_rows_that_are_gone_are_counted(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, [a_row(1, "a"), a_row(2, "b"), a_row(3, "c")])
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(1, "a"), a_row(4, "d")])
        await added(ledger, intake, [])

        assert await ledger.runs.intakes.accept(intake) == IntakeResult(rows=2, new=1, gone=2)
        (found,) = await ledger.runs.all()
        assert (found.rows, found.accepted) == (2, True)
        assert await ledger.runs.counts(run=run.id) == {"queued": 4}


async def test_jobs_of_an_intake_do_not_exist_before_it_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_new_run(ledger)
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(1), a_row(2)])
        next_at = partial(ledger.jobs.next_queued_at, run.id, endpoint=run.endpoint_id, by_retry=False, now=AT)
        page = partial(ledger.jobs.results.page, run.id, list(State), after=(0, 0), most=9, bytes_max=10**6)

        assert await claimable(ledger, run) == []
        assert counted(path) == {}
        assert await next_at() is None
        assert await page() == []
        (found,) = await ledger.runs.all()
        assert (found.rows, found.accepted) == (0, False)

        await ledger.runs.intakes.accept(intake)
        assert await next_at() == 0
        assert len(await page()) == 2
        assert len(await claimable(ledger, run)) == 2


async def test_an_unfinished_intake_is_removed_with_its_new_run(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        kept = await a_run(ledger, [a_row(1, "a"), a_row(2, "b")], name="kept")
        before = dump(path, without=["sqlite_sequence"])
        intake = await ledger.runs.intakes.start(await a_new_run(ledger, "cut off"))
        await added(ledger, intake, [a_row(line) for line in range(1, 50)] + repeats(30_001, 30_002))
        second = await ledger.runs.intakes.start(kept)
        await added(ledger, second, [a_row(9, "a", payload=b'{"line":1}'), a_row(10, "c")])
        await added(ledger, intake, [a_row(line) for line in range(50, 100)])

    async with opened(path) as ledger:
        assert dump(path, without=["sqlite_sequence"]) == before
        third = await ledger.runs.intakes.start(kept)
        assert third.id > second.id
        await ledger.runs.intakes.clear("kept")
        await ledger.runs.intakes.clear("kept")
        assert dump(path, without=["sqlite_sequence"]) == before


async def test_a_run_that_never_got_an_intake_vanishes_too(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_new_run(ledger)
    async with opened(path) as ledger:
        assert await ledger.runs.named("run") is None


async def test_jobs_that_were_sent_stay_when_a_later_intake_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        job = await brought_to(ledger, State.OUTSTANDING, ledger.now() - 2_000_000)  # later ones would be brought back
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(9, "a", payload=b'{"line":1}')])
    async with opened(path) as ledger:
        assert await job_now(ledger) == job
        assert dump(path)["jobs"][0][5] == 1


async def test_a_large_input_is_stored_packed(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, [a_row(1, payload=b'{"a":"' + b"a" * 10_000 + b'"}')])
    assert len(dump(path)["payloads"][0][1]) < 1_000
