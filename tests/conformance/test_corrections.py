"""An input that was corrected: rows with other inputs are tried anew, what is no longer in it goes if it has not
succeeded, and nothing that is at the service or was paid for is lost.
"""

import itertools

import anyio
import msgspec
import pytest

from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.input_corrections import Corrected, Dropped, RemovedRows
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.intake_pace import Beside
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MIB
from tests.factories import S, a_row
from tests.ledger.ledgers import PATHS, CutOff, OpenLedger, a_run, added, gone, job_now, taken_in
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
STATES = list(PATHS)
ROWS = [a_row(n, f"row-{n}") for n in range(1, len(STATES) + 1)]
OTHER = [a_row(n, f"row-{n}", payload=b'{"other":%d}' % n) for n in range(1, len(STATES) + 1)]
CAN_CHANGE = [n for n, state in enumerate(STATES) if state in (State.QUEUED, State.FAILED, State.CANCELLED)]
AT_SERVICE = [n for n, state in enumerate(STATES) if state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING)]


async def a_run_in_all_states(ledger: Ledger, name: str = "run", first: int = 1) -> Run:
    """One job in each state, whose rows are `ROWS`."""
    run = await a_run(ledger, ROWS, name=name)
    for job, path in enumerate(PATHS.values(), start=first):
        await gone(ledger, await job_now(ledger, job), *path, at=AT + job * S)
    return run


async def jobs_of(ledger: Ledger, run: Run) -> dict[str, tuple[State, bytes | None]]:
    """The state and the input of each job that counts, by its custom_id."""
    page = await ledger.jobs.results.page(run.id, list(State), after=(0, 0), most=99, bytes_max=MIB, inputs=True)
    return {job.custom_id: (job.state, job.input) for job in page}


async def check_sound(ledger: Ledger) -> None:
    """What `verify` goes through is as it should be."""
    findings = Findings()
    await audit_ledger(ledger, findings, lambda _what, _done, _total: None)
    assert findings.all() == ()


@pytest.mark.parametrize("as_they_come", [False, True])
async def test_a_row_with_another_input_is_tried_anew_under_its_id_unless_it_succeeded_or_is_at_the_service(
    open_file: OpenLedger, as_they_come: bool
) -> None:
    async with open_file() as ledger:
        run, other = await a_run_in_all_states(ledger), await a_run_in_all_states(ledger, "other", first=8)
        untouched = await jobs_of(ledger, other)
        was = await jobs_of(ledger, run)
        intake = await ledger.runs.intakes.start(run, as_they_come=as_they_come)
        clashes = await added(ledger, intake, OTHER)

        assert [clash.line for clash in clashes] == [*(n + 1 for n in AT_SERVICE), STATES.index(State.SUCCEEDED) + 1]
        assert len({clash.text() for clash in clashes}) == 2, "they are told together"
        assert await added(ledger, intake, [ROWS[clash.line - 1] for clash in clashes]) == []
        taken = await ledger.runs.intakes.accept(intake)
        if not as_they_come:
            assert taken.corrected == Corrected(done=3)
        assert (taken.new, taken.gone) == (0, 0)

        now = await jobs_of(ledger, run)
        for n, row in enumerate(ROWS):
            if n in CAN_CHANGE:
                assert now[row.custom_id] == (State.QUEUED, OTHER[n].input)
            else:
                assert now[row.custom_id] == was[row.custom_id]
        assert len(now) == len(ROWS)
        counts = await ledger.runs.counts(run=run.id)
        assert {state: counts.get(state.value, 0) for state in State} == {
            **dict.fromkeys(State, 1), State.QUEUED: 3, State.FAILED: 0, State.CANCELLED: 0,
        }  # fmt: skip
        assert await jobs_of(ledger, other) == untouched
        await check_sound(ledger)
        again = await ledger.runs.intakes.start(run)
        assert await added(ledger, again, [OTHER[n] if n in CAN_CHANGE else ROWS[n] for n in range(len(ROWS))]) == []
        assert (await ledger.runs.intakes.accept(again)).corrected == Corrected()


async def test_a_result_of_the_former_input_is_not_taken_for_one_of_the_new(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(1, "a")])
        before = await job_now(ledger)
        failed = (await gone(ledger, before, *PATHS[State.FAILED], at=AT))[-1].after
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, [a_row(1, "a", payload=b'{"other":1}')]) == []
        await ledger.runs.intakes.accept(intake)

        with pytest.raises(AssertionError, match="completed"):
            await gone(ledger, failed, "completed", at=AT + 9 * S)
        assert await jobs_of(ledger, run) == {"a": (State.QUEUED, b'{"other":1}')}
        assert (await ledger.runs.counts(run=run.id))["queued"] == 1


@pytest.mark.parametrize("open_file", ["sqlite"], indirect=True)  # a server gives no number again
async def test_a_job_with_the_number_of_one_that_was_dropped_has_none_of_its_submissions(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, ROWS[:3])
        dropped = (await gone(ledger, await job_now(ledger, 3), *PATHS[State.FAILED], at=AT))[-1].after
        await gone(ledger, await job_now(ledger, 1), *PATHS[State.FAILED], at=AT + 60 * S)
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, ROWS[:2]) == []
        await ledger.runs.intakes.accept(intake, drop=True)
        await taken_in(ledger, run, [a_row(9, "new")])

        assert (await job_now(ledger, 3)).state is State.QUEUED, "the number is given again"
        assert dropped.submission is not None
        assert (await ledger.jobs.of_submissions([dropped.submission])).jobs == {}


async def test_what_was_sent_before_it_could_be_corrected_stays_what_it_is(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, ROWS[:2])
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, OTHER[:2]) == []
        await gone(ledger, await job_now(ledger), "claimed", at=AT)

        assert (await ledger.runs.intakes.accept(intake)).corrected == Corrected(done=1, late=1)
        assert await jobs_of(ledger, run) == {
            "row-1": (State.SUBMITTING, ROWS[0].input),
            "row-2": (State.QUEUED, OTHER[1].input),
        }
        await check_sound(ledger)


async def test_what_is_no_longer_in_the_input_is_dropped_if_it_has_not_succeeded(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, other = await a_run_in_all_states(ledger), await a_run_in_all_states(ledger, "other", first=8)
        untouched = await jobs_of(ledger, other)
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, [a_row(1, "new")]) == []
        assert await ledger.runs.intakes.gone(intake) == RemovedRows(succeeded=1, waiting=3, at_service=3)
        taken = await ledger.runs.intakes.accept(intake, drop=True)

        assert taken.dropped == Dropped(removed=3, cancelled=2), "nothing can be said of a request that is under way"
        assert {name: state for name, (state, _) in (await jobs_of(ledger, run)).items()} == {
            "new": State.QUEUED,
            "row-2": State.SUBMITTING,
            "row-3": State.CANCELLED,
            "row-4": State.OUTSTANDING,
            "row-5": State.SUCCEEDED,
        }
        assert [kind.n for kind in await ledger.reports.job_queries.clusters(run.id, most=9)] == [1], "that of row-3"
        owed = await ledger.jobs.cancels.due(now=AT + 99 * S, after=(0, 0), most=9)
        assert [each.job for each in owed] == [4]
        assert await jobs_of(ledger, other) == untouched
        await check_sound(ledger)


async def test_what_a_process_had_still_to_drop_is_dropped_by_the_next(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 40)
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, [a_row(1, "new")]) == []
        with anyio.CancelScope() as cut_off:
            ledger.runs.intakes.pace.is_beside = in_the_middle(cut_off)
            await ledger.runs.intakes.accept(intake, drop=True)
        assert cut_off.cancelled_caught
        ledger.runs.intakes.pace.is_beside = lambda: False
        assert len(await jobs_of(ledger, run)) > 1
        await ledger.runs.intakes.clear("run")
        assert list(await jobs_of(ledger, run)) == ["new"]
        assert (await ledger.runs.counts(run=run.id))["queued"] == 1
        await check_sound(ledger)


def in_the_middle(cut_off: anyio.CancelScope) -> Beside:
    asked = itertools.count(1)

    def is_beside() -> bool:
        if next(asked) == 2:
            cut_off.cancel()
        return True

    return is_beside


@pytest.mark.parametrize("pages", [1, 3], ids=["before it drops", "while it drops"])
async def test_who_comes_back_to_what_another_process_has_settled_drops_nothing_that_is_in_the_input(
    open_file: OpenLedger, pages: int
) -> None:
    async with open_file() as ledger, open_file() as other:
        run = await a_run(ledger, ROWS[:4])
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, ROWS[2:4]) == []
        pace = ledger.runs.intakes.pace = CutOff(pages, lambda: other.runs.intakes.clear(run.name))
        await ledger.runs.intakes.accept(intake, drop=True)
        assert pace.pages > pages
        assert list(await jobs_of(ledger, run)) == ["row-3", "row-4"]
        assert (await ledger.runs.counts(run.id))["queued"] == 2
        await check_sound(ledger)


async def test_where_rows_go_first_others_are_chosen_once_none_of_them_is_left(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, ROWS[:3])
        chosen = await ledger.jobs.brakes.choose(run.id, 2)
        assert len(chosen) == 2
        intake = await ledger.runs.intakes.start(run)
        assert await added(ledger, intake, [a_row(9, "new"), OTHER[0]]) == []
        await ledger.runs.intakes.accept(intake, drop=True)
        assert (await ledger.jobs.brakes.of(run.id)).canary is None


async def test_rows_carry_what_is_never_sent_and_say_anew_what_that_is(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        plain = await a_run(ledger, 2, name="plain")
        rows = [
            msgspec.structs.replace(a_row(n, f"m{n}"), metadata=metadata)
            for n, metadata in ((1, b'{"lang":"de"}'), (2, None), (3, b'{"lang":"fr"}'))
        ]
        run = await a_run(ledger, rows)
        assert not await ledger.jobs.results.have_metadata(plain.id)
        assert await ledger.jobs.results.have_metadata(run.id)
        assert await carried(ledger, run) == {"m1": b'{"lang":"de"}', "m2": None, "m3": b'{"lang":"fr"}'}

        intake = await ledger.runs.intakes.start(run)
        others = [msgspec.structs.replace(row, metadata=b'{"n":%d}' % n if n else None) for n, row in enumerate(rows)]
        assert await ledger.runs.intakes.add(intake, packed_rows(others)) == []
        assert await carried(ledger, run) == {"m1": b'{"lang":"de"}', "m2": None, "m3": b'{"lang":"fr"}'}
        await ledger.runs.intakes.accept(intake)
        assert await carried(ledger, run) == {"m1": None, "m2": b'{"n":1}', "m3": b'{"n":2}'}
        refused = await ledger.runs.intakes.start(run)
        more = msgspec.structs.replace(a_row(4, "m4"), metadata=b'{"x":1}')
        assert await ledger.runs.intakes.add(refused, packed_rows([more])) == []
        await ledger.runs.intakes.clear("run")
        last = await ledger.runs.intakes.start(run)
        assert await ledger.runs.intakes.add(last, packed_rows([a_row(4, "m4")])) == []
        await ledger.runs.intakes.accept(last)
        assert (await carried(ledger, run))["m4"] is None, "nothing was left of the first m4"


async def carried(ledger: Ledger, run: Run) -> dict[str, bytes | None]:
    page = await ledger.jobs.results.page(run.id, list(State), after=(0, 0), most=99, bytes_max=MIB)
    return {job.custom_id: job.metadata for job in page}
