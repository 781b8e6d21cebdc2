"""Jobs that go to `/openai/*`: the answer is the result, and one that never comes may have been paid."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.client.jobs.serverless import TIME_SCALE_HEADER
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.engine.lanes.direct_lanes import UNREADABLE
from orchestrator.formats.input.rows import Row
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.collecting.test_validation_pool import schema
from tests.engine.process import process
from tests.engine.rows import rows
from tests.engine.scripted import CUT, Asked, Reply, Scripted, gaps, in_turn
from tests.factories import S

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROUTE = "/v1/chat/completions"
ANSWER = {"choices": [{"text": "hello"}], "id": 12345678901234567890}
GOOD = Reply(body=json.dumps(ANSWER).encode(), after_s=2.0)
BROKEN = Reply(500, b'{"error":{"message":"CUDA out of memory"}}', after_s=1.0)
DIRECT = RunSettings(via=Via.OPENAI)


def requests(number: int) -> list[Row]:
    text = '{"openai_route":"/v1/chat/completions","openai_input":{"n":%d}}'
    return [replace(row, input=(text % row.line).encode()) for row in rows(number)]


async def test_the_answer_is_the_result_and_nothing_else_is_asked(tmp_path: Path) -> None:
    transport = Scripted(openai=GOOD)
    async with process(tmp_path / "db", transport, jobs=requests(3), settings=DIRECT, webhooks=True) as p:
        await p.begin()
        await p.finish()
        assert {asked.operation for asked in transport.asked} == {"openai"}
        assert {asked.remote_id for asked in transport.asked} == {ROUTE.removeprefix("/")}
        assert sorted(asked.body for asked in transport.asked) == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
        assert await p.story() == ["claimed", "completed"]
        found = (await p.results())[0]
        assert found.output == json.dumps(ANSWER, separators=(",", ":")).encode()
        assert (found.remote_id, found.execution_ms, found.attempts, found.paid_at_most) == (None, 2_000, 1, 1)
        assert p.endpoint.estimates.webhook_health.healthy  # none was missed: none was to come
        assert p.endpoint.estimates.durations.execution.p50_us is not None


async def test_where_the_service_runs_fast_an_execution_is_known_to_take_as_long_as_it_does_here(
    tmp_path: Path,
) -> None:
    fast = GOOD._replace(headers={TIME_SCALE_HEADER: "20"})
    async with process(tmp_path / "db", Scripted(openai=fast), jobs=requests(30), settings=DIRECT) as p:
        await p.begin()
        await p.finish()
        execution = p.endpoint.estimates.durations.execution
        assert 2_000_000 <= (execution.p50_us or 0) < 2_500_000, "by its own time that were 40 s"
    async with process(tmp_path / "db", Scripted(openai=fast), jobs=requests(30), settings=DIRECT) as p:
        await p.begin()
        execution = p.endpoint.estimates.durations.execution
        assert 2_000_000 <= (execution.p50_us or 0) < 2_500_000, "as the ledger tells the next process, too"


@pytest.mark.parametrize(
    ("first", "story"),
    [
        (BROKEN, "retried failed"),
        (Reply(body=b"<html>"), "retried invalid_output"),
        (Reply(429), "deferred throttled"),
        (Reply(503), "deferred server"),
    ],
)
async def test_what_came_to_nothing_is_asked_anew_in_the_same_way(tmp_path: Path, first: Reply, story: str) -> None:
    transport = Scripted(openai=in_turn(first, GOOD))
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=DIRECT) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", story, "claimed", "completed"]
        assert (await p.results())[0].paid_at_most == (1 if story.startswith("deferred") else 2)
        assert len(transport.of("openai")) == 2


@pytest.mark.parametrize(
    ("reply", "trouble", "message", "requests_sent"),
    [
        (BROKEN, "failed", "CUDA out of memory", 3),
        (Reply(body=b"<html>"), "invalid_output", UNREADABLE, 3),
        (Reply(400, b'{"error":"too long"}'), "rejected", "the service refused the job (400: too long)", 1),
    ],
)
async def test_at_the_end_it_has_failed_with_what_was_said(
    tmp_path: Path, reply: Reply, trouble: str, message: str, requests_sent: int
) -> None:
    transport = Scripted(openai=reply)
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=DIRECT) as p:
        await p.begin()
        await p.finish()
        [failed] = await p.failures()
        assert (failed.trouble, failed.message) == (trouble, message)
        assert len(transport.of("openai")) == requests_sent
        assert (failed.output == b"<html>") is (trouble == "invalid_output")


@pytest.mark.parametrize("status", [200, 500])
async def test_a_secret_in_an_answer_is_not_kept(tmp_path: Path, status: int) -> None:
    transport = Scripted(openai=Reply(status, b'{"error":"Bearer rpa_OTHER_KEY"}'))
    keys = {"https://other.example": "rpa_OTHER_KEY"}
    settings = replace(DIRECT, max_attempts=1)
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=settings, keys=keys) as p:
        await p.begin()
        await p.finish()
        [ended] = [*await p.results(), *await p.failures()]
        assert "Bearer [the API key of https://other.example]" in f"{ended.output!r} {ended.message}"
        assert "rpa_OTHER_KEY" not in repr(ended)


async def test_outputs_are_judged_as_everywhere(tmp_path: Path) -> None:
    wanted = schema(tmp_path, {"type": "object", "required": ["text"]})
    transport = Scripted(openai=in_turn(GOOD, Reply(body=b'{"text":"a"}')))
    settings = replace(DIRECT, schema=wanted)
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=settings) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "retried invalid_output", "claimed", "completed"]


@pytest.mark.parametrize(
    ("policy", "story", "pause_s"),
    [
        (OnUncertain.RESUBMIT, ["unanswered uncertain", "retried uncertain", "claimed", "completed"], 10.0),
        (OnUncertain.HOLD, ["unanswered uncertain", "retried uncertain", "claimed", "completed"], 120.0),
        (OnUncertain.FAIL, ["unanswered uncertain", "abandoned uncertain"], None),
    ],
)
async def test_an_answer_that_was_lost_is_settled_by_the_policy_and_no_webhook_is_waited_for(
    tmp_path: Path, policy: OnUncertain, story: list[str], pause_s: float | None
) -> None:
    transport = Scripted(openai=in_turn(CUT, GOOD))
    settings = replace(DIRECT, on_uncertain=policy, policy=Policy(execution_timeout_ms=60_000))
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=settings, webhooks=True) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", *story]
        assert not p.session.is_adoptable
        if pause_s is not None:
            assert gaps(transport.times("openai"))[0] == pytest.approx(pause_s, abs=2)


@pytest.mark.parametrize(("after_s", "story"), [(200.0, "completed"), (400.0, "unanswered uncertain")])
async def test_an_answer_may_take_as_long_as_an_execution(tmp_path: Path, after_s: float, story: str) -> None:
    transport = Scripted(openai=replace_after(GOOD, after_s))
    settings = replace(DIRECT, policy=Policy(execution_timeout_ms=300_000))
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=settings) as p:
        await p.begin()
        await p.until_event(lambda step: step.before.state is State.SUBMITTING)
        assert await p.story() == ["claimed", story]
        assert p.clock.now() >= (await p.events())[0].at + min(after_s, 300) * 1_000_000


async def test_what_a_machine_sleeps_through_is_not_counted_as_paid(tmp_path: Path) -> None:
    settings = replace(DIRECT, policy=Policy(execution_timeout_ms=60_000))
    async with process(tmp_path / "db", Scripted(openai=GOOD), jobs=requests(1), settings=settings) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        await anyio.sleep(1)  # its request has left
        p.clock.jump(2_400 * S)
        await p.finish()
        assert [found.execution_ms for found in await p.results()] == [60_000], "at most, as for any execution"


def replace_after(reply: Reply, after_s: float) -> Reply:
    return reply._replace(after_s=after_s)


async def test_the_limits_of_that_operation_bind(tmp_path: Path) -> None:
    busy = most = 0

    def answer(_: Asked) -> Reply:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        return GOOD

    class Counted(Scripted):
        async def handle_async_request(self, request: Any) -> Any:
            nonlocal busy
            try:
                return await super().handle_async_request(request)
            finally:
                busy -= 1

    limits = {Operation.OPENAI: Limit(100, 1.0, 3), Operation.RUN: Limit(1, 10.0, 1)}
    async with process(tmp_path / "db", Counted(openai=answer), jobs=requests(30), settings=DIRECT, limits=limits) as p:
        began_at = p.clock.now()
        await p.begin()
        await p.finish()
        assert most == 3
        assert (p.clock.now() - began_at) / 1e6 == pytest.approx(30 / 3 * 2.0, rel=0.3)


async def test_an_input_that_is_no_request_is_not_sent(tmp_path: Path) -> None:
    transport = Scripted(openai=GOOD)
    async with process(tmp_path / "db", transport, jobs=1, settings=DIRECT) as p:
        await p.begin()
        await p.finish()
        [failed] = await p.failures()
        assert failed.message is not None
        assert failed.message.startswith('not sent: only an input of "openai_route" and "openai_input" can go')
        assert not transport.asked
