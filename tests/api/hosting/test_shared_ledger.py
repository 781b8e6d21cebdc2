"""Several processes serve one ledger on a server: each has a part of it, and what changes hands is sent once."""

from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from anyio.abc import TaskStatus

from orchestrator.api.admin.process_stop import stop
from orchestrator.api.foreground.serve import serve
from orchestrator.api.hosting.shard_news import UNKNOWN_US
from orchestrator.api.runs.process_commands import control, retry
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.lease import GONE_US, PROCESSES_MAX
from orchestrator.core.ownership.service_reach import UNREACHED_US
from orchestrator.core.ownership.shard_bids import LET_GO_US
from orchestrator.errors import LedgerRetiredError, LedgerVersionError, UsageError
from orchestrator.ledger.database import Company
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import LeaseRow, Leases
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.processes.tenure import tenure_of
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.schema.retirement import retire, take_back
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import ControlAction, RetryChoice
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.api.hosting.site import JOBS, ONE, OTHER, PATIENCE_S, SOON_S, THIRD, Site
from tests.engine.process import Heard
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.owners import declares_dead, joins

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_each_has_a_part_and_sends_there_alone(site: Site) -> None:
    first, second = await site.run_at(ONE), await site.run_at(OTHER)
    async with site.serving("a", "b"):
        await site.until(first, State.SUCCEEDED)
        await site.until(second, State.SUCCEEDED)
        assert {site.senders(ONE)[0], site.senders(OTHER)[0]} == {"a", "b"}
        assert [len(site.senders(each)) for each in (ONE, OTHER)] == [1, 1]
        await anyio.sleep(LET_GO_US / SECOND_US + SOON_S)
        owners = await site.shards()
        assert (owners.pop(0) in {"a", "b"}, owners) == (True, {first.endpoint_id: None, second.endpoint_id: None})
    assert set((await site.shards()).values()) == {None}
    assert site.service.paid == 2 * JOBS


@pytest.mark.slow
async def test_who_is_asked_to_stop_hands_over_and_nobody_waits(site: Site) -> None:
    first, second = await site.run_at(ONE, jobs=40), await site.run_at(OTHER, jobs=40)
    async with site.serving("a", "b") as machines:
        await site.until(first, State.SUCCEEDED, 5)
        await site.until(second, State.SUCCEEDED, 5)
        stopped_s = anyio.current_time()
        [stops] = [each for each in machines if each.name == site.senders(ONE)[-1]]
        stops.stop.set()
        await site.until(first, State.SUCCEEDED, 40)
        await site.until(second, State.SUCCEEDED, 40)
        [goes_on] = [each for each in machines if each is not stops]
        assert site.senders(ONE) == [stops.name, goes_on.name]
        assert min(s.at_s for s in site.sent if (s.endpoint, s.by) == (ONE, goes_on.name)) - stopped_s < SOON_S
        assert f"{ONE}: served by this process" in goes_on.heard.lines
    assert site.service.paid == 80


@pytest.mark.slow
async def test_a_run_that_comes_to_have_an_endpoint_of_another_one_is_served_by_one_of_them(site: Site) -> None:
    failing, site.is_failing = await site.run_at(ONE, RunSettings(max_attempts=1)), True
    async with site.serving("a", "b"):
        await site.until(failing, State.FAILED)
        site.is_failing = False
        busy = await site.run_at(OTHER, jobs=60)
        await site.until(busy, State.SUCCEEDED, 2)
        assert site.senders(ONE) != site.senders(OTHER)
        asked = partial(
            retry,
            parse_ledger_url(site.url),
            failing.name,
            site.dependencies("people"),
            chosen=RetryChoice(endpoint=OTHER),
        )
        with pytest.raises(UsageError, match="is asked to let it be served together"):
            await asked()
        assert OTHER not in {each.endpoint for each in site.sent if each.by == site.senders(ONE)[0]}
        await anyio.sleep(15)
        await asked()
        await site.until(failing, State.SUCCEEDED)
        await site.until(busy, State.SUCCEEDED, 60)
        assert list(await site.shards()) == [0, 1]
        assert site.senders(OTHER) == [*site.senders(OTHER)[:1], site.senders(ONE)[0]]
    assert site.service.paid == 60 + 2 * JOBS


@pytest.mark.slow
async def test_who_comes_gets_a_part_in_which_something_is_to_be_done(site: Site) -> None:
    """One that rests goes to nobody: it would make nothing even, and whoever had asked for it asked for nothing else."""
    busy = [await site.run_at(each, jobs=100) for each in (ONE, OTHER)]
    short = await site.run_at(THIRD)
    async with site.serving("b"):
        await site.until(short, State.SUCCEEDED)
        async with site.serving("a"):
            with anyio.fail_after(LET_GO_US / SECOND_US):
                while "a" not in map((await site.shards()).get, (run.endpoint_id for run in busy)):  # noqa: ASYNC110
                    await anyio.sleep(0.25)


@pytest.mark.slow
async def test_an_endpoint_at_which_nobody_has_worked_is_served_at_once_with_its_run(site: Site) -> None:
    failing, site.is_failing = await site.run_at(ONE, RunSettings(max_attempts=1)), True
    async with site.serving("a", "b"):
        await site.until(failing, State.FAILED)
        site.is_failing = False
        await retry(
            parse_ledger_url(site.url), failing.name, site.dependencies("people"), chosen=RetryChoice(endpoint=THIRD)
        )
        await site.until(failing, State.SUCCEEDED)
        assert site.senders(THIRD) == site.senders(ONE)
        assert list(await site.shards()) == [0, 1]


async def test_all_end_once_somebody_asks_for_that_also_one_that_has_nothing(site: Site) -> None:
    async with site.serving("a", "b") as machines:
        await anyio.sleep(SOON_S)
        assert len(set((await site.shards()).values())) == 1, "there is the keeper's alone"
        with anyio.fail_after(PATIENCE_S):
            stopped = await stop(parse_ledger_url(site.url), None, site.dependencies("people"))
            for machine in machines:
                await machine.ended.wait()
        assert (stopped.ended, stopped.outcome, [each.ended for each in stopped.processes]) == (
            True,
            "it stops",
            [True] * 2,
        )
        assert all(any("asks this process to stop" in line for line in each.heard.lines) for each in machines)


@pytest.mark.slow
async def test_what_people_ask_is_done_within_a_second_by_whoever_has_the_run(site: Site) -> None:
    runs = [await site.run_at(each, jobs=40) for each in (ONE, OTHER)]
    ledger, people = parse_ledger_url(site.url), site.dependencies("people")
    async with site.serving("a", "b", "c") as machines:
        for run in runs:
            await site.until(run, State.SUCCEEDED, 2)
        for action in (ControlAction.PAUSE, ControlAction.CONTINUE, ControlAction.CANCEL):
            for run in runs:
                began_s = anyio.current_time()
                done = await control(ledger, run.name, action, people)
                assert done.outcome is not None
                assert anyio.current_time() - began_s < 1
        for run in runs:
            await site.until(run, State.CANCELLED, 1)
        await anyio.sleep(LET_GO_US / SECOND_US + 30)
        assert set((await site.shards()).values()) - {None} == {(await site.shards())[0]}, "nothing is to be done"
        await control(ledger, runs[0].name, ControlAction.CONTINUE, people)
        await anyio.sleep(LET_GO_US / SECOND_US + 30)
        assert (await site.shards())[runs[0].endpoint_id] is None
        began_s = anyio.current_time()
        await retry(ledger, runs[0].name, people)
        assert anyio.current_time() - began_s < 1
        await site.until(runs[0], State.SUCCEEDED, 40)
        for machine in machines:  # which say that runs were paused
            machine.heard.warnings.clear()


@pytest.mark.slow
async def test_beside_one_that_has_the_whole_ledger_all_stand_by_until_it_is_gone(site: Site) -> None:
    run = await site.run_at(ONE)
    name = str(parse_ledger_url(site.url))
    async with AsyncExitStack() as alone:
        await alone.enter_async_context(
            tenure_of(name, waited_for(site.url), ProcessName("a program", " #x"), here=on_virtual_time(mark=" #x"))
        )
        async with site.serving("a", "b") as machines:
            await anyio.sleep(10)
            assert site.sent == []
            for machine in machines:
                [said] = machine.heard.lines
                assert said.startswith("stands by: a program since")
            await alone.aclose()
            await site.until(run, State.SUCCEEDED)
            for machine in machines:
                assert machine.heard.lines[1] == f"serving {name}; stop with Ctrl-C"
    assert site.service.paid >= JOBS


@pytest.mark.slow
async def test_who_was_declared_dead_ends_all_and_joins_again_under_another_number(site: Site) -> None:
    run = await site.run_at(ONE, jobs=40)
    async with site.serving("a") as [machine]:
        await site.until(run, State.SUCCEEDED, 5)
        driver = await waited_for(site.url)({}, LineBounds())
        await declares_dead(driver)
        driver.terminate()
        await site.until(run, State.SUCCEEDED, 40)
        [warned] = machine.heard.warnings
        assert "another process has taken this ledger over; nothing more is sent from here" in warned
        machine.heard.warnings.clear()


@pytest.mark.slow
async def test_who_gets_no_answer_from_the_service_hands_over_and_stands_back(site: Site) -> None:
    first, second = await site.run_at(ONE, jobs=120), await site.run_at(OTHER, jobs=120)
    async with site.serving("a", "b") as machines:
        for run in (first, second):
            await site.until(run, State.SUCCEEDED, 5)
        [lost] = site.senders(ONE)
        [other] = {"a", "b"} - {lost}
        assert site.senders(OTHER) == [other]
        site.cut_off.add(lost)
        cut_off_s = anyio.current_time()
        while site.senders(ONE) != [lost, other]:  # noqa: ASYNC110  nobody tells
            await anyio.sleep(1)
        assert UNREACHED_US / SECOND_US < anyio.current_time() - cut_off_s < UNREACHED_US / SECOND_US + 15
        await site.until(first, State.SUCCEEDED, 120)
        await site.until(second, State.SUCCEEDED, 120)
        assert (site.senders(ONE), site.senders(OTHER)) == ([lost, other], [other]), "it asks for nothing"
        [machine] = [each for each in machines if each.name == lost]
        assert f"{ONE}: no answer for 30 s; another process goes on there" in machine.heard.warnings
        machine.heard.warnings.clear()
    assert site.service.paid == 240


@pytest.mark.slow
async def test_where_nobody_gets_an_answer_it_is_handed_over_once_to_each(site: Site) -> None:
    run = await site.run_at(ONE, jobs=40)
    async with site.serving("a", "b") as machines:
        await site.until(run, State.SUCCEEDED, 5)
        site.cut_off |= {"a", "b"}
        owners = list[str | None]()
        for _ in range(200):
            await anyio.sleep(1)
            owner = (await site.shards())[run.endpoint_id]
            if owner is not None and owners[-1:] != [owner]:
                owners.append(owner)
        assert set(owners[:2]) == {"a", "b"}
        assert len(owners) <= 3
        site.cut_off.clear()
        await site.until(run, State.SUCCEEDED, 40)
        for machine in machines:
            assert sum("another process goes on there" in warning for warning in machine.heard.warnings) == 1
            machine.heard.warnings.clear()
    assert site.service.paid == 40


async def test_an_older_program_that_finds_a_newer_ones_tables_ends_and_says_so(site: Site) -> None:
    driver = await waited_for(site.url)({}, LineBounds())

    async def upgrade() -> None:
        await anyio.sleep(SOON_S)
        assert await site.shards() == {0: "a"}
        await driver.execute("UPDATE leases SET owner = NULL; UPDATE alembic_version SET version_num = '9999'")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(upgrade)
        with pytest.raises(LedgerVersionError, match="upgrade the program"), anyio.fail_after(PATIENCE_S):
            await serve(site.request(), Heard(), site.dependencies("a"))
    await driver.execute("UPDATE alembic_version SET version_num = $1", SCHEMA_VERSION)  # others use this database, too
    driver.terminate()


async def test_one_that_comes_while_its_ledger_is_copied_elsewhere_ends_and_says_where_that_goes_on(site: Site) -> None:
    here = on_virtual_time(mark=" #9")
    place = ServerSite(parse_ledger_url(site.url), connect=waited_for(site.url), here=here)

    async def copy(*, task_status: TaskStatus[None]) -> None:
        async with place.holding(now=0, doing="ledger copy"):
            task_status.started()
            await anyio.sleep(SOON_S)
            async with place.database.writing(Company.FOR_LONG) as connection:
                await retire(connection, copied_to="/back.db", at=1)

    async with anyio.create_task_group() as tasks:
        await tasks.start(copy)
        with pytest.raises(LedgerRetiredError) as ended, anyio.fail_after(PATIENCE_S):
            await serve(site.request(), Heard(), site.dependencies("a"))
    assert str(ended.value).startswith(f"{site.url}: this ledger was copied to /back.db, and goes on there; name that")
    assert ended.value.copied_to == "/back.db"
    async with place.database.writing() as connection:  # others use this database, too
        await take_back(connection)
    await place.aclose()


@pytest.mark.slow
async def test_each_shard_is_given_as_its_engine_ends_though_another_one_takes_longer(site: Site) -> None:
    runs = [await site.run_at(each, jobs=40) for each in (ONE, OTHER)]
    async with site.serving("a") as [machine]:
        for run in runs:
            await site.until(run, State.SUCCEEDED, 2)
        site.held_up.add(OTHER)
        await anyio.sleep(1)
        machine.stop.set()
        with anyio.fail_after(SOON_S):
            while (await site.shards())[runs[0].endpoint_id] is not None:  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)
        assert (await site.shards())[runs[1].endpoint_id] == "a"
        assert not machine.ended.is_set()


async def test_who_cannot_find_out_for_a_while_who_has_what_says_why_once(site: Site) -> None:
    async with site.serving("a") as [machine]:
        await anyio.sleep(SOON_S)
        site.cut_owners_lines()
        await anyio.sleep(UNKNOWN_US / SECOND_US - 1)
        assert machine.heard.warnings == []
        await anyio.sleep(2 * UNKNOWN_US / SECOND_US)
        site.are_lines_cut = False
        await anyio.sleep(SOON_S)
        [warned] = machine.heard.warnings
        assert "it cannot be found out who serves which part" in warned
        assert "cannot reach the ledger (no way there)" in warned
        machine.heard.warnings.clear()


@pytest.mark.slow
async def test_what_the_dead_have_left_is_looked_after_once_though_nothing_more_is_to_be_done_there(site: Site) -> None:
    run = await site.run_at(ONE)
    async with AsyncExitStack() as stack:
        driver = await waited_for(site.url)({}, LineBounds())
        stack.callback(driver.terminate)

        async def lease() -> LeaseRow:
            return next(each for each in (await Leases(driver).sighting()).leases if each.shard == run.endpoint_id)

        async with site.serving("a"):
            await site.until(run, State.SUCCEEDED)
            await anyio.sleep(LET_GO_US / SECOND_US + SOON_S)
            assert (await lease()).owner is None
            dead = await joins(driver, ProcessName("one that dies", " #dead"))
            assert [each.shard for each in await Leases(driver).take(dead, [run.endpoint_id])] == [run.endpoint_id]
            await anyio.sleep(SILENCE_US / SECOND_US + SOON_S)
            assert (await site.shards())[run.endpoint_id] == "a"
            await anyio.sleep((GONE_US + LET_GO_US) / SECOND_US + SOON_S)
            given = await lease()
            assert (given.owner, given.left_at) == (None, None)
            await anyio.sleep(GONE_US / SECOND_US)
            assert await lease() == given, "once is enough"


@pytest.mark.slow
async def test_where_there_is_no_room_whoever_comes_serves_once_the_dead_are_known_or_is_stopped(site: Site) -> None:
    driver = await waited_for(site.url)({}, LineBounds())
    for _ in range(PROCESSES_MAX):
        await joins(driver, ProcessName("one that is dead", " #dead"))
    driver.terminate()
    began_s = anyio.current_time()
    async with site.serving("b") as [stopped]:
        await anyio.sleep(1)
    assert stopped.ended.is_set()
    assert anyio.current_time() - began_s < SOON_S
    run = await site.run_at(ONE)
    async with site.serving("a"):
        await site.until(run, State.SUCCEEDED)
    assert site.senders(ONE) == ["a"]
