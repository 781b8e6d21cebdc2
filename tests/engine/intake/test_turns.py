"""Whose turn it is to take in for a run, and what is left of an intake that came to no end."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.engine.intake.intake import InputBatch, Intake, right_kept, turn_to_take_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import InputError, IntakeBusyError, LedgerUnavailableError
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.runs.runs import Run
from tests.engine.rows import rows
from tests.factories import SETTINGS
from tests.ledger.ledgers import added, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Desk:
    """Takes in for runs of one ledger, as several processes do."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.said: list[str] = []
        self.stop = anyio.Event()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[Run]:
        hold = Dependencies().holding_intakes(self.ledger.address)
        async with turn_to_take_in(self.ledger, name, hold=hold, say=self.said.append, stop=self.stop):
            known = await self.ledger.runs.named(name)
            yield known or await self.ledger.runs.create(
                name=name, service_url="https://api.example", endpoint="ep", source="-", settings=SETTINGS
            )

    async def take_in(self, name: str, batches: Iterator[InputBatch]) -> None:
        async with self.turn(name) as run:
            await Intake(self.ledger, run, source="in.jsonl").take(batches, advice=lambda: "")

    async def names(self) -> list[str]:
        return [run.name for run in await self.ledger.runs.all()]


async def test_the_same_run_given_twice_is_taken_in_one_after_the_other_and_the_person_told_once(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        desk = Desk(ledger)
        async with anyio.create_task_group() as group:
            async with desk.turn("a") as run:
                group.start_soon(desk.take_in, "a", iter([InputBatch(rows(3), [])]))
                await desk.take_in("b", iter([InputBatch(rows(2), [])]))
                await anyio.sleep(60)
                assert await ledger.runs.counts(run.id) == {}
                assert len(desk.said) == 1
                assert desk.said[0].endswith("is reading rows for the run 'a': this one waits for it")
                await Intake(ledger, run, source="-").take(iter([InputBatch(rows(3), [])]), advice=lambda: "")
            assert await ledger.runs.counts(run.id) == {"queued": 3}
        assert await ledger.runs.counts(run.id) == {"queued": 3}
        assert await desk.names() == ["a", "b"]


async def test_who_has_the_right_no_more_leaves_what_another_one_takes_in(tmp_path: Path) -> None:
    class Lost(IntakeRight):
        is_lost = True

    async with opened(tmp_path / "l.db") as ledger:
        desk = Desk(ledger)
        async with turn_to_take_in(
            ledger, "a", hold=lambda _: nullcontext(Lost()), say=desk.said.append, stop=desk.stop
        ):
            run = await ledger.runs.create(
                name="a", service_url="https://api.example", endpoint="ep", source="-", settings=SETTINGS
            )
            of_another = await ledger.runs.intakes.start(run)
            assert await added(ledger, of_another, rows(2)) == []
        assert (await ledger.runs.intakes.accept(of_another)).new == 2


async def test_who_cannot_ask_for_its_turn_just_now_has_the_patience_of_its_process(tmp_path: Path) -> None:
    found = [LedgerUnavailableError("too many connections"), LedgerUnavailableError("away"), IntakeBusyError()]

    def hold(_: str) -> AbstractAsyncContextManager[IntakeRight]:
        if answers:
            raise answers.pop(0)
        return nullcontext(right)

    right = IntakeRight()
    async with opened(tmp_path / "l.db") as ledger:
        desk, answers = Desk(ledger), list[Exception](found)
        with pytest.raises(LedgerUnavailableError, match="too many"):
            async with turn_to_take_in(ledger, "a", hold=hold, say=desk.said.append, stop=desk.stop):
                pass
        answers, ledger.patience.seconds = [*found, found[0]], 60
        async with turn_to_take_in(ledger, "a", hold=hold, say=desk.said.append, stop=desk.stop) as held:
            assert held is right


async def test_what_goes_wrong_while_the_right_is_kept_comes_as_it_is() -> None:
    class Kept(IntakeRight):
        def __init__(self) -> None:
            self.was_let_go = anyio.Event()

        async def keep(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                self.was_let_go.set()

    async def block(right: IntakeRight) -> None:
        async with right_kept(right):
            await anyio.sleep(1)
            raise IntakeBusyError("of the block")

    for right in (IntakeRight(), kept := Kept()):
        with pytest.raises(IntakeBusyError, match="of the block"):
            await block(right)
        async with right_kept(right):
            await anyio.sleep(1)
    assert kept.was_let_go.is_set()


async def test_who_waits_for_the_turn_can_be_stopped(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        desk = Desk(ledger)
        async with desk.turn("a"):
            with anyio.move_on_after(5) as cancelled:
                await desk.take_in("a", iter([]))
            assert cancelled.cancelled_caught
            desk.stop.set()
            with pytest.raises(IntakeBusyError, match="is reading rows for the run 'a'"):
                await desk.take_in("a", iter([]))


async def test_a_refused_or_cancelled_intake_and_the_run_that_was_made_for_it_are_removed_at_once(
    tmp_path: Path,
) -> None:
    def cut_off(scope: anyio.CancelScope) -> Iterator[InputBatch]:
        yield InputBatch(rows(3), [])
        anyio.from_thread.run_sync(scope.cancel)
        yield InputBatch(rows(6)[3:], [])

    async with opened(tmp_path / "l.db") as ledger:
        desk = Desk(ledger)
        with pytest.raises(InputError):
            await desk.take_in("refused", iter([InputBatch([*rows(3), *rows(3)], [])]))
        assert await desk.names() == []
        ledger.runs.intakes.pace.is_beside = lambda: True
        with anyio.CancelScope() as cancelled:
            await desk.take_in("cancelled", cut_off(cancelled))
        assert cancelled.cancelled_caught
        assert await desk.names() == []
        assert await ledger.reports.audit.jobs_number() == 0
        await desk.take_in("cancelled", iter([InputBatch(rows(3), [])]))
        assert await desk.names() == ["cancelled"]


async def test_of_a_custom_id_in_two_files_both_places_are_named(tmp_path: Path) -> None:
    def place_of(line: int) -> str:
        return f"{line}.jsonl, line 1"

    async with opened(tmp_path / "l.db") as ledger:
        run = await ledger.runs.create(
            name="r", service_url="https://api.example", endpoint="ep", source="*.jsonl", settings=SETTINGS
        )
        first, second = rows(2)
        twice = InputBatch([first, replace(second, custom_id=first.custom_id)], [])
        with pytest.raises(InputError) as refused:
            await Intake(ledger, run, source="*.jsonl", place_of=place_of).take(iter([twice]), advice=str)
    told = f"2.jsonl, line 1: custom_id {first.custom_id!r} stands on 1.jsonl, line 1 already; give each row its own"
    assert told in str(refused.value)
