"""The verb `run` on a ledger that several share: it serves its own part, where nobody else is there for it."""

import re
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.hosting.lacks_elsewhere import LOOK_S
from orchestrator.api.runs.start_and_stop_texts import say_saved_elsewhere
from orchestrator.clock import SystemClock
from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.outputs.save_rules import parse_save
from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.shard_bids import KEEPERS, SETTLED_US
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.postgres.connection import LineBounds, Settings
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import Pinned
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.api.hosting.site import JOBS, ONE, OTHER, PATIENCE_S, SOON_S, THIRD, Site
from tests.engine.process import Heard
from tests.postgres.ledgers import waited_for
from tests.postgres.owners import declares_dead, takes

TOLD = "https://ops.test/hook"
GONE = Pinned(ref="/nowhere/check.py:is_good", sha256="0" * 64)

MOVES_S = SETTLED_US / SECOND_US + LOOK_S + SOON_S
"""How soon whoever comes has what others do not mean to keep."""

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def frozen_owner(site: Site) -> Any:
    """The connection of a process that owns all there is, and beats no more."""
    frozen = ProcessName("a frozen one", " #f")
    driver = await waited_for(site.url)({"application_name": connection_name(frozen.name, frozen.mark)}, LineBounds())
    await takes(driver, frozen)
    return driver


@pytest.mark.slow
async def test_two_on_two_machines_send_at_their_own_endpoints_at_once_and_leave_nothing(site: Site) -> None:
    async with site.running("a", ONE) as one, site.running("b", OTHER) as other:
        with anyio.fail_after(PATIENCE_S):
            await one.ended.wait()
            await other.ended.wait()
    assert [each.error for each in (one, other)] == [None, None]
    for each in (one, other):
        assert each.summary is not None
        assert each.summary.jobs["succeeded"] == JOBS
        assert each.summary.requests["run"] == JOBS
        assert not any("is handed to" in line or "served by" in line for line in each.heard.lines)
    assert (site.senders(ONE), site.senders(OTHER)) == (["a"], ["b"])
    first_s = {name: min(sent.at_s for sent in site.sent if sent.by == name) for name in "ab"}
    assert abs(first_s["a"] - first_s["b"]) < SOON_S
    assert set((await site.shards()).values()) == {None}
    assert site.service.paid == 2 * JOBS


@pytest.mark.slow
async def test_where_somebody_serves_whatever_there_is_nothing_is_sent_from_here(site: Site) -> None:
    async with site.serving("s"):
        async with site.running("a", ONE) as running:
            await running.ended.wait()
        assert any("is handed to" in line for line in running.heard.lines)
        assert running.summary is not None
        assert running.summary.jobs["succeeded"] == JOBS
    assert site.senders(ONE) == ["s"]


@pytest.mark.slow
async def test_it_is_said_once_where_others_write_files_of_outputs(site: Site) -> None:
    here = parse_save(f"output.image={site.folder}/out/{{custom_id}}.png")
    async with site.serving("s"), site.running("a", ONE, save=(here,)) as running:
        await running.ended.wait()
    [said] = [line for line in running.heard.warnings if "writes files below" in line]
    assert f"below {site.folder}/out of its own, at first process" in said
    assert "Save to a store (--save MEMBER=s3://BUCKET/...)" in said
    async with site.running("b", OTHER, save=(here,)) as alone:
        await alone.ended.wait()
    assert alone.heard.warnings == []


def test_nothing_is_said_of_outputs_that_become_objects() -> None:
    heard = Heard()
    settings = RunSettings(save=(parse_save("output.image=s3://b/{custom_id}.png"),))
    say_saved_elsewhere(heard, "a", settings, "process 71 on one (serve)")
    assert heard.warnings == []


@pytest.mark.slow
async def test_who_comes_to_serve_has_all_but_the_shard_of_the_run_and_that_too_once_it_is_stopped(site: Site) -> None:
    async with site.running("a", ONE, jobs=60) as running:
        await site.until_sent(5)
        async with site.ledger() as ledger:
            [own] = await ledger.runs.all()
        other = await site.run_at(OTHER)
        await site.until(other, State.SUCCEEDED, 2)
        assert site.senders(OTHER) == ["a"]
        third = await site.run_at(THIRD, jobs=30)
        await site.until(third, State.SUCCEEDED, 2)
        async with site.serving("s"):
            await site.until_owned(KEEPERS, "s", within_s=MOVES_S)
            await site.until(third, State.SUCCEEDED, 20)
            owners = await site.shards()
            assert (owners[0], owners[own.endpoint_id], owners[third.endpoint_id]) == ("s", "a", "s")
            running.stop.set()
            await running.ended.wait()
            await site.until(own, State.SUCCEEDED, 60)
    assert site.senders(ONE) == ["a", "s"]
    assert site.senders(THIRD) == ["a", "s"]
    assert site.service.paid == 60 + JOBS + 30


@pytest.mark.slow
@pytest.mark.parametrize("servers", [(), ("s",)], ids=["by itself", "by another machine"])
async def test_it_says_how_the_rest_will_go_once_the_rows_are_back_that_went_first(
    site: Site, servers: Sequence[str]
) -> None:
    async with site.serving(*servers), site.running("a", ONE, jobs=40, canary=Canary(5), queue_depth=5) as running:
        await running.ended.wait()
    [told] = [line for line in running.heard.lines if line.startswith("run-a: the rest: ")]
    assert "jobs in about" in told
    assert site.senders(ONE) == [*(servers or "a")]


async def test_it_goes_on_itself_once_nobody_serves_any_more(site: Site) -> None:
    async with site.serving("s") as [server], site.running("a", ONE, jobs=40) as running:
        await site.until_sent(5)
        server.stop.set()
        await running.ended.wait()
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == 40
    assert "nobody serves this ledger any more: this process goes on with its run" in running.heard.lines
    assert site.senders(ONE) == ["s", "a"]
    assert site.service.paid == 40


async def test_who_leaves_one_that_others_serve_is_told_nothing_of_results_that_expire(site: Site) -> None:
    async with site.serving("s"), site.running("a", ONE, jobs=80) as running:
        with anyio.fail_after(PATIENCE_S):
            while not any("is handed to" in line for line in running.heard.lines):  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)
        await anyio.sleep(0.2)
        running.stop.set()
        await running.ended.wait()
        assert running.summary is not None
        assert (running.summary.interrupted, running.summary.safe_offline_s) == (True, None)
        assert running.summary.jobs.get("succeeded", 0) < 80


async def test_who_stops_it_hands_over_what_it_has_and_whoever_wants_to_hear_of_it_is_told(site: Site) -> None:
    async with site.running("a", ONE, jobs=40, notify=TOLD) as running:
        await site.until_sent(5)
        running.stop.set()
        await running.ended.wait()
    assert running.summary is not None
    assert running.summary.interrupted
    assert set((await site.shards()).values()) == {None}
    assert [told["type"] for told in site.told] == ["run.interrupted"]


@pytest.mark.slow
async def test_whoever_wants_to_hear_of_it_is_told_of_its_end_before_it_ends(site: Site) -> None:
    async with site.running("a", ONE, notify=TOLD) as running:
        await running.ended.wait()
    assert [told["type"] for told in site.told] == ["run.done"]


@pytest.mark.slow
async def test_whoever_hears_of_it_is_told_the_time_of_the_server_by_a_machine_whose_clock_is_wrong(site: Site) -> None:
    began_at, right = SystemClock().now(), site.clock

    def wall_ns() -> int:
        return 1_000 * (right.now() + HOUR_US)

    right.jump(began_at - right.now())
    site.clocks["a"] = SystemClock(wall_ns=wall_ns, monotonic_ns=wall_ns, elapsed=right.now)
    async with site.running("a", ONE, notify=TOLD) as running:
        await running.ended.wait()
    assert running.error is None
    [told_at] = site.told_at
    assert abs(told_at - began_at / SECOND_US) < 10 * MINUTE_US / SECOND_US


async def test_what_cannot_be_judged_here_is_refused_before_anything_is_sent(site: Site) -> None:
    async with site.running("a", ONE, check=GONE) as running:
        await running.ended.wait()
    assert isinstance(running.error, UsageError)
    assert "/nowhere/check.py" in running.error.message
    assert site.sent == []


@pytest.mark.slow
async def test_who_loses_its_share_as_it_tells_of_the_end_ends_with_a_summary_all_the_same(site: Site) -> None:
    site.heard_s = 50.0
    async with site.running("a", ONE, notify=TOLD) as running:
        with anyio.fail_after(PATIENCE_S):
            while not site.told:  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)
        driver = await waited_for(site.url)({}, LineBounds())
        await declares_dead(driver)
        driver.terminate()
        lost_s = anyio.current_time()
        await running.ended.wait()
    assert running.error is None
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == JOBS
    assert anyio.current_time() - lost_s < 2 * SOON_S
    assert site.service.paid == JOBS


@pytest.mark.slow
async def test_it_goes_on_itself_where_who_serves_is_connected_and_beats_no_more(site: Site) -> None:
    driver = await frozen_owner(site)
    began_s = anyio.current_time()
    async with site.running("a", ONE) as running:
        with anyio.fail_after(PATIENCE_S):
            await running.ended.wait()
    assert running.error is None
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == JOBS
    assert min(each.at_s for each in site.sent) - began_s < 2 * SILENCE_US / SECOND_US + SOON_S
    driver.terminate()


class SiteWithOutages(Site):
    """Machines in `away` reach the ledger no more."""

    away = frozenset[str]()
    lines: dict[str, list[Any]]

    def dependencies(self, name: str) -> Dependencies:
        async def connect(settings: Settings, bounds: LineBounds) -> Any:
            if name in self.away:
                raise ConnectionRefusedError("no way there")
            driver = await waited_for(self.url)(settings, bounds)
            self.lines.setdefault(name, []).append(driver)
            return driver

        return replace(super().dependencies(name), connect=lambda _: connect)

    def cut_off_from_ledger(self, *names: str) -> None:
        """So are these from now on."""
        self.away = frozenset(names)
        for name in names:
            for driver in self.lines.pop(name, []):
                driver.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("is_connected", [False, True])
async def test_who_comes_back_to_the_ledger_before_who_serves_it_waits_for_that_one(
    site: Site, is_connected: bool
) -> None:
    site.__class__ = SiteWithOutages
    assert isinstance(site, SiteWithOutages)
    site.lines = {}
    async with site.serving("s") as [server], site.running("a", ONE, jobs=30) as running:
        await site.until_sent(5)
        is_told = {"application_name": connection_name("s", " #s")}
        left_over = await waited_for(site.url)(is_told if is_connected else {}, LineBounds())
        site.cut_off_from_ledger("a", "s")
        await anyio.sleep(10)
        site.away = frozenset("s")
        with anyio.fail_after(PATIENCE_S):
            while not site.lines.get("a"):  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)
        await anyio.sleep(SOON_S)
        site.away = frozenset()
        await running.ended.wait()
        server.heard.warnings.clear()
        left_over.terminate()
    assert running.error is None
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == 30
    assert not any("nobody serves this ledger any more" in line for line in running.heard.lines)
    assert site.senders(ONE) == ["s"]


async def test_a_function_of_somebody_s_is_run_where_nobody_else_serves_the_ledger(site: Site) -> None:
    file = site.folder / "own.py"
    file.write_text("def same(job):\n    return job['input']\n")
    with anyio.fail_after(PATIENCE_S):
        async with site.running("a", f"local:{file}:same") as running:
            await running.ended.wait()
    assert running.error is None
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == JOBS
    assert site.sent == []


async def test_a_function_of_somebody_s_is_not_run_where_others_serve_the_ledger(site: Site) -> None:
    file = site.folder / "own.py"
    file.write_text("def same(job):\n    return job['input']\n")
    async with site.serving("s"):
        await site.until_owned(KEEPERS, "s")
        with anyio.fail_after(SOON_S):
            async with site.running("a", f"local:{file}:same") as running:
                await running.ended.wait()
        assert isinstance(running.error, LedgerBusyError)
        assert re.search(
            rf" \(serve\) since .* works on this ledger, and cannot run local:{file}:same of run-a for this one;"
            " wait for it, stop it, or use another",
            running.error.message,
        )
        async with site.ledger() as ledger:
            assert not any(run.accepted for run in await ledger.runs.all())
    assert site.sent == []


async def test_a_run_goes_on_with_what_was_asked_to_be_queued_again_of_one_that_died(site: Site) -> None:
    site.is_failing = True
    async with site.running("a", ONE, max_attempts=1) as running:
        await running.ended.wait()
    site.is_failing = False
    driver = await frozen_owner(site)
    async with site.ledger() as ledger:
        run = await ledger.runs.named("run-a")
        assert run is not None
        await ledger.commands.ask(Action.RETRY, run=run.id)
    async with site.running("a", ONE, max_attempts=1) as running:
        await running.ended.wait()
    assert running.summary is not None
    assert running.summary.jobs["succeeded"] == JOBS
    driver.terminate()
