"""Jobs that go to a server at a URL: its answer is the result, and no service is asked for anything."""

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.service.endpoint_headers import read_headers
from orchestrator.core.service.profiles import is_by_url
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings.run_settings import RunSettings
from tests.api.desk import desk, numbers
from tests.api.flows.test_stages import triggered
from tests.engine.flowing import a_pipeline, flowing
from tests.engine.lanes.test_direct_responses import requests
from tests.engine.process import process
from tests.engine.scripted import CUT, REFUSED, Reply, Scripted, in_turn
from tests.simulation.world import ENDPOINT
from tests.simulation.world import URL as SERVICE_URL

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


@pytest.mark.slow
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


BY_HTTP = RunSettings(via=Via.HTTP, path="/generate")


async def test_by_http_the_input_is_the_body_and_the_path_is_the_runs(tmp_path: Path) -> None:
    """Contract, What the service does, rule 4: requests and paths of load balancing endpoints are the user's."""
    transport = server(generate=Reply(body=b"just text", headers={"content-type": "text/plain"}))
    limits = {Operation.HTTP: Limit(100, 1, 2), Operation.OPENAI: Limit(1, 60, 1)}
    async with process(
        tmp_path / "db", transport, jobs=5, settings=BY_HTTP, endpoint="http://pod.example:8000", limits=limits
    ) as p:
        await p.begin()
        await p.finish()
        assert sorted(asked.body for asked in transport.of("generate")) == [b'{"n":%d}' % n for n in range(1, 6)]
        assert [job.output for job in await p.results()] == [b'"just text"'] * 5


async def test_an_answer_may_take_as_long_as_an_execution_by_http_too(tmp_path: Path) -> None:
    transport = server(generate=in_turn(Reply(body=b"{}", after_s=400), Reply(body=b"{}", after_s=200)))
    settings = replace(BY_HTTP, policy=Policy(execution_timeout_ms=300_000))
    async with process(tmp_path / "db", transport, jobs=1, settings=settings, endpoint="http://pod.example") as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "unanswered uncertain", "retried uncertain", "claimed", "completed"]


async def test_a_stream_is_gathered_and_one_that_is_cut_is_uncertain(tmp_path: Path) -> None:
    headers = {"content-type": "text/event-stream"}
    whole = Reply(body=b'data: {"n": 1}\n\ndata: two\n\ndata: [DONE]\n\n', headers=headers)
    transport = server(generate=in_turn(CUT, whole))
    async with process(tmp_path / "db", transport, jobs=1, settings=BY_HTTP, endpoint="http://pod.example") as p:
        await p.begin()
        await p.finish()
        [done] = await p.results()
        assert (done.output, done.paid_at_most) == (b'[{"n":1},"two"]', 2)


async def test_at_another_url_jobs_may_be_tried_again_and_at_the_service_not(tmp_path: Path) -> None:
    async with process(tmp_path / "db", server(), jobs=1, settings=BY_HTTP, endpoint="http://pod.example") as p:
        services = p.engine.endpoints.services
        there = services.moved(p.run, "http://other.example")
        assert (there.service_url, there.endpoint) == (p.run.service_url, "http://other.example")
        with pytest.raises(UsageError, match="jobs go from the service to no URL, nor the other way"):
            services.moved(p.run, "abc123")
        pooled = replace(
            p.run, service_url=SERVICE_URL, settings=replace(BY_HTTP, members=(MemberSettings("http://other.example"),))
        )
        assert services.moved(pooled, "http://other.example").service_url == p.run.service_url, "a member of its pool"


async def test_a_stage_of_a_pipeline_may_be_at_a_url(tmp_path: Path) -> None:
    transport = server(generate=Reply(body=b'{"ok": true}'))
    pipeline = a_pipeline(tmp_path)
    settings = {"endpoint": ("http://pod.example",), "via": ("http",), "path": ("/generate",), "output": ("o.jsonl",)}
    stages = (replace(pipeline.stages[0], settings=settings),)
    async with flowing(tmp_path, transport=transport) as p:
        name = await triggered(p, replace(pipeline, stages=stages))
        await p.idle()
        assert await p.states() == {name: "succeeded"}
        assert sorted(asked.body for asked in transport.of("generate")) == [b'{"n": 1}', b'{"n": 2}']
        lines = (await anyio.Path(tmp_path / "o.jsonl").read_text()).splitlines()
        assert [json.loads(line)["output"] for line in lines] == [{"ok": True}] * 2


async def test_a_program_submits_to_a_url(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        at = f"{SERVICE_URL}/v2/{ENDPOINT}/openai"
        run = await orc.submit(numbers(3), endpoint=at, via="http", path="/v1/embeddings", name="night")
        await run.wait()
        assert [result.output async for result in run.results()] == numbers(3)
        again = await orc.submit(numbers(3), endpoint=at, via="http", path="/v1/embeddings", name="night")
        assert (await again.wait())[State.SUCCEEDED] == 3
        with pytest.raises(UsageError, match="is a URL, and what is there has no queue"):
            await orc.submit(numbers(1), endpoint=at, name="other")
