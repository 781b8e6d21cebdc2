"""Intakes of several runs at once, and what becomes of those that came to no end."""

import itertools
import random
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import IntakeBusyError, IntakeLostError, LedgerUnavailableError
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.runs.intake_pace import ROWS_FIRST, Beside
from orchestrator.ledger.runs.intake_writes import IntakeResult
from orchestrator.ledger.runs.intakes import Hold
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MIB
from tests.factories import SETTINGS, STEPS, TTL_US, a_row
from tests.ledger.ledgers import OpenLedger, a_run, added, job_now

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SAME = b'{"prompt":"again"}'
DERIVED = a_row(1, payload=SAME).custom_id


async def a_new_run(ledger: Ledger, name: str) -> Run:
    return await ledger.runs.create(
        name=name, service_url="https://api.example", endpoint="ep", source="-", settings=SETTINGS
    )


async def jobs_of(ledger: Ledger, run: Run) -> list[tuple[int, str]]:
    """The line and the custom_id of each job that counts, in input order."""
    page = await ledger.jobs.results.page(run.id, list(State), after=(0, 0), most=9_999, bytes_max=MIB)
    return [(job.line, job.custom_id) for job in page]


def held_by(living: Collection[str]) -> Hold:
    def hold(name: str) -> AbstractAsyncContextManager[IntakeRight]:
        if name in living:
            raise IntakeBusyError
        return nullcontext(IntakeRight())

    return hold


def known(first: int, last: int, *, ahead: int) -> list[Row]:
    """Rows that have moved down by `ahead` lines since they were read before."""
    return [a_row(n + ahead, f"row-{n}", payload=b"{}") for n in range(first, last + 1)]


def in_the_middle(cut_off: anyio.CancelScope) -> Beside:
    """Somebody works beside, and it is asked a few times whether that is so before all ends."""
    asked = itertools.count(1)

    def is_beside() -> bool:
        if next(asked) == 3:
            cut_off.cancel()
        return True

    return is_beside


@pytest.mark.parametrize("is_beside", [False, True])
async def test_intakes_of_several_runs_go_on_at_once_and_know_nothing_of_each_other(
    open_file: OpenLedger, is_beside: bool
) -> None:
    async with open_file() as ledger:
        ledger.runs.intakes.pace.is_beside = lambda: is_beside
        old = await a_run(ledger, [a_row(1, "a"), a_row(2, "b")], name="old")
        new, third = await a_new_run(ledger, "new"), await a_new_run(ledger, "third")
        to_old, to_new, to_third = [await ledger.runs.intakes.start(run) for run in (old, new, third)]
        for line in (1, 2):
            for intake in (to_old, to_new):
                await added(ledger, intake, [a_row(10 + line, payload=SAME), a_row(line, "ab"[line - 1])])
        assert [clash.line for clash in await added(ledger, to_new, [a_row(9, "a")])] == [9]

        assert await ledger.runs.intakes.accept(to_new) == IntakeResult(rows=4, new=4, gone=0)
        await added(ledger, to_old, [a_row(13, payload=SAME)])
        assert await jobs_of(ledger, old) == [(1, "a"), (2, "b")]
        assert await jobs_of(ledger, third) == []
        assert await ledger.runs.intakes.accept(to_old) == IntakeResult(rows=5, new=3, gone=0)

        ours = [(11, DERIVED), (12, f"{DERIVED}-2")]
        assert await jobs_of(ledger, new) == [(1, "a"), (2, "b"), *ours]
        assert await jobs_of(ledger, old) == [(1, "a"), (2, "b"), *ours, (13, f"{DERIVED}-3")]
        assert await ledger.runs.intakes.accept(to_third) == IntakeResult(rows=0, new=0, gone=0)
        assert [await ledger.runs.counts(run.id) for run in (old, new)] == [{"queued": 5}, {"queued": 4}]


async def test_an_intake_that_was_refused_leaves_no_trace_and_another_goes_on(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        old = await a_run(ledger, [a_row(1, "a")], name="old")
        refused, going_on = await a_new_run(ledger, "refused"), await a_new_run(ledger, "going on")
        first = await ledger.runs.intakes.start(refused)
        await added(ledger, first, [a_row(n) for n in range(1, 50)] + [a_row(n, payload=SAME) for n in (50, 51)])
        again, second = await ledger.runs.intakes.start(old), await ledger.runs.intakes.start(going_on)
        await ledger.runs.intakes.clear("refused")  # whose jobs had the numbers below those of the other intakes
        await added(ledger, again, [a_row(7, "a", payload=b'{"line":1}'), a_row(8, "b")])
        await ledger.runs.intakes.clear("old")

        assert [run.name for run in await ledger.runs.all()] == ["old", "going on"]
        assert await jobs_of(ledger, old) == [(1, "a")]
        await added(ledger, second, [a_row(1, "x"), a_row(2, "y")])
        assert (await a_new_run(ledger, "refused")).id > going_on.id, "nobody takes it for the one that was removed"
        await ledger.runs.intakes.clear("going on")
        assert [run.name for run in await ledger.runs.all()] == ["old", "refused"]
        last = await ledger.runs.intakes.start(old)
        await added(ledger, last, [a_row(8, "b")])
        assert await ledger.runs.intakes.accept(last) == IntakeResult(rows=1, new=1, gone=1), (
            "nothing was left of the first b"
        )


@pytest.mark.parametrize("as_they_come", [False, True])
async def test_who_was_taken_for_dead_takes_nothing_more_in_and_is_told(
    open_file: OpenLedger, as_they_come: bool
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        intake = await ledger.runs.intakes.start(run, as_they_come=as_they_come)
        await added(ledger, intake, [a_row(2, "b"), a_row(3, payload=SAME), a_row(4, payload=SAME)])
        await ledger.runs.intakes.clear(run.name)
        again = await ledger.runs.intakes.start(run)
        await added(ledger, again, [a_row(9, "z")])
        writes: list[Callable[[], Awaitable[object]]] = [
            partial(added, ledger, intake, [a_row(5, "c")]),
            partial(ledger.runs.intakes.accept, intake),
        ]
        if not as_they_come:
            writes.append(partial(ledger.runs.intakes.gone, intake))
        for write in writes:
            with pytest.raises(IntakeLostError, match="another process has taken over what was read here"):
                await write()
        of_its_own = ["b", DERIVED, f"{DERIVED}-2"] if as_they_come else []
        assert [custom_id for _, custom_id in await jobs_of(ledger, run)] == ["a", *of_its_own]
        assert await ledger.runs.counts(run.id) == {"queued": 1 + len(of_its_own)}
        assert (await ledger.runs.intakes.accept(again)).new == 1
        assert [custom_id for _, custom_id in await jobs_of(ledger, run)] == ["a", *of_its_own, "z"]


async def test_who_was_taken_for_dead_fails_alone(open_file: OpenLedger) -> None:
    taken = list[bool]()

    async def go_on() -> None:
        with pytest.raises(IntakeLostError):
            await added(ledger, intake, [a_row(3, "c")])

    async def step() -> None:
        taken.append(await ledger.writer.step(claimed))

    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(2, "b")])
        await ledger.runs.intakes.clear(run.name)
        claimed = STEPS["claimed"][1](await job_now(ledger), ledger.now())
        async with anyio.create_task_group() as of_one_transaction:
            of_one_transaction.start_soon(step)
            of_one_transaction.start_soon(go_on)
        assert taken == [True]
        assert ledger.writer.failure is None


@pytest.mark.parametrize("as_they_come", [False, True])
async def test_who_has_lost_its_turn_before_it_began_takes_nothing_in_beside_another(
    open_file: OpenLedger, as_they_come: bool
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        of_another = await ledger.runs.intakes.start(run, as_they_come=as_they_come)
        await added(ledger, of_another, [a_row(2, "b")])
        with pytest.raises(IntakeLostError, match="another process has taken over what was read here"):
            await ledger.runs.intakes.start(run)
        assert (await ledger.runs.intakes.accept(of_another)).new == 1
        await ledger.runs.intakes.start(run, as_they_come=as_they_come)
        await ledger.runs.intakes.clear(run.name)
        await ledger.runs.intakes.start(run)

        removed = await a_new_run(ledger, "removed")
        await ledger.runs.intakes.clear(removed.name)
        with pytest.raises(IntakeLostError):
            await ledger.runs.intakes.start(removed)


async def test_what_is_left_is_cleared_although_it_cannot_be_known_of_another_run_whether_its_process_lives(
    open_file: OpenLedger,
) -> None:
    def hold(name: str) -> AbstractAsyncContextManager[IntakeRight]:
        if name == "a":
            raise LedgerUnavailableError
        return nullcontext(IntakeRight())

    async with open_file() as ledger:
        for name in ("a", "b"):
            await ledger.runs.intakes.start(await a_new_run(ledger, name))
        await ledger.runs.intakes.clear_dead(hold)
        assert [run.name for run in await ledger.runs.all()] == ["a"]


@pytest.mark.parametrize("open_file", ["sqlite"], indirect=True)  # a server keeps it, and uses it again
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside others"])
async def test_the_room_that_a_refused_intake_took_is_given_back(open_file: OpenLedger, beside: bool) -> None:
    payloads = [b'{"n":%d,"text":"%b"}' % (n, random.Random(n).randbytes(4_000).hex().encode()) for n in range(300)]
    async with open_file() as ledger:
        ledger.runs.intakes.pace.is_beside = lambda: beside
        await a_run(ledger, [a_row(1, "a")], name="old")
        before = await ledger.reports.audit.file_bytes()
        intake = await ledger.runs.intakes.start(await a_new_run(ledger, "refused"))
        await added(ledger, intake, [a_row(n, payload=payload) for n, payload in enumerate(payloads, 1)])
        meanwhile = await a_run(ledger, [a_row(1, "b", payload=payloads[0])], name="behind it in the file")
        assert await ledger.reports.audit.file_bytes() > before + MIB
        await ledger.runs.intakes.clear("refused")

        assert await ledger.reports.audit.file_bytes() < before + 64 * 1024
        assert await ledger.reports.audit.damage() == []
        assert await jobs_of(ledger, meanwhile) == [(1, "b")]


async def test_what_a_dead_process_has_begun_is_removed_and_what_a_living_one_has_is_not(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        for name in ("dead", "living", "dead before its intake", "living before its intake"):
            run = await a_new_run(ledger, name)
            if "before" not in name:
                await added(ledger, await ledger.runs.intakes.start(run), [a_row(1), a_row(2)])
        living = ["living", "living before its intake"]
        await ledger.runs.intakes.clear_dead(held_by(living))
        assert [run.name for run in await ledger.runs.all()] == living
        await ledger.runs.intakes.clear_dead(held_by(()))
        assert await ledger.runs.all() == []


async def test_what_an_accepted_intake_had_still_to_do_is_done_by_the_next_process(open_file: OpenLedger) -> None:
    rows = 20 * ROWS_FIRST
    async with open_file() as ledger:
        run = await a_run(ledger, known(1, rows, ahead=0))
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(1, "first"), *known(2, rows, ahead=5)])
        with anyio.CancelScope() as cut_off:
            ledger.runs.intakes.pace.is_beside = in_the_middle(cut_off)
            await ledger.runs.intakes.accept(intake)
        lines = [line for line, _ in await jobs_of(ledger, run)]
        assert lines[-1] == rows, "the revision of what was known was cut off"
        claims = (
            await ledger.jobs.claims.take(
                ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=rows + 1
            )
        ).claims
        assert len(claims) == rows + 1, "and the intake counts all the same"

    async with open_file() as ledger:
        lines = [line for line, _ in await jobs_of(ledger, run)]
        assert lines == [1, 1, *range(7, rows + 6)]
        assert await ledger.runs.intakes.accept(await ledger.runs.intakes.start(run)) == IntakeResult(
            rows=0, new=0, gone=rows + 1
        )


async def test_rows_that_another_process_accepts_can_be_claimed_at_once_and_none_before(
    open_file: OpenLedger,
) -> None:
    async with open_file() as engine, open_file() as other:
        run = await a_run(engine, [a_row(1, "a"), a_row(2, "b")])
        line = ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US)
        claim = partial(engine.jobs.claims.take, most=9)
        intake = await other.runs.intakes.start(run)
        await added(other, intake, [a_row(3, "c"), a_row(4, "d")])
        first = await claim(line)
        assert len(first.claims) == 2
        assert (await claim(replace(line, behind=first.passed))).claims == []
        assert (
            await engine.jobs.next_queued_at(run.id, endpoint=run.endpoint_id, by_retry=False, now=engine.now()) is None
        )

        assert await other.runs.intakes.accept(intake) == IntakeResult(rows=2, new=2, gone=2)
        assert await engine.runs.counts(run.id) == {"queued": 2, "submitting": 2}
        assert await engine.jobs.next_queued_at(run.id, endpoint=run.endpoint_id, by_retry=False, now=engine.now()) == 0
        assert len((await claim(replace(line, behind=first.passed))).claims) == 2


async def test_the_jobs_of_an_intake_count_as_they_come_where_that_is_wanted(open_file: OpenLedger) -> None:
    async def claimed() -> int:
        return len(
            (
                await ledger.jobs.claims.take(
                    ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=99
                )
            ).claims
        )

    async with open_file() as ledger:
        run = await a_new_run(ledger, "night")
        intake = await ledger.runs.intakes.start(run, as_they_come=True)
        await added(ledger, intake, [a_row(1, "a"), a_row(2, payload=SAME)])
        assert await claimed() == 2
        await added(ledger, intake, [a_row(3, payload=SAME), a_row(4, "a"), a_row(5, "b")])
        assert await ledger.runs.counts(run.id) == {"queued": 2, "submitting": 2}
        [named] = [each for each in await ledger.runs.all() if each.accepted]
        assert named.name == "night", "it is there for everybody"
        await ledger.runs.intakes.clear("night")
        assert [name for _, name in await jobs_of(ledger, run)] == ["a", DERIVED, f"{DERIVED}-2", "b"], (
            "also if cut off"
        )

        again = await ledger.runs.intakes.start(run, as_they_come=True)
        await added(ledger, again, [a_row(1, "a"), a_row(7, payload=SAME), a_row(8, "c")])
        assert await ledger.runs.intakes.accept(again) == IntakeResult(rows=3, new=1, gone=2)
        assert await ledger.runs.intakes.last_line(run.id) == 8
        assert sum((await ledger.runs.counts(run.id)).values()) == 5
        assert await claimed() == 3
