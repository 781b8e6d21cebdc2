"""Answers with 200 that say nothing of the job: pages in HTML, nothing at all, cut records, bare errors."""

from itertools import product
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import process
from tests.engine.scripted import (
    COMPLETED,
    GONE,
    IN_PROGRESS,
    WELL,
    Asked,
    Reply,
    Scripted,
    in_turn,
    numbered,
    says,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
PAGE = Reply(body=b"<html>We are back in a moment</html>")
PAGES = [PAGE, Reply(body=b""), Reply(body=b'{"error":"try again later"}'), Reply(body=b'{"id":"r-1"}')]
TORN = [
    b'{"id":"r-1","status":"COMPLETED","output":{"a":',
    b'{"id":"r-1","output":{"a":',
    b'{"id":"r-1","status":"COMPLETED","output":NaN}',
    b'{"id":"r-1","status":"COMPLETED","output":"\xff"}',
    b'{"id":"r-1","status":"COMPLETED","output":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]
MAINTENANCE_AT_S = 30.0
AT_ONCE = {0, 7, 9}
"""Of all combinations: each page, both lengths and both kinds of health are tried at each commit."""


def settings(retention_s: float, **more: object) -> RunSettings:
    return RunSettings(retention_us=round(retention_s * SECOND), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("raw", TORN)
async def test_a_torn_record_is_asked_for_until_the_retention_has_run_out_and_then_kept_and_tried_again(
    tmp_path: Path, raw: bytes
) -> None:
    transport = Scripted(status=Reply(body=raw))
    async with process(tmp_path / "db", transport, settings=settings(60, max_attempts=2)) as p:
        await p.begin()
        await p.until_event(lambda step: step.event is Event.RETRIED)
        times = transport.since_sent("status")
        assert times[-1] == pytest.approx(60.5, abs=0.6)
        assert any(49.9 <= at <= 50.1 for at in times), "the deadline"
        assert 10 < len(times) < 40
        await p.finish()
        [failure] = await p.failures()
        assert (failure.trouble, failure.output, failure.attempts) == ("invalid_output", raw, 2)
        story = await p.story()
        assert story[:3] == ["claimed", "accepted", "retried invalid_output"]
        assert story[3:] == ["claimed", "accepted", "abandoned invalid_output"]


async def test_of_a_torn_record_no_more_than_a_mebibyte_is_kept(tmp_path: Path) -> None:
    raw = b'{"status":"COMPLETED","output":"' + b"x" * (2 << 20)
    async with process(tmp_path / "db", Scripted(status=Reply(body=raw)), settings=settings(30, max_attempts=1)) as p:
        await p.begin()
        await p.finish()
        assert [failure.output for failure in await p.failures()] == [raw[: 1 << 20]]


@pytest.mark.parametrize("page", PAGES)
async def test_a_job_that_is_never_answered_for_has_expired_once_its_result_could_not_be_there_any_more(
    tmp_path: Path, page: Reply
) -> None:
    transport = Scripted(status=lambda _: COMPLETED if len(transport.of("run")) > 1 else page)
    async with process(tmp_path / "db", transport, settings=settings(60)) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1, "expired": 1, "no_news": len(transport.of("status")) - 1}
        assert await p.story() == ["claimed", "accepted", "retried expired", "claimed", "accepted", "completed"]
        first, second = (asked.at_s for asked in transport.of("run"))
        assert second - first == pytest.approx(60.5, abs=0.6)


async def test_a_job_that_is_never_answered_for_has_timed_out_at_its_ttl(tmp_path: Path) -> None:
    run_settings = settings(1800, max_attempts=1, policy=Policy(ttl_ms=20_000))
    async with process(tmp_path / "db", Scripted(status=PAGE), settings=run_settings) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert failure.trouble == "timed_out"
        assert "TTL" in (failure.message or "")


async def test_an_answer_that_is_no_news_extends_nothing(tmp_path: Path) -> None:
    transport = Scripted(status=PAGE)
    async with process(tmp_path / "db", transport, settings=settings(60)) as p:
        await p.start("dispatcher", "collector")
        await anyio.sleep(50)
        assert ((p.endpoint.outstanding.plan.deadlines.soonest() or 0) - p.clock.now()) / SECOND == pytest.approx(
            9.5, abs=0.7
        )


async def test_an_answer_that_cannot_be_decoded_and_heals_is_a_result(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(Reply(body=b"{"), Reply(body=b'{"status'), COMPLETED))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b'{"ok":1}']


@pytest.mark.parametrize(
    ("page", "for_s", "health"),
    [
        pytest.param(page, for_s, health, marks=[] if number in AT_ONCE else pytest.mark.slow)
        for number, (page, for_s, health) in enumerate(product(PAGES[:3], (40.0, 150.0), (PAGE, WELL)))
    ],
)
async def test_a_maintenance_that_answers_with_pages_costs_no_job_anything(
    tmp_path: Path, page: Reply, for_s: float, health: Reply
) -> None:
    back_at_s = MAINTENANCE_AT_S + for_s

    def during(reply: Reply, otherwise: Reply, asked: Asked) -> Reply:
        return reply if MAINTENANCE_AT_S <= asked.at_s < back_at_s else otherwise

    def status(asked: Asked) -> Reply:
        return during(page, IN_PROGRESS if asked.at_s < back_at_s + 1 else COMPLETED, asked)

    transport = Scripted(run=numbered(), status=status, health=lambda asked: during(health, WELL, asked))
    async with process(tmp_path / "db", transport, jobs=20, settings=settings(60, max_attempts=1)) as p:
        await p.begin()
        await p.finish()
        assert (await p.counts())["succeeded"] == 20
        assert len(transport.of("run")) == 20, "nothing is paid again"
        asked = [at for at in transport.times("status") if MAINTENANCE_AT_S <= at < back_at_s]
        assert len(asked) < 20 + for_s
        assert sum("no question is answered" in warning for warning in p.warnings) == 1


async def test_one_job_of_which_the_service_can_say_nothing_is_no_outage(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return PAGE if asked.remote_id == "r-1" else IN_PROGRESS if asked.at_s < 100 else COMPLETED

    transport = Scripted(run=numbered(), status=status)
    async with process(tmp_path / "db", transport, jobs=3, settings=settings(60)) as p:
        await p.begin()
        await p.finish()
        assert [failure.trouble for failure in await p.failures()] == ["expired"]
        assert not any("no question is answered" in warning for warning in p.warnings)


@pytest.mark.slow
async def test_nothing_is_sent_into_a_maintenance_where_even_the_health_is_a_page(tmp_path: Path) -> None:
    def during(otherwise: Reply) -> Reply:
        return PAGE if MAINTENANCE_AT_S <= anyio.current_time() < 120 else otherwise

    transport = Scripted(
        run=numbered(),
        status=lambda _: during(IN_PROGRESS if anyio.current_time() < 120 else COMPLETED),
        health=lambda _: during(WELL),
    )
    limits = {Operation.RUN: Limit(2, 1)}
    async with process(tmp_path / "db", transport, jobs=60, limits=limits) as p:
        await p.begin()
        await p.finish()
        sent = transport.times("run")
        assert sum(at < MAINTENANCE_AT_S for at in sent) > 20
        assert not [at for at in sent if MAINTENANCE_AT_S + 20 < at < 120]
        assert (await p.counts())["succeeded"] == len(sent) == 60


async def test_a_404_after_pages_still_means_what_it_says(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(PAGE, GONE, PAGE, GONE, COMPLETED))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert "retried lost" in await p.story()


async def test_the_record_of_a_finished_job_counts_at_any_time_before(tmp_path: Path) -> None:
    transport = Scripted(status=lambda asked: PAGE if asked.at_s < 57 else says("COMPLETED", output=7))
    async with process(tmp_path / "db", transport, settings=settings(60)) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b"7"]
        assert len(transport.of("run")) == 1
