"""The job operations as people call them: every row of the contract's tables of operations and of errors."""

from collections.abc import Awaitable, Callable

import anyio
import httpx
import pytest

from orchestrator.client import EndpointJobs, JobRefusedError, RefusedError, Service, for_people
from orchestrator.client.jobs.retries import RETRY_AFTER_S_MAX, TRIES
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.service.s3_config import S3Config
from orchestrator.core.text.durations import Policy
from orchestrator.errors import NotSent, Unanswered, UsageError
from tests.client.scripted import KEY, Script, answer, job

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

Call = Callable[[EndpointJobs], Awaitable[object]]


async def read_stream(jobs: EndpointJobs) -> list[object]:
    return [chunk.output async for chunk in jobs.stream("job-1")]


SUBMITS: dict[str, tuple[Call, str]] = {
    "run": (lambda jobs: jobs.run({"n": 1}), "POST /run"),
    "runsync": (lambda jobs: jobs.runsync({"n": 1}), "POST /runsync"),
    "retry": (lambda jobs: jobs.retry("job-1"), "POST /retry/job-1"),
    "cancel": (lambda jobs: jobs.cancel("job-1"), "POST /cancel/job-1"),
    "purge-queue": (lambda jobs: jobs.purge_queue(), "POST /purge-queue"),
    "openai": (lambda jobs: jobs.openai("/v1/completions", {"prompt": "a"}), "POST /openai/v1/completions"),
}
QUESTIONS: dict[str, tuple[Call, str]] = {
    "status": (lambda jobs: jobs.status("job-1"), "GET /status/job-1"),
    "stream": (read_stream, "GET /stream/job-1"),
    "health": (lambda jobs: jobs.health(), "GET /health"),
    "requests": (lambda jobs: jobs.requests(), "GET /requests"),
    "openai models": (lambda jobs: jobs.openai("/v1/models"), "GET /openai/v1/models"),
}
OPERATIONS = SUBMITS | QUESTIONS
DONE = job("COMPLETED", output={"n": 2})

each_operation = pytest.mark.parametrize("name", OPERATIONS)


@each_operation
async def test_each_operation_has_its_method_and_path(name: str) -> None:
    """Contract, Endpoints: the table of operations. Path shape of the per-job ones not shown: the id is the last part."""
    script = Script(DONE)
    call, request = OPERATIONS[name]
    await call(script.jobs)
    assert script.asked == [request]
    sent = script.requests[0]
    assert sent.headers["authorization"] == f"Bearer {KEY}", "contract, Authentication 1"
    has_body = name in ("run", "runsync", "openai")
    assert sent.headers.get("content-type") == ("application/json" if has_body else None)


# --- what is sent


async def test_a_job_request_carries_all_its_fields() -> None:
    """Contract, Job request body."""
    script = Script(job("IN_QUEUE"))
    record = await script.jobs.run(
        b'{"seed": 12345678901234567890123}',
        policy=Policy(execution_timeout_ms=5_000, ttl_ms=604_800_000, low_priority=True),
        webhook="https://me.example/hook",
        s3_config=S3Config(access_id="id", access_secret="s", bucket_name="b", endpoint_url="https://s3"),
    )
    assert (record.id, record.status, record.finished) == ("job-1", "IN_QUEUE", False)
    assert script.requests[0].content == (
        b'{"input":{"seed": 12345678901234567890123}'
        b',"policy":{"executionTimeout":5000,"ttl":604800000,"lowPriority":true}'
        b',"s3Config":{"accessId":"id","accessSecret":"s","bucketName":"b","endpointUrl":"https://s3"}'
        b',"webhook":"https://me.example/hook"}'
    )


@pytest.mark.parametrize("policy", [None, Policy()])
async def test_a_policy_that_says_nothing_is_not_sent(policy: Policy | None) -> None:
    script = Script(job("IN_QUEUE"))
    await script.jobs.run({"a": [1]}, policy=policy)
    assert script.requests[0].content == b'{"input":{"a":[1]}}'


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda jobs: jobs.run({}), "the input is empty"),
        (lambda jobs: jobs.run(b" {} "), "the input is empty"),
        (lambda jobs: jobs.run(b"[1]"), "the input must be a JSON object"),
        (lambda jobs: jobs.run(b'{"a":'), "the input must be a JSON object"),
        (lambda jobs: jobs.run(b'{"a":"\xff"}'), "the input must be a JSON object"),
        (lambda jobs: jobs.run({"a": object()}), "the input must be a JSON object"),
        (lambda jobs: jobs.run({"a": 1}, policy=Policy(execution_timeout_ms=4_999)), "executionTimeout is 4999 ms"),
        (lambda jobs: jobs.run({"a": 1}, policy=Policy(execution_timeout_ms=604_800_001)), "executionTimeout is"),
        (lambda jobs: jobs.run({"a": 1}, policy=Policy(ttl_ms=9_999)), "ttl is 9999 ms"),
        (lambda jobs: jobs.runsync({"a": 1}, policy=Policy(ttl_ms=604_800_001)), "ttl is 604800001 ms"),
        (lambda jobs: jobs.run({"a": 1}, webhook="me.example"), "the webhook must be a URL"),
        (lambda jobs: jobs.run({"a": 1}, webhook="https://a:b:c/"), "the webhook must be a URL"),
        (lambda jobs: jobs.run({"a": "x" * 10 * 1024 * 1024}), "over the service's limit of 10,485,760"),
        (lambda jobs: jobs.runsync({"a": "x" * 20 * 1024 * 1024}), "over the service's limit of 20,971,520"),
        (lambda jobs: jobs.runsync({"a": 1}, wait=999), "wait is 999 ms"),
        (lambda jobs: jobs.runsync({"a": 1}, wait=300_001), "wait is 300001 ms"),
        (lambda jobs: jobs.status("../purge-queue"), "is no job id"),
        (lambda jobs: jobs.cancel(""), "is no job id"),
        (lambda jobs: jobs.retry("a b"), "is no job id"),
        (lambda jobs: jobs.openai("/v1/../../purge-queue", {"a": 1}), "is no path below /openai"),
        (lambda jobs: jobs.openai("/v1/models?x=1"), "is no path below /openai"),
        (lambda jobs: jobs.openai("/v1/completions", b"[]"), "the body must be a JSON object"),
    ],
)
async def test_what_the_service_would_refuse_is_refused_before_it_is_sent(call: Call, complaint: str) -> None:
    """Contract, policy; Limits (executionTimeout, ttl); Job request body (input is an object)."""
    script = Script(DONE)
    jobs = script.jobs
    with pytest.raises(UsageError, match=complaint):
        await call(jobs)
    assert script.requests == []
    assert all(jobs.api.limiter.figures(operation).in_flight == 0 for operation in Operation)


async def test_a_stream_of_what_is_no_job_id_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="is no job id"):
        Script(DONE).jobs.stream("a/b")


async def test_a_runsync_body_may_be_twice_as_large_as_that_of_run() -> None:
    script = Script(DONE)
    await script.jobs.runsync({"a": "x" * 15 * 1024 * 1024})
    assert len(script.requests) == 1


# --- runsync


@pytest.mark.parametrize(("wait", "query"), [(None, ""), (1_000, "?wait=1000"), (300_000, "?wait=300000")])
async def test_runsync_tells_the_service_how_long_to_wait(wait: int | None, query: str) -> None:
    script = Script(DONE)
    record = await script.jobs.runsync({"a": 1}, wait=wait)
    assert script.asked == [f"POST /runsync{query}"]
    assert (record.output, record.finished) == ({"n": 2}, True)


async def test_a_job_that_outlives_the_wait_is_asked_for_until_it_has_finished() -> None:
    script = Script(job("IN_QUEUE"), job("IN_PROGRESS", output="half"), job("NEW_STATE"), job("FAILED", error="bad"))
    record = await script.jobs.runsync({"a": 1})
    assert script.asked == ["POST /runsync", *["GET /status/job-1"] * 3]
    assert (record.status, record.error, record.output) == ("FAILED", "bad", None)
    assert anyio.current_time() == pytest.approx(0.5 + 0.75, abs=0.1)


async def test_runsync_can_leave_the_following_to_its_caller() -> None:
    script = Script(job("IN_PROGRESS"))
    assert (await script.jobs.runsync({"a": 1}, follow=False)).status == "IN_PROGRESS"
    assert len(script.requests) == 1


async def test_an_unfinished_runsync_without_an_id_is_no_usable_answer() -> None:
    with pytest.raises(Unanswered, match="neither a result nor a job id; the job may exist all the same"):
        await Script(answer('{"status":"IN_PROGRESS"}')).jobs.runsync({"a": 1})


@pytest.mark.parametrize(("wait", "patience_s"), [(None, 120), (200_000, 230)])
async def test_runsync_has_more_patience_than_the_service(wait: int | None, patience_s: int) -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    script = Script(DONE)
    service = Service("https://h", KEY, script.service().clock, transport=httpx.MockTransport(silent))
    began = anyio.current_time()
    with pytest.raises(
        Unanswered, match=f"runsync: no complete answer: nothing came for {patience_s} s; the job may exist"
    ):
        await service.endpoint("abc").runsync({"a": 1}, wait=wait)
    assert anyio.current_time() - began == pytest.approx(patience_s, abs=0.1)


def test_the_operations_are_those_of_queue_based_endpoints_and_no_others() -> None:
    """Contract, What the service does 3 and 4: what a load balancing endpoint takes is its user's own HTTP."""
    public = {name for name in vars(EndpointJobs) if not name.startswith("_")}
    asked = {name.replace("-", "_").removesuffix(" models") for name in OPERATIONS}
    assert public - {"id", "api", "follow", "known", "on_request", "batches"} == asked


async def test_a_new_endpoint_can_be_waited_for() -> None:
    """As observed: it answers 404 until it has propagated."""
    script = Script(answer("", 404), answer("", 404), answer('{"jobs":{"inQueue":1}}'))
    assert (await script.jobs.known(wait=60)).jobs.in_queue == 1
    with pytest.raises(JobRefusedError, match="a new endpoint is unknown for its first moments"):
        await Script(answer("", 404)).jobs.known(wait=3)
    assert anyio.current_time() < 5
    refusing = Script(answer("", 401))
    with pytest.raises(JobRefusedError, match="API key"):
        await refusing.jobs.known(wait=60)
    assert len(refusing.requests) == 1


# --- refusals: the contract's table of errors, for every operation


@each_operation
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "malformed|does not retry|does not cancel"),
        (401, "the service refused the API key .*ORCHESTRATOR_API_KEY"),
        (403, "no permission"),
        (404, "does not know"),
        (429, "too many requests"),
        (500, "the service failed .*worker may have crashed"),
        (302, "check the service URL"),
        (418, "gave no success"),
    ],
)
async def test_every_error_of_the_contract_is_one_error_that_says_what_to_do(
    name: str, status: int, words: str
) -> None:
    """Contract, Errors: 400, 401, 404, 429, 500; and what else a gateway says."""
    script = Script(answer(f'{{"error":"because \\u001b[2J {KEY}"}}', status))
    with pytest.raises(JobRefusedError, match=words) as caught:
        await OPERATIONS[name][0](script.jobs)
    error = caught.value
    assert (error.status, error.detail, error.exit_code) == (status, "because [2J [hidden]", 3)
    assert error.passing is (status in (429, 500))
    assert str(error).startswith(name.removesuffix(" models"))
    assert error.advice in str(error)
    assert "\n" not in str(error)
    assert KEY not in f"{error}{error!r}{error.__context__!r}"


@pytest.mark.parametrize("name", SUBMITS)
@pytest.mark.parametrize("reply", [answer("", 429), answer("", 500), answer("", 503), NotSent("no"), Unanswered("no")])
async def test_what_changes_something_is_never_repeated(name: str, reply: httpx.Response | NotSent) -> None:
    script = Script(reply, DONE)
    with pytest.raises((RefusedError, NotSent, Unanswered)):
        await SUBMITS[name][0](script.jobs)
    assert len(script.requests) == 1


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(
    "reply", [answer("", 429), answer("", 429, retry_after="7"), answer("", 500), answer("", 502), NotSent("no")]
)
async def test_a_question_is_asked_again_while_that_may_help(name: str, reply: httpx.Response | NotSent) -> None:
    """Contract, Errors: 429 "retry with exponential backoff"."""
    script = Script(reply, reply, DONE)
    await QUESTIONS[name][0](script.jobs)
    assert len(script.requests) >= 3


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 501])
async def test_a_question_is_not_repeated_where_that_cannot_help(name: str, status: int) -> None:
    script = Script(answer("", status), DONE)
    with pytest.raises(RefusedError):
        await QUESTIONS[name][0](script.jobs)
    assert len(script.requests) == 1


async def test_a_question_is_given_up_after_a_few_times() -> None:
    script = Script(answer("", 503))
    with pytest.raises(RefusedError) as caught:
        await script.jobs.status("job-1")
    assert (caught.value.status, len(script.requests)) == (503, TRIES)
    assert anyio.current_time() >= 0.5 + 1 + 2


async def test_the_pause_that_a_429_asks_for_is_kept_if_it_is_short() -> None:
    script = Script(answer("", 429, retry_after="7"), DONE)
    began = anyio.current_time()
    await script.jobs.status("job-1")
    assert anyio.current_time() - began == pytest.approx(7, abs=0.1)


async def test_a_long_pause_is_told_and_not_waited_for() -> None:
    script = Script(answer("slow down", 429, retry_after="3600"), DONE)
    with pytest.raises(
        RefusedError, match=r"status of job-1: too many requests \(429 Too Many Requests: slow down\)"
    ) as caught:
        await script.jobs.status("job-1")
    assert caught.value.retry_after_s == 3_600 > RETRY_AFTER_S_MAX
    assert caught.value.advice == "the service asks to wait for 3600 s"


async def test_a_failed_submission_says_that_it_may_have_taken_effect() -> None:
    with pytest.raises(RefusedError, match="whether it took effect is unknown"):
        await Script(answer("", 500)).jobs.run({"a": 1})


@pytest.mark.parametrize(
    ("name", "words"), [("retry", "only a failed or timed-out job"), ("cancel", "it may have fini")]
)
@pytest.mark.parametrize("status", [400, 409, 422])
async def test_a_job_in_the_wrong_state_is_explained(name: str, words: str, status: int) -> None:
    """Contract, States: `/retry` is for failed and timed-out jobs. The status for others: not shown."""
    with pytest.raises(RefusedError, match=words):
        await SUBMITS[name][0](Script(answer("", status)).jobs)


async def test_secrets_that_a_refusal_repeats_are_hidden() -> None:
    secret = 'sec"ret\\1'
    body = r'{"error":"bad: {\"accessId\":\"the-id\",\"accessSecret\":\"sec\\\"ret\\\\1\"}"}'
    with pytest.raises(RefusedError) as caught:
        await Script(answer(body, 400)).jobs.run({"a": 1}, s3_config=S3Config(access_id="the-id", access_secret=secret))
    assert caught.value.detail == 'bad: {"accessId":"[hidden]","accessSecret":"[hidden]"}'


# --- answers that are none


GARBLED = [b"", b"  ", b"<html>oops</html>", b'{"id":"job-1","sta', b'"text"', b"[]", b'{"error":"no"}', b"\xff"]


@pytest.mark.parametrize(
    ("name", "body"),
    [(name, body) for name in ("run", "runsync", "retry", "cancel", "status") for body in GARBLED]
    + [("stream", body) for body in GARBLED if body != b"[]"],
)
async def test_a_success_that_makes_no_sense_is_no_answer(name: str, body: bytes) -> None:
    script = Script(answer(body))
    with pytest.raises(Unanswered) as caught:
        await OPERATIONS[name][0](script.jobs)
    assert str(caught.value).startswith(name)
    assert len(script.requests) == (TRIES if name == "status" else 1)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"jobs":'])
@pytest.mark.parametrize("name", ["purge-queue", "health", "requests", "openai"])
async def test_other_answers_must_be_json_at_least(name: str, body: bytes) -> None:
    with pytest.raises(Unanswered, match="the answer is"):
        await OPERATIONS[name][0](Script(answer(body)).jobs)


async def test_a_run_without_an_id_may_have_made_a_job() -> None:
    with pytest.raises(Unanswered, match="no job id; the job may exist all the same, and to repeat it may be paid"):
        await Script(answer('{"status":"IN_QUEUE"}')).jobs.run({"a": 1})


async def test_a_question_whose_answer_was_cut_is_asked_again() -> None:
    script = Script(answer('{"id":"job'), Unanswered("cut"), DONE)
    assert (await script.jobs.status("job-1")).status == "COMPLETED"
    assert len(script.requests) == 3


async def test_a_stream_whose_answer_was_cut_is_not_asked_again_since_its_chunks_are_gone() -> None:
    script = Script(Unanswered("cut"), DONE)
    with pytest.raises(Unanswered, match="stream of job-1: cut; chunks may be missing"):
        await read_stream(script.jobs)
    assert len(script.requests) == 1


# --- the limits


def test_people_send_within_a_twentieth_of_the_limits() -> None:
    """Contract, Limits: the table."""
    share = for_people(CONTRACT_LIMITS)
    assert {operation: (limit.requests, limit.window_s, limit.concurrent) for operation, limit in share.items()} == {
        Operation.RUN: (50, 10, 10),
        Operation.RUNSYNC: (100, 10, 20),
        Operation.STATUS: (100, 10, 20),
        Operation.STREAM: (100, 10, 20),
        Operation.CANCEL: (5, 10, 1),
        Operation.RETRY: (5, 10, 1),
        Operation.PURGE_QUEUE: (1, 10, None),
        Operation.HEALTH: (1, 1, None),
        Operation.OPENAI: (100, 10, 20),
        Operation.HTTP: (50, 10, 5),
        Operation.REQUESTS: (1, 10, 1),
        Operation.BATCH: (5, 10, 1),
    }


async def test_the_calls_keep_the_limits() -> None:
    script = Script(answer('{"removed":0}'))
    jobs = script.service(limits={Operation.PURGE_QUEUE: Limit(1, 10)}).endpoint("abc")
    began = anyio.current_time()
    await jobs.purge_queue()
    await jobs.purge_queue()
    assert anyio.current_time() - began >= 10


async def test_a_service_closes_behind_its_user_and_shows_no_key() -> None:
    async with Script(DONE).service() as service:
        assert repr(service.endpoint("abc")) == "EndpointJobs('https://api.example.com/v2/abc')"
        assert service.endpoint("abc") is service.endpoint("abc")
