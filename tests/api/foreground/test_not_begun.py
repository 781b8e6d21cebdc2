"""A stop that comes before the run has begun, while a store says nothing."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.foreground.run import run, unless_stopped
from orchestrator.api.planning.plan import plan
from orchestrator.errors import NotBegunError, UsageError
from orchestrator.settings.command_requests import PlanRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from tests.stores.web_server import WebObject, serving

pytestmark = pytest.mark.anyio


def asked_for(folder: Path, url: str) -> RunRequest:
    return RunRequest(
        name="n",
        source=url,
        endpoint="ep",
        ledger=folder / "l.db",
        connection=ConnectionSettings(),
        settings=RunSettings(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["run", "plan"])
async def test_it_is_heard_while_a_store_is_asked_and_leaves_nothing(tmp_path: Path, verb: str) -> None:
    stop = anyio.Event()

    async def asked(url: str) -> Any:
        request = asked_for(tmp_path, url)
        await (run(request, stop=stop) if verb == "run" else plan(PlanRequest(run=request), stop=stop))

    with serving(WebObject(b"", silent_after=[-1, -1])) as served:
        async with anyio.create_task_group() as tasks:

            async def stop_once_asked() -> None:
                await anyio.to_thread.run_sync(served.stalled.wait)
                stop.set()

            tasks.start_soon(stop_once_asked)
            with pytest.raises(NotBegunError):
                await asked(served.url)
    assert [path async for path in anyio.Path(tmp_path).iterdir()] == []


async def test_what_is_refused_meanwhile_is_raised_as_it_is_and_what_is_done_goes_on() -> None:
    stop = anyio.Event()
    with pytest.raises(UsageError, match="no such file"):
        async with unless_stopped(stop):
            raise UsageError("no such file")
    for each in (stop, None):
        async with unless_stopped(each):
            await anyio.lowlevel.checkpoint()
    stop.set()
    with pytest.raises(NotBegunError):
        async with unless_stopped(stop):
            await anyio.sleep_forever()
