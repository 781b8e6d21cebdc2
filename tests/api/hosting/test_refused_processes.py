"""Whoever is let in no more by the server ends and says so: it could serve nothing, and would be in nobody's list."""

import anyio
import pytest

from orchestrator.api.foreground.serve import serve
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import StorageError
from orchestrator.ledger.processes.refusal_watch import REFUSED_US
from orchestrator.units import SECOND_US
from tests.api.hosting.site import JOBS, ONE, SOON_S, Site
from tests.engine.process import Heard

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REFUSED_S = REFUSED_US / SECOND_US
REFUSAL = StorageError("the ledger: cannot reach it (password authentication failed); check the role, its password")


@pytest.mark.parametrize("which", [slice(None), slice(0, 1), slice(1, 2)], ids=["both", "beats", "looks"])
async def test_who_is_let_in_no_more_on_one_of_its_lines_ends_and_says_what_to_do(site: Site, which: slice) -> None:
    ended_s = 0.0

    async def change_password() -> None:
        nonlocal ended_s
        await anyio.sleep(SOON_S)
        site.refusal = REFUSAL
        site.cut_owners_lines(which)
        ended_s = anyio.current_time()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change_password)
        with pytest.raises(StorageError) as refused, anyio.fail_after(REFUSED_S + 3 * SOON_S):
            await serve(site.request(), Heard(), site.dependencies("a"))
    assert anyio.current_time() - ended_s >= REFUSED_S
    assert refused.value.exit_code == 3
    assert "check the role, its password. It has been so for 30 s: nothing more is sent" in str(refused.value)


async def test_who_is_let_in_no_more_for_some_seconds_goes_on(site: Site) -> None:
    """A standby that was promoted may not know the role yet."""
    run = await site.run_at(ONE)
    async with site.serving("a") as [machine]:
        await site.until(run, State.SUCCEEDED, 1)
        site.refusal = REFUSAL
        site.restart()
        await anyio.sleep(5)
        site.is_refusing = False
        await site.until(run, State.SUCCEEDED)
        assert "check the role, its password. Since" in machine.heard.warnings[0]
        machine.heard.warnings.clear()
    assert site.service.paid == JOBS


async def test_a_run_that_serves_itself_and_is_let_in_no_more_ends(site: Site) -> None:
    async with site.running("a", ONE, jobs=40) as running:
        await site.until_sent(5)
        site.refusal = REFUSAL
        site.cut_owners_lines()
        with anyio.fail_after(REFUSED_S + 3 * SOON_S):
            await running.ended.wait()
    assert isinstance(running.error, StorageError)
    assert "check the role, its password" in str(running.error)
