"""Whoever shares a ledger and cannot reach it as it joins again waits for it."""

from typing import Any

import anyio
import pytest

from orchestrator.api.foreground.serve import serve
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.postgres.connection import LineBounds
from tests.api.hosting.site import ONE, SOON_S, Site
from tests.engine.process import Heard
from tests.postgres.ledgers import waited_for

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WAITS = "It is tried again; until then nothing is served here"
AWAY_S = 5.0
DEAD = "UPDATE leases SET owner = NULL, left_at = taken_at; DELETE FROM processes"
"""All are dead, and their connections are there still: they find out at once."""


@pytest.mark.slow
async def test_who_was_declared_dead_joins_again_once_the_ledger_can_be_reached(site: Site) -> None:
    run = await site.run_at(ONE, jobs=40)
    driver = await waited_for(site.url)({}, LineBounds())
    async with site.serving("a") as [machine]:
        await site.until(run, State.SUCCEEDED, 5)
        site.are_lines_cut = True  # those that are there remain
        await driver.execute(DEAD)
        await anyio.sleep(AWAY_S)
        site.are_lines_cut = False
        await site.until(run, State.SUCCEEDED, 40)
        assert [WAITS in warning for warning in machine.heard.warnings] == [False, True], machine.heard.warnings
        machine.heard.warnings.clear()
    driver.terminate()


async def test_who_waits_to_join_again_ends_when_it_is_asked_to(site: Site) -> None:
    driver = await waited_for(site.url)({}, LineBounds())
    async with site.serving("a") as [machine]:
        await anyio.sleep(2)
        site.are_lines_cut = True
        await driver.execute(DEAD)
        await anyio.sleep(AWAY_S)
        machine.stop.set()
        with anyio.fail_after(1):
            await machine.ended.wait()
        machine.heard.warnings.clear()
    driver.terminate()


@pytest.mark.slow
async def test_a_run_that_cannot_join_follows_until_it_can(site: Site) -> None:
    async with site.serving("s") as [server], site.running("a", ONE, jobs=40) as running:
        await site.until_sent(5)
        site.are_lines_cut = True
        server.stop.set()
        await server.ended.wait()
        await anyio.sleep(AWAY_S)
        assert not running.ended.is_set()
        site.are_lines_cut = False
        await running.ended.wait()
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == 40
    assert site.senders(ONE) == ["s", "a"]
    assert sum(WAITS in warning for warning in running.heard.warnings) == 1


async def test_who_joins_for_the_first_time_is_told_at_once_that_it_cannot(site: Site) -> None:
    site.are_lines_cut = True
    with pytest.raises(LedgerUnavailableError, match="cannot reach the ledger"), anyio.fail_after(SOON_S):
        await serve(site.request(), Heard(), site.dependencies("a"))


async def test_what_is_cut_between_two_words_is_a_ledger_that_cannot_be_used_just_now(site: Site) -> None:
    def close(driver: Any) -> None:
        driver.terminate()

    site.on_owners_line = close
    with pytest.raises(LedgerUnavailableError, match="the connection to its server was lost"):
        await serve(site.request(), Heard(), site.dependencies("a"))
