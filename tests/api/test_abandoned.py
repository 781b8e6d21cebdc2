"""An `Orchestrator` whose event loop ends, or stands still, without its block being left."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import UsageError
from orchestrator.ledger import intake_lock
from tests.api.desk import desk, numbers
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.world import ENDPOINT


def test_who_comes_after_it_is_told_that_its_loop_is_closed(tmp_path: Path) -> None:
    async def left() -> None:
        async with desk(tmp_path) as d, d.orchestrator() as orc:
            await orc.submit(numbers(3), endpoint=ENDPOINT, name="captions")
            with intake_lock(d.ledger, "others", now=d.clock.now()):
                await Crash().here()

    async def later() -> None:
        async with desk(tmp_path) as d:
            with pytest.raises(UsageError, match="in an event loop that was closed before"):
                async with d.orchestrator():
                    raise AssertionError
            refused = pytest.raises(
                UsageError, match=re.escape("no rows can be read for the run 'others': this program holds it")
            )
            with refused, intake_lock(d.ledger, "others", now=d.clock.now()):
                raise AssertionError

    assert run_until_crash(left) is not None
    run(later, start_s=60)


@pytest.mark.slow
def test_who_follows_one_is_told_once_that_it_stands_still(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with desk(tmp_path) as d, AsyncExitStack() as opened:
            first = await opened.enter_async_context(d.orchestrator())
            await first.submit(numbers(1), endpoint=ENDPOINT, name="captions")
            assert first._session is not None
            assert first._session._engine is not None
            async with d.orchestrator():
                await anyio.sleep(180)  # by then nothing is said of the run any more
                assert "no sign of life" not in caplog.text
                first._session._engine.process.heart.beaten_at = d.clock.now() + 3_600_000_000  # it says nothing more
                await anyio.sleep(300)
                told = [line for line in caplog.messages if "no sign of life for 3" in line]
                assert len(told) == 1

    run(main)
