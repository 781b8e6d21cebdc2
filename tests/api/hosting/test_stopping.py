"""Who is asked to stop and shares a ledger leaves to the others at once whatever it does not work at any more."""

import anyio
import pytest

from orchestrator.api.admin.process_stop import ProcessEnd, stop
from orchestrator.api.hosting.host import host_of
from orchestrator.api.hosting.shared_host import serve_shared
from orchestrator.api.hosting.shared_ledger import SharedLedger
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.commands.command_types import OF_ANOTHER
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.api.hosting.site import ONE, OTHER, SOON_S, Site
from tests.engine.process import Heard
from tests.postgres.ledgers import waited_for
from tests.postgres.owners import joins

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.slow
async def test_what_it_has_asked_for_is_anybodys_before_its_engines_have_ended(site: Site) -> None:
    busy, other = await site.run_at(ONE, jobs=40), await site.run_at(OTHER)
    driver = await waited_for(site.url)({}, LineBounds())
    leases, beside = Leases(driver), await joins(driver, ProcessName("another one", " #b"))
    await leases.sighting()
    [taken] = await leases.take(beside, [other.endpoint_id])
    async with site.serving("a") as [machine]:
        await site.until(busy, State.SUCCEEDED, 2)
        site.held_up.add(ONE)
        await anyio.sleep(1)
        await driver.execute(
            "UPDATE leases SET wanted_by = (SELECT owner FROM leases WHERE shard = 0) WHERE shard = $1", taken.shard
        )
        machine.stop.set()
        await anyio.sleep(0.1)
        assert await leases.give(beside, taken, is_settled=True)
        assert [each.shard for each in await leases.take(beside, [taken.shard])] == [taken.shard]
        assert not machine.ended.is_set()
    driver.terminate()


async def test_what_was_asked_of_those_that_are_dead_ends_none_that_comes_later(site: Site) -> None:
    driver = await waited_for(site.url)({}, LineBounds())
    await joins(driver, ProcessName("one that was killed", " #b"))
    stopped = await stop(parse_ledger_url(site.url), None, site.dependencies("people"), within_s=0.2)
    assert (stopped.ended, stopped.outcome) == (False, None)
    async with site.ledger() as ledger:
        [asked] = await ledger.commands.pending()
        async with site.serving("a") as [machine]:
            await anyio.sleep(10)
            assert not machine.ended.is_set()
            assert (await site.shards())[0] == "a"
            assert (await ledger.commands.one(asked.id)).outcome == OF_ANOTHER.text
            stopped = await stop(parse_ledger_url(site.url), None, site.dependencies("people"))
            assert (stopped.ended, stopped.outcome) == (True, "it stops")
    driver.terminate()


async def test_one_that_is_dead_has_ended_and_one_that_is_frozen_has_not(site: Site) -> None:
    dead, frozen = ProcessName("a dead one", " #d"), ProcessName("a frozen one", " #f")
    is_told = {"application_name": connection_name(frozen.name, frozen.mark)}
    drivers = [await waited_for(site.url)(settings, LineBounds()) for settings in ({}, is_told)]
    for driver, name in zip(drivers, (dead, frozen), strict=True):
        await joins(driver, name)
    ledger, people = parse_ledger_url(site.url), site.dependencies("people")
    stopped = await stop(ledger, dead.name, people)
    assert stopped.processes == (ProcessEnd(process=dead.name, ended=True, was_gone=True),)
    stopped = await stop(ledger, None, people)
    assert [(each.ended, each.was_gone) for each in stopped.processes] == [(True, True), (False, False)]
    assert not stopped.ended

    async def beat_once() -> None:
        await anyio.sleep(1)
        await drivers[0].execute("UPDATE processes SET beat = beat + 1 WHERE mark = $1", dead.mark)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat_once)
        stopped = await stop(ledger, dead.name, people)
    assert stopped.processes == (ProcessEnd(process=dead.name, ended=True),), "it has died since it was asked"
    for driver in drivers:
        driver.terminate()


@pytest.mark.slow
async def test_one_whose_engine_has_just_ended_is_given_before_the_others_have(site: Site) -> None:
    busy, other = await site.run_at(ONE, jobs=40), await site.run_at(OTHER, jobs=40)
    driver = await waited_for(site.url)({}, LineBounds())
    host = host_of(site.request(), Heard(), site.dependencies("a"), None, doing="serving")
    found: list[SharedLedger] = []

    def at_work(shared: SharedLedger | None) -> None:
        found.extend([] if shared is None else [shared])

    async def serve() -> None:
        await serve_shared(host, at_work=at_work)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        for run in (busy, other):
            await site.until(run, State.SUCCEEDED, 2)
        site.held_up.add(ONE)
        await anyio.sleep(1)
        [shared] = found
        engine = shared._engines[other.endpoint_id]
        engine.end()
        while not engine.has_ended:  # noqa: ASYNC110  nobody tells
            await anyio.sleep(0.001)
        assert (await site.shards())[other.endpoint_id] == "a"
        host.stop.set()
        await anyio.sleep(SOON_S)
        assert await site.shards() == {0: None, busy.endpoint_id: "a", other.endpoint_id: None}
        site.held_up.clear()
    driver.terminate()
