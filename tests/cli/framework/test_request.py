"""Every flag reaches the request, and everything that can be refused at once is, by name and with advice."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.cli.framework.flags_to_requests import warnings
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from tests.cli.command_line import LOCAL, call, requested

KEY = {"ORCHESTRATOR_API_KEY": "rpa_secret"}


def asked(*arguments: str, **environment: str) -> RunRequest:
    """The request that these arguments to `run` (after the input) make."""
    found = requested("run", "prompts.jsonl", *arguments, **environment)
    assert isinstance(found, RunRequest)
    return found


def refused(*arguments: str, **environment: str) -> str:
    """What is said when these arguments are refused; nothing is done then."""
    result = call(arguments, environment=environment)
    assert (result.exit_code, result.stdout, [*Path().glob("*.db")]) == (2, "", [])
    return result.stderr.removeprefix("error: ").rstrip("\n")


def test_without_flags_everything_is_as_documented() -> None:
    assert replace(asked("--endpoint", "abc123", **KEY), configuration=None) == RunRequest(
        name="prompts",
        named=False,
        source="prompts.jsonl",
        endpoint="abc123",
        ledger=Path("orchestrator.db"),
        connection=ConnectionSettings(api_key="rpa_secret"),
        settings=RunSettings(),
    )


def test_every_flag_reaches_the_request() -> None:
    request = asked(
        *(
            "--endpoint",
            "abc123",
            "--name",
            "captions",
            "--ledger",
            "l.db",
            "--output",
            "o.jsonl",
            "--errors",
            "e.jsonl",
        ),
        *("--serverless-url", "https://gpu.example/", "--listen", ":8080", "--webhook-url", "https://me.example/x/"),
        *("--max-attempts", "5", "--ttl", "2h", "--execution-timeout", "90s", "--low-priority"),
        *("--priority", "-3"),
        *(
            "--result-retention",
            "10m",
            "--queue-depth",
            "5000",
            "--on-uncertain",
            "hold",
            "--uncertain-after",
            "0s",
            "--on-expired",
            "fail",
        ),
        *("--retry-failed", "--limit", "run=500/10:50", "--limit", "status=100/1"),
        *("--pacing", "window", "--requests-per-worker", "30"),
        **KEY,
    )
    assert replace(request, configuration=None) == RunRequest(
        name="captions",
        source="prompts.jsonl",
        endpoint="abc123",
        ledger=Path("l.db"),
        output=Path("o.jsonl"),
        errors=Path("e.jsonl"),
        connection=ConnectionSettings(
            serverless_url="https://gpu.example",
            api_key="rpa_secret",
            listen="127.0.0.1:8080",
            webhook_url="https://me.example/x",
            limits={**CONTRACT_LIMITS, Operation.RUN: Limit(500, 10, 50), Operation.STATUS: Limit(100, 1, 400)},
            pacing="window",
            requests_per_worker=30,
        ),
        settings=RunSettings(
            policy=Policy(execution_timeout_ms=90_000, ttl_ms=7_200_000, low_priority=True),
            max_attempts=5,
            priority=-3,
            retention_us=600_000_000,
            queue_depth=5_000,
            on_uncertain=OnUncertain.HOLD,
            uncertain_after_us=0,
            on_expired=OnExpired.FAIL,
        ),
        retry_failed=True,
    )


@pytest.mark.parametrize("text", ["auto", "off"])
def test_the_queue_depth_may_be_a_word(text: str) -> None:
    settings = asked("--endpoint", LOCAL, "--queue-depth", text).settings
    assert settings is not None
    assert settings.queue_depth == text


@pytest.mark.parametrize("text", ["0", "-1", "many", "10000001", "9" * 5_000, "1e3"])
def test_a_queue_depth_that_is_none_is_refused(text: str) -> None:
    result = call(["run", "i.jsonl", "--endpoint", LOCAL, "--queue-depth", text], environment={})
    assert result.exit_code == 2
    assert "auto, off, or a number from 1 to 10,000,000" in result.stderr


def test_errors_stand_beside_the_output_by_default() -> None:
    assert asked("--endpoint", LOCAL, "--output", "out/r.jsonl").errors == Path("out/r.jsonl.errors.jsonl")


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"RUNPOD_API_KEY": "b"}, "b"),
        ({"ORCHESTRATOR_API_KEY": "a", "RUNPOD_API_KEY": "b"}, "a"),
        ({"ORCHESTRATOR_API_KEY": " ", "RUNPOD_API_KEY": "b\n"}, "b"),
    ],
)
def test_the_key_comes_from_the_environment(environment: dict[str, str], key: str) -> None:
    assert asked("--endpoint", "abc123", **environment).connection.api_key == key


def test_a_local_endpoint_needs_no_key() -> None:
    assert asked("--endpoint", LOCAL).connection.api_key == ""


def test_a_listener_needs_no_url_when_the_service_is_on_this_machine() -> None:
    listen = ("--listen", "127.0.0.1:0")
    assert asked("--endpoint", LOCAL, *listen).connection.webhook_url is None
    for url in ("http://127.0.0.1:8900", "http://localhost:8900", "http://[::1]:8900", "http://emu.localhost:8900"):
        assert asked("--endpoint", "a", "--serverless-url", url, *listen, **KEY).connection.listen == "127.0.0.1:0"


def test_standard_input_is_an_input_like_others_once_it_has_a_name() -> None:
    found = requested("run", "-", "--endpoint", LOCAL, "--name", "piped")
    assert (found.source, found.name, found.named) == ("-", "piped", True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run", "Missing argument 'INPUT...'.\nsee: orchestrator run --help"),
        ("run i.jsonl", "--endpoint is missing; give your endpoint's id, or local:FILE.py:FUNCTION for a function of yours"),
        ("run i.jsonl --endpoint https://x/v2/abc", "https://x/v2/abc is a URL, and what is there has no queue; say how it takes requests, with --via openai or --via http"),
        ("run i.jsonl --endpoint https://me:secret@x", "--endpoint: the URL of an endpoint has no user and no password; give it headers in the configuration file"),
        ("run i.jsonl --endpoint https://x/v1?key=secret --via openai", "--endpoint: the URL of an endpoint has no query (?) and no fragment (#); leave them out"),
        ("run i.jsonl --endpoint ftp://x --via openai", "--endpoint: this is no URL of an endpoint; write https://HOST/PATH or http://HOST:PORT/PATH"),
        ("run i.jsonl --endpoint https://x --via openai --ttl 1h", "--ttl is for jobs in the service's queue, and --via openai goes past it; leave one out"),
        ("run i.jsonl --endpoint https://x --via openai --low-priority", "--low-priority is for jobs in the service's queue, and --via openai goes past it; leave one out"),
        ("run i.jsonl --endpoint https://x --via openai --resumable", "--resumable is for jobs in the service's queue, and --via openai goes past it; leave one out"),
        ("run i.jsonl --endpoint https://x --via openai --workers-max 3", "--workers-max is for endpoints of the service, and https://x is a URL; leave it out"),
        ("run i.jsonl --endpoint https://x --via openai --listen :8080", "--listen is for jobs in the service's queue, and https://x is a URL"),
        ("run i.jsonl --endpoint local:f.py:f --via http", "--via http is for a server at a URL, and local:f.py:f is none; give its URL as --endpoint"),
        ("run i.jsonl --endpoint https://x --via openai --path /generate", "--path is for --via http; give that, too"),
        ("run i.jsonl --endpoint https://x --via http --path generate", '--path: "generate" is no path; write it as in /generate, without a query (?)'),
        ("run i.jsonl --endpoint https://x --via http --path /../x", '--path: "/../x" is no path; write it as in /generate, without a query (?)'),
        ("run i.jsonl --endpoint local:f.py:f --chunk 16 --resumable", "--resumable is of one job alone, and with --chunk several rows are one job of the service; leave one out"),
        ("run i.jsonl --endpoint local:f.py:f --chunk 16 --stream", "--stream is of one job alone, and with --chunk several rows are one job of the service; leave one out"),
        ("run i.jsonl --endpoint local:f.py:f --chunk 16 --via batch", "--chunk is for jobs that leave by /run, and --via batch has another way for them; leave one out"),
        ("run i.jsonl --endpoint local:f.py:f --chunk 16 --via both", "--chunk is for jobs that leave by /run, and --via both has another way for them; leave one out"),
        ("run i.jsonl --endpoint https://x --chunk 16 --via http", "--chunk is for jobs that leave by /run, and --via http has another way for them; leave one out"),
        ("run i.jsonl --endpoint https://x --via http --stream", "--stream is for jobs in the service's queue, and --via http goes past it; leave one out"),
        ("run i.jsonl --endpoint https://x,local:f.py:f --via http", "--via http is for a server at a URL, and local:f.py:f is none; give its URL as --endpoint"),
        ("run i.jsonl --endpoint local:f.py", '--endpoint: "local:f.py" names no function; write local:FILE.py:FUNCTION'),
        ("run i.jsonl --endpoint local:f.py:a-b", '--endpoint: "local:f.py:a-b" names no function; write local:FILE.py:FUNCTION'),
        ("run i.jsonl --endpoint abc1", "there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=... (RUNPOD_API_KEY is accepted too; an emulator takes any)\nor run without an account: --endpoint local:FILE.py:FUNCTION"),
        ("run - --endpoint local:f.py:f", "standard input has no name; give the run one with --name"),
        ("run / --endpoint local:f.py:f", "'/' gives no name for the run; choose one with --name"),
        ("run i.jsonl --endpoint local:f.py:f --name ", "--name: a run's name has 1 to 200 printable characters"),
        ("run i.jsonl --endpoint local:f.py:f --max-attempts three", '--max-attempts: "three" is no whole number from 1 to 1000'),
        ("run i.jsonl --endpoint local:f.py:f --max-attempts 0", '--max-attempts: "0" is no whole number from 1 to 1000'),
        ("run i.jsonl --endpoint local:f.py:f --priority 99", '--priority: "99" is no whole number from -10 to 10'),
        ("run i.jsonl --endpoint local:f.py:f --priority high", '--priority: "high" is no whole number from -10 to 10'),
        ("run i.jsonl --endpoint local:f.py:f --ttl soon", '--ttl: "soon" is not a duration; write a number and a unit: 250ms, 90s, 30m, 24h or 7d'),
        ("run i.jsonl --endpoint local:f.py:f --ttl 5s", "--ttl: policy.ttl is 5000 ms; the service takes 10000 (10 s) to 604800000 (7 days)"),
        ("run i.jsonl --endpoint local:f.py:f --execution-timeout 8d", "--execution-timeout: policy.executionTimeout is 691200000 ms; the service takes 5000 (5 s) to 604800000 (7 days)"),
        ("run i.jsonl --endpoint local:f.py:f --result-retention 5ms", "--result-retention: a result is kept for 1 s at least"),
        ("run i.jsonl --endpoint local:f.py:f --uncertain-after x", '--uncertain-after: "x" is not a duration; write a number and a unit: 250ms, 90s, 30m, 24h or 7d'),
        ("run i.jsonl --endpoint local:f.py:f --limit run=fast", "--limit: 'run=fast' is no limit; write OPERATION=REQUESTS/SECONDS[:CONCURRENT], as in run=1000/10:200"),
        ("run i.jsonl --endpoint local:f.py:f --pacing fast", '--pacing: "fast" is no pacing; there are even and window'),
        ("run i.jsonl --endpoint local:f.py:f --requests-per-worker 0", '--requests-per-worker: "0" is no whole number from 1 to 1000000000'),
        ("run i.jsonl --endpoint local:f.py:f --limit run=0/10", "--limit: a limit allows 1 to 1000000000 requests, not 0"),
        ("run i.jsonl --endpoint local:f.py:f --limit run=1/1 --limit run=2/1", "--limit: an operation is named twice; give each one limit"),
        ("run i.jsonl --endpoint local:f.py:f --listen 8080", "--listen: '8080' is no address to listen on; write HOST:PORT, :PORT or [IPv6]:PORT"),
        ("run i.jsonl --endpoint local:f.py:f --webhook-url http://me", "--webhook-url needs --listen HOST:PORT: nobody would be there to take the webhooks"),
        ("run i.jsonl --endpoint local:f.py:f --listen :0 --webhook-url me", "--webhook-url: the webhook URL cannot be used: write http://HOST[:PORT][/PREFIX] or https://..."),
        ("run i.jsonl --endpoint abc1 --listen :0", "--listen needs --webhook-url: the URL under which the service reaches this machine.\nWithout a reachable URL leave both out; results are then polled"),
        ("run i.jsonl --endpoint abc1 --serverless-url gpu.example", "--serverless-url: this is no URL; write https://HOST or http://HOST:PORT"),
        ("run i.jsonl --endpoint abc1 --serverless-url http://h:port", "--serverless-url: this is no URL; write https://HOST or http://HOST:PORT"),
        ("run i.jsonl --endpoint abc1 --serverless-url http://hö", "--serverless-url: this is no URL; write https://HOST or http://HOST:PORT"),
        ("run i.jsonl --endpoint abc1 --serverless-url http://me:pw@h", "--serverless-url: the URL must not hold a password, a query (?) or a fragment (#); the API key comes from the environment"),
        ("run i.jsonl --endpoint abc1 --serverless-url http://h/v2/", "--serverless-url: leave /v2 out of the URL; it is added"),
        ("run i.jsonl --endpoint local:f.py:f --errors e", "--errors needs --output: the two files are written together"),
        ("run i.jsonl --endpoint local:f.py:f --output ", "--output: this is no file name"),
        ("run i.jsonl --endpoint local:f.py:f --output - --errors e --json", "--json and --output would both write to standard output; leave one out"),
        ("run o.partial --endpoint local:f.py:f --output o", "what --output grows in and the input are the same file, o.partial; choose another for one of them"),
        ("run i.jsonl --endpoint local:f.py:f --output i.jsonl", "--output and the input are the same file, i.jsonl; choose another for one of them"),
        ("run i.jsonl --endpoint local:f.py:f --output ./x/../orchestrator.db", "--output and the ledger are the same file, x/../orchestrator.db; choose another for one of them"),
        ("run i.jsonl --endpoint local:f.py:f --output o --errors o", "--errors and --output are the same file, o; choose another for one of them"),
        ("run i.jsonl --endpoint local:f.py:f --ledger i.jsonl", "the input and the ledger are the same file, i.jsonl; choose another for one of them"),
        ("resume captions --webhook-url http://me", "--webhook-url needs --listen HOST:PORT: nobody would be there to take the webhooks"),
        ("resume captions --output orchestrator.db", "--output and the ledger are the same file, orchestrator.db; choose another for one of them"),
        ("rnu", "No such command 'rnu'. Did you mean 'run'?\nsee: orchestrator --help"),
        ("status --config nowhere.toml", "nowhere.toml: the configuration file cannot be read (No such file or directory)"),
        ("results captions --config nowhere.toml", "nowhere.toml: the configuration file cannot be read (No such file or directory)"),
    ],
)  # fmt: skip
def test_refused_by_name_and_with_advice(arguments: str, message: str) -> None:
    assert refused(*arguments.split(" ")) == message


def test_resume_has_no_flags_for_what_belongs_to_the_run() -> None:
    assert refused("resume", "captions", "--ttl", "1h").startswith("No such option: --ttl")


@pytest.mark.parametrize("flag", ["--on-uncertain", "--on-expired"])
def test_an_unknown_choice_is_refused(flag: str) -> None:
    assert flag in refused("run", "i.jsonl", "--endpoint", LOCAL, flag, "maybe")


def test_a_key_with_strange_characters_is_refused_without_printing_it() -> None:
    message = refused("run", "i.jsonl", "--endpoint", "abc", ORCHESTRATOR_API_KEY="rpa secret")
    assert message == "ORCHESTRATOR_API_KEY holds characters that no API key has; copy the key anew"


def test_a_link_to_the_input_is_the_input(tmp_path: Path) -> None:
    (tmp_path / "i.jsonl").touch()
    (tmp_path / "symbolic").symlink_to("i.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "i.jsonl")
    for output in ("symbolic", "hard"):
        assert "the same file" in refused("run", "i.jsonl", "--endpoint", LOCAL, "--output", output)


def test_results_may_go_to_standard_output() -> None:
    request = asked("--endpoint", LOCAL, "--output", "-", "--errors", "e.jsonl")
    assert (request.output, request.errors) == (Path("/dev/stdout"), Path("e.jsonl"))


def test_results_and_errors_may_go_to_one_device() -> None:
    assert asked("--endpoint", LOCAL, "--output", "/dev/null", "--errors", "/dev/null").errors == Path("/dev/null")


def test_resume_asks_for_nothing_but_what_was_said() -> None:
    found = requested("resume", "captions", "--retry-failed", "--output", "o.jsonl", "--limit", "run=5/1")
    assert replace(found, configuration=None) == RunRequest(
        name="captions",
        source=None,
        endpoint=None,
        ledger=Path("orchestrator.db"),
        output=Path("o.jsonl"),
        errors=Path("o.jsonl.errors.jsonl"),
        connection=ConnectionSettings(limits={**CONTRACT_LIMITS, Operation.RUN: Limit(5, 1, 200)}),
        retry_failed=True,
    )


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        ("--endpoint local:f.py:f --ttl 5m", "the TTL (5 min) is shorter than the execution timeout (10 min)"),
        ("--endpoint local:f.py:f --execution-timeout 2d", "the TTL (1 day) is shorter than the execution timeout (2 days)"),
        ("--endpoint abc1 --serverless-url http://gpu.example", "the API key travels unencrypted to http://gpu.example"),
        ("--endpoint abc1 --serverless-url http://127.evil.example", "the API key travels unencrypted to http://127.evil.example"),
    ],
)  # fmt: skip
def test_warned_and_done(arguments: str, warning: str) -> None:
    assert any(each.startswith(warning) for each in warnings(asked(*arguments.split(), **KEY)))


def test_the_settings_of_resumable_jobs_reach_the_request() -> None:
    words = "--resumable --progress-every 5m --stall-after 2h --max-segments 7 --max-execution 9d"
    settings = asked("--endpoint", "abc123", *words.split(), **KEY).settings
    assert settings == RunSettings(
        resumable=True,
        progress_every_us=300_000_000,
        stall_after_us=7_200_000_000,
        max_segments=7,
        max_execution_us=777_600_000_000,
    )
    off = asked("--endpoint", "abc123", "--resumable", "--progress-every", "off", **KEY).settings
    assert off is not None
    assert off.progress_every_us == 0


@pytest.mark.parametrize("words", ["--progress-every 5m", "--stall-after 2h", "--max-segments 7", "--max-execution 9d"])
def test_a_setting_of_resumable_jobs_needs_them(words: str) -> None:
    flag = words.split(maxsplit=1)[0]
    told = refused("run", "p.jsonl", "--endpoint", "abc123", *words.split(), **KEY)
    assert told == f"{flag} is for resumable jobs; give --resumable too"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--stall-after 2h --progress-every off", "--stall-after needs to know how far a job is, and --progress-every"),
        ("--progress-every 100ms", "no job is asked more often than every 1 s; off asks not at all"),
    ],
)
def test_settings_of_resumable_jobs_that_cannot_be(words: str, told: str) -> None:
    assert told in refused("run", "p.jsonl", "--endpoint", "abc123", "--resumable", *words.split(), **KEY)


@pytest.mark.parametrize("words", ["--ttl 1h", "--low-priority", "--resumable"])
def test_what_is_for_the_queue_is_refused_past_it(words: str) -> None:
    found = asked("--endpoint", "abc123", "--via", "openai", **KEY).settings
    assert found == RunSettings(via=Via.OPENAI)
    told = refused("run", "p.jsonl", "--endpoint", "abc123", "--via", "openai", *words.split(), **KEY)
    flag = words.split(maxsplit=1)[0]
    assert told == f"{flag} is for jobs in the service's queue, and --via openai goes past it; leave one out"


def test_a_long_execution_of_a_resumable_job_needs_no_ttl_of_its_own() -> None:
    words = ("--endpoint", "abc123", "--execution-timeout", "3d")
    assert "shorter than the execution timeout" in "".join(warnings(asked(*words, **KEY)))
    assert warnings(asked(*words, "--resumable", **KEY)) == ()


def test_in_a_variable_each_template_has_a_line_of_its_own() -> None:
    templates = "prompt={{ row.caption }}, large\n  steps={{ row.n * 2 }}\n"
    reading = asked("--endpoint", "abc123", ORCHESTRATOR_MAP=templates, **KEY).reading
    assert reading.templates == (("prompt", "{{ row.caption }}, large"), ("steps", "{{ row.n * 2 }}"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("https://other.example=secret-1", "number 2, for https://other.example: write URL=env:NAME, where NAME"),
        ("https://other.example", "number 2: write URL=env:NAME, where NAME is the variable that holds the key"),
        ("secret-1=env:KEY", "number 2: this is no URL; write https://HOST"),
    ],
)
def test_a_key_of_a_service_that_is_none_is_told_by_its_number_and_never_shown(given: str, told: str) -> None:
    keys = ("--service-key", "https://a.example=env:KEY", "--service-key", given)
    found = refused("run", "p.jsonl", "--endpoint", "abc123", *keys, **KEY)
    assert found.startswith(f"--service-key: {told}")
    assert "secret" not in found


@pytest.mark.parametrize("stream", ["-", "/dev/null"])
def test_beside_a_stream_errors_go_nowhere_unless_a_file_is_named(stream: str) -> None:
    words = ("--endpoint", "local:f.py:f", "--output", stream)
    assert asked(*words).errors == Path("/dev/null")
    assert asked(*words, "--errors", "e").errors == Path("e")
