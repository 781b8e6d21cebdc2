"""Why a process stops stands in the ledger, for those who find it idle."""

from pathlib import Path

import anyio
import pytest

from orchestrator.engine.upkeep.heartbeat import ASKED_TO_STOP, HAS_FINISHED
from orchestrator.errors import StoppedError
from tests.engine.test_side_by_side import HERE, Accepting, a_run, engine_at
from tests.ledger.ledgers import opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def last_word(path: Path) -> str | None:
    async with opened(path) as ledger:
        [beat] = await ledger.heartbeats.all()
        return beat.said.stopped


async def works(path: Path, error: BaseException | None = None, *, is_asked: bool = False) -> None:
    async with engine_at(path, {HERE: Accepting()}) as engine:
        await engine.runs.learn_settings()
        await a_run(engine, "run")
        await engine.collect()
        await anyio.sleep(5)
        if is_asked:
            engine.stop()
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
