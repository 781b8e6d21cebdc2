"""Why a process stops stands in the ledger, for those who find it idle."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from orchestrator.engine.engine import open_engine
from orchestrator.engine.hosting.run_reports import REPORTED_FOR_US
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.heartbeat import ASKED_TO_STOP, HAS_FINISHED
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StoppedError
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import SECOND_US
from tests.engine.hosting.test_side_by_side import HERE, Accepting, a_run, engine_at
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, Scripted
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def last_word(path: Path) -> str | None:
    async with opened(path) as ledger:
        [beat] = await ledger.runs.heartbeats.all()
        return beat.report.stopped


async def works(path: Path, error: BaseException | None = None, *, is_asked: bool = False) -> None:
    async with engine_at(path, {HERE: Accepting()}) as engine:
        await engine.runs.learn_settings()
        await a_run(engine, "run")
        await engine.collect()
        await anyio.sleep(5)
        if is_asked:
            engine.process.stop()
        if error is not None:
            raise error


async def test_an_orderly_end_says_whether_it_was_asked_for(tmp_path: Path) -> None:
    await works(tmp_path / "one")
    assert await last_word(tmp_path / "one") == HAS_FINISHED
    await works(tmp_path / "two", is_asked=True)
    assert await last_word(tmp_path / "two") == ASKED_TO_STOP


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoppedError("the key is refused; mend that\nthen resume"), "the key is refused; mend that"),
        (ValueError("secret"), "a defect of the program: ValueError"),
    ],
)
async def test_an_error_that_ends_it_is_told(tmp_path: Path, error: Exception, said: str) -> None:
    with pytest.raises(ExceptionGroup):
        await works(tmp_path / "l.db", error)
    assert await last_word(tmp_path / "l.db") == said


async def test_a_process_that_is_cut_off_says_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    began_s = anyio.current_time()
    with anyio.move_on_after(3):
        await works(tmp_path / "l.db")
    assert anyio.current_time() - began_s < 3.5
    assert await last_word(tmp_path / "l.db") is None


async def test_who_is_asked_to_stop_before_it_works_takes_nothing_on(tmp_path: Path) -> None:
    async with open_engine(
        tmp_path / "db",
        ConnectionSettings(),
        Dependencies(clock=VirtualClock(), connect=async_creator),
        SilentConsole(),
    ) as engine:
        engine.process.stop()
        is_reached = False
        async with engine.working():
            await anyio.lowlevel.checkpoint()
            is_reached = True
        assert not is_reached


async def test_of_a_run_that_ended_long_ago_nothing_is_said_any_more(tmp_path: Path) -> None:
    """A process may serve thousands, one each night."""
    async with process(tmp_path / "db", Scripted(status=COMPLETED)) as p:
        await p.begin()
        assert p.engine.report(lately=True).runs.keys() == {p.run.id}
        await p.finish()
        assert p.engine.report(lately=True).runs.keys() == {p.run.id}, "who follows it looks once more"
        await anyio.sleep(REPORTED_FOR_US / SECOND_US + 1)
        assert p.engine.report(lately=True).runs == {}
        assert p.engine.report().runs.keys() == {p.run.id}, "its own summary may be made later"
        p.progress.recount({"queued": 1})
        assert p.engine.report(lately=True).runs.keys() == {p.run.id}


async def test_who_asks_how_one_run_stands_has_none_of_the_others_looked_at(tmp_path: Path) -> None:
    """Thousands that a process serves ask for themselves, each now and then."""
    reports: list[ProcessReport] = []

    def kept(*, only: int | None = None) -> ProcessReport:
        reports.append(engine.report(only=only))
        return reports[-1]

    async with engine_at(tmp_path / "l.db", {HERE: Accepting()}) as engine:
        await engine.runs.learn_settings()
        engine.host._said = kept
        sessions = [await engine.host.take_on(await a_run(engine, name)) for name in ("one", "two", "three")]
        reports.clear()
        said = {session.run.id: session.of_run for session in sessions}
        assert [[*report.runs] for report in reports] == [[run] for run in said]
        assert engine.report().runs == said
