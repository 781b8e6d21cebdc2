"""`orchestrator api`: every operation, every error, and what a person and a program see of them."""

from contextlib import nullcontext
from pathlib import Path

import httpx
import msgspec
import pytest

from orchestrator.ledger import dispatcher_lock
from tests.account.accounts import Script, Waits, scripted
from tests.cli.command_line import call, give
from tests.cli.service_double import KEY, ok, refusal, service
from tests.cli.small_ledger import a_ledger
from tests.client.raw_server import response
from tests.engine.rows import empty_ledger

QUEUED = ok('{"id":"job-1","status":"IN_QUEUE"}')
RUNNING = ok('{"id":"job-1","status":"IN_PROGRESS","delayTime":2210,"workerId":"w1"}')
DONE_JSON = (
    '{"id":"job-1","status":"COMPLETED","delayTime":2210,"executionTime":845,"workerId":"w1",'
    '"output":{"n":12345678901234567890123, "x":1.50},"new":[1]}'
)
DONE = ok(DONE_JSON)
FAILED = ok(r'{"id":"job-1","status":"FAILED","retries":1,"error":"{\"error_message\":\"bad \\u001b[2J seed\"}"}')

SAID = "sending within 5 % of the endpoint's limits; the rest is for the batch that is running\n"

OPERATIONS: dict[str, tuple[list[str], str, bytes]] = {
    "run": (["run", "abc", "--input", '{"n":1}'], "POST /v2/abc/run", QUEUED),
    "runsync": (["runsync", "abc", "--input", '{"n":1}', "--wait", "2s"], "POST /v2/abc/runsync?wait=2000", DONE),
    "status": (["status", "abc", "job-1"], "GET /v2/abc/status/job-1", RUNNING),
    "stream": (["stream", "abc", "job-1"], "GET /v2/abc/stream/job-1", ok('{"status":"COMPLETED","stream":[]}')),
    "cancel": (["cancel", "abc", "job-1"], "POST /v2/abc/cancel/job-1", ok('{"id":"job-1","status":"CANCELLED"}')),
    "retry": (["retry", "abc", "job-1"], "POST /v2/abc/retry/job-1", QUEUED),
    "purge": (["purge", "abc", "--yes"], "POST /v2/abc/purge-queue", ok('{"removed":12,"status":"completed"}')),
    "health": (["health", "abc"], "GET /v2/abc/health", ok('{"jobs":{"inQueue":1},"workers":{"idle":2}}')),
    "batches": (["batches", "abc"], "GET /v2/abc/batch", ok('[{"id":"batch_1","status":"DRAFT","requestTotal":3}]')),
    "cancel-batch": (
        ["cancel-batch", "abc", "batch_1", "--yes"],
        "POST /v2/abc/batch/batch_1/cancel",
        ok('{"id":"batch_1","status":"CANCELLED"}'),
    ),
    "requests": (["requests", "abc"], "GET /v2/abc/requests", ok('{"requests":[]}')),
    "openai": (
        ["openai", "abc", "/v1/completions", "--input", '{"prompt":"a"}'],
        "POST /v2/abc/openai/v1/completions",
        ok('{"choices":[]}'),
    ),
}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


@each_operation
@pytest.mark.parametrize("is_held", [False, True], ids=["alone", "beside a run"])
def test_each_operation_sends_its_request_and_says_beside_a_run_within_which_limits(name: str, is_held: bool) -> None:
    """Contract, Endpoints: the table of operations."""
    arguments, request, reply = OPERATIONS[name]
    empty_ledger(Path("orchestrator.db"))
    with service(reply) as served, dispatcher_lock(Path("orchestrator.db"), now=0) if is_held else nullcontext():
        result = served.api(*arguments)
    assert (result.exit_code, served.asked) == (0, [request])
    assert result.stderr.startswith(SAID) is is_held


@each_operation
def test_json_is_the_answer_of_the_service_and_nothing_else(name: str) -> None:
    arguments, _, reply = OPERATIONS[name]
    with service(reply) as served:
        result = served.api(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    expected = "" if name == "stream" else reply.split(b"\r\n\r\n")[1].decode()
    assert result.stdout == expected.replace(", ", ",")


# --- what people see


def test_a_job_is_a_table_with_every_token_of_its_output() -> None:
    with service(DONE) as served:
        result = served.api("status", "abc", "job-1")
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "job     job-1",
        "status  COMPLETED",
        "waited  2.2 s",
        "ran     0.8 s",
        "worker  w1",
        'output  {"n":12345678901234567890123,"x":1.50}',
        "new     [1]",
    ]


@pytest.mark.parametrize("arguments", [["status", "abc", "job-1"], ["runsync", "abc", "--input", '{"n":1}']])
def test_a_failed_job_is_exit_code_1_and_its_reason_draws_nothing_on_the_terminal(arguments: list[str]) -> None:
    """Contract, Timeout errors; failed jobs."""
    with service(FAILED) as served:
        result = served.api(*arguments)
    assert result.exit_code == 1
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "job      job-1",
        "status   FAILED",
        "retries  1",
        "error    bad \\x1b[2J seed",
    ]


def test_batches_are_rows_of_a_table() -> None:
    body = (
        '{"batches":[{"id":"batch_2","status":"DRAFT","requestTotal":0,"createdAt":1783584000000},'
        '{"id":"batch_1","status":"FINALIZED","requestTotal":5000,"requestInProgress":8,"requestCompleted":244,'
        '"requestFailed":6}]}'
    )
    with service(ok(body)) as served:
        result = served.api("batches", "abc")
    assert [line.split() for line in result.stdout.splitlines() if line.strip(" ─")] == [
        ["batch", "status", "requests", "in", "progress", "completed", "failed", "created"],
        ["batch_2", "DRAFT", "0", "2026-07-09", "08:00"],
        ["batch_1", "FINALIZED", "5000", "8", "244", "6"],
    ]


def test_a_batch_is_cancelled_once_somebody_has_said_yes() -> None:
    with service(ok('{"id":"batch_1","status":"CANCELLED"}')) as served:
        result = served.api("cancel-batch", "abc", "batch_1")
    assert (result.exit_code, served.asked) == (2, [])
    assert "--yes" in result.stderr


def test_health_is_two_tables() -> None:
    """Contract, Job stuck in the queue."""
    body = '{"jobs":{"completed":1234,"inProgress":1,"lost":7},"workers":{"idle":2,"ready":3}}'
    with service(ok(body)) as served:
        result = served.api("health", "abc")
    assert [line.split() for line in result.stdout.splitlines() if line.strip(" ─")] == [
        ["jobs"],
        ["in", "progress", "1"],
        ["completed", "1,234"],
        ["lost", "7"],
        ["workers"],
        ["idle", "2"],
        ["ready", "3"],
    ]


def test_a_purge_tells_how_many_jobs_went() -> None:
    with service(ok('{"removed":1200,"status":"completed"}'), ok("{}")) as served:
        first, second = served.api("purge", "abc", "--yes"), served.api("purge", "abc", "--yes")
    assert [line.split() for line in first.stdout.splitlines()] == [["removed", "1,200"], ["status", "completed"]]
    assert second.stdout.split() == ["removed", "(not", "told)"]


def test_what_has_no_shape_of_ours_is_indented_json() -> None:
    with service(ok('{"a":[1.50]}')) as served:
        result = served.api("requests", "abc")
    assert result.stdout == '{\n  "a": [\n    1.50\n  ]\n}\n'


def test_the_events_of_an_openai_answer_stand_one_a_line() -> None:
    events = response(b'data: {"a": 1}\n\ndata: {"a": 2}\n\ndata: [DONE]\n\n')
    call = ("openai", "abc", "v1/chat/completions", "--input", '{"stream":true}')
    with service(events) as served:
        assert served.api(*call).stdout == '{"a":1}\n{"a":2}\n'
        assert served.api(*call, "--json").stdout == '[{"a":1},{"a":2}]\n'
    with service(response(b'{"error":"data: 1"}', status="500 oops")) as served:
        assert served.api(*call).stdout == ""
    with service(response(b'data: {"a": 1}\n\ndata: {"a": 2}')) as served:
        assert served.api(*call).stdout == '{"a":1}\n{"a":2}\n'
        assert served.body() == b'{"stream":true}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":"job not found"}', "the answer has no status: job not found"),
        ('{"id":"job-1","status":""}', "the answer has no status"),
    ],
)
def test_a_success_without_a_status_is_said_so_and_is_no_defect(body: str, message: str) -> None:
    waits = Waits()
    account = scripted(Script(httpx.Response(200, text=body)), sleep=waits)
    result = call(
        ["api", "status", "abc1", "job-1"], environment={"ORCHESTRATOR_API_KEY": KEY}, connect=lambda _: account
    )
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.splitlines()[-1] == f"error: status of job-1: {message}"
    assert waits.waited_s == [0.5, 1.0, 2.0]


def test_openai_without_a_body_is_a_get() -> None:
    with service(ok('{"data":[]}')) as served:
        assert served.api("openai", "abc", "/v1/models", "--json").stdout == '{"data":[]}\n'
    assert served.asked == ["GET /v2/abc/openai/v1/models"]


# --- what is sent


def test_the_input_is_a_file_standard_input_or_the_text_itself(tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_text('\N{ZERO WIDTH NO-BREAK SPACE} {"n": 1.50} \n', encoding="utf-8")
    with service(QUEUED) as served:
        for given in (str(path), "-", ' {"n": 1.50} '):
            assert served.api("run", "abc", "--input", given, input='{"n": 1.50}\n').exit_code == 0
    assert {served.body(n) for n in range(3)} == {b'{"input":{"n": 1.50}}'}


def test_a_whole_job_request_is_taken_apart_and_its_secrets_are_looked_up() -> None:
    request = (
        '{"input":{"n":1},"policy":{"ttl":60000,"lowPriority":true},"webhook":"https://me.example/a",'
        '"s3Config":{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET","bucketName":"b"}}'
    )
    with service(QUEUED) as served:
        result = served.api("run", "abc", "--input", request, "--ttl", "2m", S3_ID="the-id", S3_SECRET="the-secret")
        assert result.exit_code == 0
    assert served.body() == (
        b'{"input":{"n":1},"policy":{"ttl":120000,"lowPriority":true},'
        b'"s3Config":{"accessId":"the-id","accessSecret":"the-secret","bucketName":"b"},'
        b'"webhook":"https://me.example/a"}'
    )


def test_flags_environment_and_file_say_what_applies_as_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "orchestrator.toml").write_text('ttl = "1h"\nexecution-timeout = "10s"\njson = true\n')
    with service(QUEUED) as served:
        result = served.api(
            "run", "abc", "--input", '{"n":1}', "--low-priority", "--webhook", "http://me/", ORCHESTRATOR_TTL="2h"
        )
    assert result.stdout.startswith("{")
    assert served.body() == (
        b'{"input":{"n":1},"policy":{"executionTimeout":10000,"ttl":7200000,"lowPriority":true},"webhook":"http://me/"}'
    )


def test_an_input_parameter_called_input_is_no_job_request() -> None:
    with service(QUEUED) as served:
        served.api("run", "abc", "--input", '{"input":"text"}')
    assert served.body() == b'{"input":{"input":"text"}}'


NULLS = '{"input":{"n":1},"policy":null,"webhook":null,"s3Config":null}'


def test_what_is_null_in_a_job_request_is_not_there() -> None:
    with service(QUEUED) as served:
        served.api("run", "abc", "--input", NULLS)
    assert served.body() == b'{"input":{"n":1}}'


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "abc", "--input", "[1]"], "--input: it must be a JSON object, not an array"),
        (["run", "abc", "--input", "missing.json"], "--input: missing.json cannot be read (No such file"),
        (["run", "abc", "--input", "a\0b"], "cannot be read (this is no file name)"),
        (["run", "abc", "--input", "-"], "--input: there is nothing in it"),
        (["run", "abc", "--input", '{"input":[],"policy":{}}'], "--input: its input must be an object, not an array"),
        (["run", "abc", "--input", '{"input":{"a":1},"polcy":{}}'], "did you mean policy?"),
        (
            ["run", "abc", "--input", '{"input":{"a":1},"zzz":{}}'],
            "a job request takes input, policy, s3Config, webhook",
        ),
        (["run", "abc", "--input", '{"input":{"a":1},"webhook":5}'], "its webhook must be a URL, not a number"),
        (
            ["run", "abc", "--input", f'{{"input":{{"a":1}},"s3Config":{{"accessSecret":"{KEY}"}}}}'],
            "must name an environment variable",
        ),
        (
            ["run", "abc", "--input", '{"input":{"a":1},"s3Config":{"accessSecret":"env:NOPE"}}'],
            "NOPE, which the environment does not set",
        ),
        (["run", "abc", "--input", '{"a":1}', "--ttl", "8d"], "--ttl: policy.ttl is"),
        (["run", "abc", "--input", '{"a":1}', "--execution-timeout", "1s"], "--execution-timeout: policy.execut"),
        (["runsync", "abc", "--input", '{"a":1}', "--wait", "soon"], '--wait: "soon" is not a duration'),
        (["status", "abc", "../health"], "'../health' is no job id"),
        (["status", "abc", "job-1", "--serverless-url", "ftp://x"], "--serverless-url: this is no URL"),
        (["status", "abc"], "Missing argument 'JOB'"),
        (["run", "abc"], "Missing option '--input'"),
    ],
)
def test_what_cannot_be_sent_is_exit_code_2_and_nothing_is(arguments: list[str], complaint: str) -> None:
    with service(QUEUED) as served:
        result = served.api(*arguments)
    assert (result.exit_code, result.stdout, served.requests) == (2, "", [])
    assert complaint in result.stderr


def test_without_a_key_nothing_is_sent() -> None:
    result = give("api", "health", "abc")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no API key; set it in the environment" in result.stderr


def test_a_key_that_would_travel_openly_is_worth_a_warning() -> None:
    url = "http://service.invalid"
    result = give("api", "run", "abc", "--input", "{}", "--serverless-url", url, ORCHESTRATOR_API_KEY=KEY)
    assert f"warning: the API key travels unencrypted to {url}" in result.stderr


# --- what goes on for a while


def test_a_runsync_that_outlives_its_wait_goes_on_with_status() -> None:
    with service(RUNNING, RUNNING, DONE) as served:
        result = served.api("runsync", "abc", "--input", '{"n":1}', "--json")
    assert served.asked == ["POST /v2/abc/runsync", *["GET /v2/abc/status/job-1"] * 2]
    assert result.stdout == DONE_JSON.replace(", ", ",") + "\n"
    assert result.stderr == "job job-1 is IN_PROGRESS; asking until it has finished\n"


CHUNKS = (
    ok('{"status":"IN_PROGRESS","stream":[{"output":"a \\u001b[2J b"},{"output":{"t":1.50},"metrics":{"n":1}}]}'),
    ok('{"status":"IN_PROGRESS","stream":["bare", {"other": 1}]}'),
)


def test_a_job_that_ended_before_it_could_be_cancelled_is_told() -> None:
    with service(ok('{"id":"job-1","status":"COMPLETED"}')) as served:
        result = served.api("cancel", "abc", "job-1")
    assert result.exit_code == 0
    assert result.stderr == "warning: job job-1 had ended before: it is COMPLETED\n"


@pytest.mark.parametrize(("end", "code"), [("COMPLETED", 0), ("FAILED", 1), ("CANCELLED", 1), ("TIMED_OUT", 1)])
def test_a_stream_prints_its_chunks_and_ends_with_the_job(end: str, code: int) -> None:
    with service(*CHUNKS, ok(f'{{"status":"{end}","stream":[]}}')) as served:
        result = served.api("stream", "abc", "job-1")
    assert result.exit_code == code
    assert result.stdout == 'a \\x1b[2J b\n{"t":1.50}\nbare\n{"other":1}\n'
    assert result.stderr == f"job job-1 is {end}; 4 chunks\n"


def test_a_stream_as_json_has_whole_items() -> None:
    with service(*CHUNKS, ok('{"status":"COMPLETED","stream":[]}')) as served:
        lines = served.api("stream", "abc", "job-1", "--json").stdout.splitlines()
    assert lines[1:] == ['{"output":{"t":1.50},"metrics":{"n":1}}', '"bare"', '{"other":1}']
    assert msgspec.json.decode(lines[0]) == {"output": "a \x1b[2J b"}


# --- purging


def test_a_purge_asks_first() -> None:
    with service(ok('{"removed":1}')) as served:
        result = served.api("purge", "abc", input="y\n")
    assert (result.exit_code, served.requests) == (2, [])
    assert "take every waiting job out of the queue of abc? Nobody is here to ask; give --yes" in result.stderr
    assert SAID not in result.stderr, "nothing is sent"


def test_a_purge_warns_about_jobs_of_the_ledger_at_that_endpoint() -> None:
    with service(ok('{"removed":1}')) as served:
        a_ledger(name="night", service_url=served.url, endpoint="abc", outstanding=2, uncertain=1, queued=1)
        a_ledger(name="day", service_url=f"{served.url}/", endpoint="abc", submitting=1)
        a_ledger(name="done", service_url=served.url, endpoint="abc", succeeded=1, queued=1)
        a_ledger(name="away", service_url="https://else.example", endpoint="abc", outstanding=1)
        a_ledger(name="beside", service_url=served.url, endpoint="other", outstanding=1)
        result = served.api("purge", "abc", "--yes")
    assert result.exit_code == 0
    warning = "warning: run {} of orchestrator.db has {} at this endpoint; those that still wait in its queue go, too\n"
    assert result.stderr == warning.format("night", "3 jobs") + warning.format("day", "1 job")


def test_a_ledger_that_cannot_be_read_is_told_and_the_purge_asked_for_all_the_same() -> None:
    Path("my.db").write_text("this is none")
    with service(ok('{"removed":1}')) as served:
        result = served.api("purge", "abc", "--yes", "--ledger", "my.db")
    assert "warning: whether my.db has jobs there could not be seen: " in result.stderr
    assert result.exit_code == 0


# --- errors: one clear line, the right exit code, the secret nowhere


@each_operation
def test_a_refusal_is_one_line_and_exit_code_3(name: str) -> None:
    """Contract, Errors; Authentication 2. What each refusal means: `tests/client/jobs/test_jobs.py`."""
    with service(refusal("429 Too Many", "slow", "Retry-After: 77\r\n")) as served:
        result = served.api(*OPERATIONS[name][0])
    assert (result.exit_code, result.stdout, len(served.requests)) == (3, "", 1)
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert "(429 Too Many Requests: slow); the service asks to wait for 77 s" in line


def test_what_a_question_that_is_repeated_is_sent_within_is_said_once() -> None:
    Path("orchestrator.db").touch()
    with service(refusal("503 Busy"), RUNNING) as served, dispatcher_lock(Path("orchestrator.db"), now=0):
        result = served.api("status", "abc", "job-1")
    assert (result.exit_code, len(served.requests)) == (0, 2)
    assert result.stderr.count(SAID) == 1


def test_advice_that_the_service_has_given_itself_is_not_given_again() -> None:
    said = "only a failed or timed-out job can be retried; this one is COMPLETED"
    with service(refusal("400 Bad Request", f'{{"error":"{said}"}}')) as served:
        result = served.api("retry", "abc", "job-1")
    assert result.stderr == (f"error: retry job-1: the service does not retry this job (400 Bad Request: {said})\n")


def test_nothing_that_could_end_up_in_a_traceback_shows_a_secret() -> None:
    from orchestrator.cli.framework.service_access import Access, Interface
    from orchestrator.cli.service.job_input import read_job_input
    from orchestrator.core.service.row_variables import RowVariables
    from orchestrator.core.text.durations import Policy

    access = Access(urls={Interface.JOBS: "http://h"}, key=KEY)
    request = '{"input":{"n":1},"s3Config":{"accessSecret":"env:S"}}'
    job = read_job_input(request, policy=Policy(), webhook=None, variables=RowVariables({"S": KEY}, ["S"]))
    assert job.s3_config is not None and KEY not in f"{access!r} {job!r}"  # noqa: PT018


def test_quiet_in_the_environment_leaves_only_the_data() -> None:
    with service(RUNNING) as served:
        assert served.api("status", "abc", "job-1", ORCHESTRATOR_QUIET="1").stderr == ""
