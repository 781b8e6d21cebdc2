"""Jobs that go to a server at a URL: its answer is the result, and no service is asked for anything."""

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.endpoint_headers import read_headers
from orchestrator.core.service.profiles import is_by_url
from orchestrator.settings.run_settings import RunSettings
from tests.engine.lanes.test_direct_responses import requests
from tests.engine.process import process
from tests.engine.scripted import CUT, REFUSED, Reply, Scripted, in_turn

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

URL = "https://vllm.example.org/v1"
GOOD = Reply(body=b'{"choices":[]}', after_s=2.0)
SETTINGS = RunSettings(via=Via.OPENAI)


def server(**scripts: object) -> Scripted:
    """A server that is well and answers below `/v1` as `v1` says."""
    found = Scripted()
    found.scripts |= {"ping": Reply(), "v1": GOOD, **scripts}  # type: ignore[dict-item]
    return found


async def test_answers_are_the_results_and_the_run_is_at_the_url(tmp_path: Path) -> None:
    transport = server()
    async with process(tmp_path / "db", transport, jobs=requests(3), settings=SETTINGS, endpoint=URL) as p:
        assert is_by_url(p.run.service_url)
        await p.begin()
        await p.finish()
        assert {(asked.operation, asked.remote_id) for asked in transport.asked} == {("v1", "chat/completions")}
        assert sorted(json.loads(asked.body)["n"] for asked in transport.asked) == [1, 2, 3]
        assert await p.story() == ["claimed", "completed"]
        assert [job.output for job in await p.results()] == [GOOD.body] * 3


@pytest.mark.parametrize(
    ("first", "story", "paid"),
    [
        (Reply(400, b"no workers available", after_s=120), "deferred server", 1),
        (Reply(503), "deferred server", 1),
        (Reply(429), "deferred throttled", 1),
        (REFUSED, "deferred transport", 1),
        (Reply(524, after_s=330), "retried timed_out", 2),
        (Reply(500, b'{"error":"boom"}'), "retried failed", 2),
        (Reply(502), "unanswered uncertain", 2),
        (Reply(504), "unanswered uncertain", 2),
        (CUT, "unanswered uncertain", 2),
    ],
)
async def test_what_was_not_executed_costs_nothing_and_all_else_may_have(
    tmp_path: Path, first: Reply, story: str, paid: int
) -> None:
    transport = server(v1=in_turn(first, GOOD))
    async with process(tmp_path / "db", transport, jobs=requests(1), settings=SETTINGS, endpoint=URL) as p:
        await p.begin()
        await p.finish()
        assert (await p.story())[:2] == ["claimed", story]
        [done] = await p.results()
        assert (done.output, done.paid_at_most) == (GOOD.body, paid)


async def test_while_workers_start_jobs_wait_and_go_once_the_server_says_that_it_is_well(tmp_path: Path) -> None:
    no_worker = Reply(400, b'{"error":"no workers available"}', after_s=120)
    transport = server(v1=in_turn(*[no_worker] * 20, GOOD), ping=in_turn(*[Reply(204)] * 5, Reply(200)))
    limits = {Operation.OPENAI: Limit(100, 1, 5)}
    async with process(
        tmp_path / "db", transport, jobs=requests(60), settings=SETTINGS, endpoint=URL, limits=limits
    ) as p:
        await p.begin()
        await p.finish()
        assert [job.paid_at_most for job in await p.results()] == [1] * 60
        assert len(transport.of("v1")) == 80
        assert len(transport.of("ping")) >= 6, "while none is taken, a question goes before each of them"


async def test_own_headers_are_kept_out_of_what_answers_say(tmp_path: Path) -> None:
    headers = {URL: read_headers({"Authorization": "env:VLLM_KEY"}, {"VLLM_KEY": "sk-of-vllm-7"})}
    transport = server(v1=Reply(500, b'{"error":"bad key sk-of-vllm-7"}'))
    settings = replace(SETTINGS, max_attempts=1)
    async with process(
        tmp_path / "db", transport, jobs=requests(1), settings=settings, endpoint=URL, headers=headers
    ) as p:
        await p.begin()
        await p.finish()
        [failed] = await p.failures()
        assert failed.message == "bad key [hidden]"
    kept = b"".join([await each.read_bytes() async for each in anyio.Path(tmp_path).iterdir()])
    assert b"bad key [hidden]" in kept
    assert b"sk-of-vllm-7" not in kept
