"""The command that a message names goes on as the process went that said so, in the same folder, without its variables."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.api.runs.next_command import continue_command, resume_command
from orchestrator.api.runs.run_defaults import as_before
from orchestrator.api.runs.run_identity import settings_of
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import Configuration, RunRequest, errors_beside
from orchestrator.settings.run_settings import RunSettings
from orchestrator.stores.object_url import Location
from tests.cli.command_line import requested
from tests.cli.test_config import write

KEY = "rpa_secret"
REQUIRED = "--endpoint abc123 "

SAID: Mapping[str, tuple[str, dict[str, str], str]] = {
    "nothing": (REQUIRED, {}, ""),
    "all flags": (
        REQUIRED + "--ledger 'my l.db' --output out/r.jsonl --errors 'an e.jsonl' --listen :8080 --webhook-url"
        " https://me.example/x --limit run=500/10:50 --limit status=100/1 --pacing window --requests-per-worker 30",
        {},
        "",
    ),
    "flags of the run alone": (REQUIRED + "--ttl 2h --max-attempts 5 --retry-failed --json", {}, ""),
    "variables": (
        REQUIRED,
        {"ORCHESTRATOR_LIMIT": "run=7/1,status=9/1", "ORCHESTRATOR_LEDGER": "v.db", "ORCHESTRATOR_OUTPUT": "-v.jsonl"},
        "",
    ),
    "the file": ("", {}, 'endpoint = "abc123"\nlimit = ["run=1/10"]\noutput = "f.jsonl"\nlisten = ":0"\nwebhook-url = "http://me"'),
    "flags over the file, as they would be without it": (
        "--limit run=1000/10:200 --ledger orchestrator.db --pacing even",
        {},
        'endpoint = "abc123"\nlimit = ["run=1/10"]\nledger = "f.db"\npacing = "window"',
    ),
    "another file": (REQUIRED + "--config 'an other.toml' --limit run=3/1", {}, ""),
    "another file by its variable": (REQUIRED, {"ORCHESTRATOR_CONFIG": "an other.toml"}, ""),
    "a name like a flag": (REQUIRED + "--name=--quiet --limit run=3/1 --output=-o", {}, ""),
}  # fmt: skip


def process_of(request: RunRequest) -> RunRequest:
    """What of `request` concerns the process rather than the run."""
    return msgspec.structs.replace(
        request,
        source=None,
        endpoint=None,
        settings=None,
        retry_failed=False,
        named=True,
        configuration=None,
        output=None if request.output is None else request.output.absolute(),
        errors=None if request.errors is None else request.errors.absolute(),
    )


def remembered(first: RunRequest, next_one: RunRequest) -> RunRequest:
    """`next_one`, with what the run remembers of `first`."""
    run = run_of(first, RunSettings())
    return as_before(
        next_one, msgspec.structs.replace(run, settings=settings_of(run, first, is_stage=False, now=1, machine="here"))
    ).request


def run_of(request: RunRequest, settings: RunSettings) -> Run:
    return Run(
        id=1,
        name=request.name,
        endpoint_id=1,
        service_url="https://api.example/v2",
        endpoint="abc123",
        source="/p.jsonl",
        settings=settings,
        created_at=1,
        accepted=True,
        rows=1,
    )


def test_what_only_a_stage_can_say_stays_when_its_run_is_given_other_settings() -> None:
    request = requested("run", "prompts.jsonl", *shlex.split(REQUIRED), "--max-attempts", "7", ORCHESTRATOR_API_KEY=KEY)
    of_stage = RunSettings(reuse=Reuse(young_us=1, version="2"), takes_over=3)
    found = settings_of(run_of(request, of_stage), request, is_stage=True, now=1, machine="here")
    assert (found.max_attempts, found.reuse, found.takes_over) == (7, of_stage.reuse, 3)


def test_what_others_change_after_a_run_was_asked_what_it_remembers_stays() -> None:
    request = requested("run", "prompts.jsonl", *shlex.split(REQUIRED), "--max-attempts", "7", ORCHESTRATOR_API_KEY=KEY)
    found = as_before(request, run_of(request, RunSettings(priority=1))).request
    settings = settings_of(run_of(request, RunSettings(priority=5)), found, is_stage=False, now=1, machine="here")
    assert (settings.max_attempts, settings.priority) == (7, 5)


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_the_command_that_is_named_leads_to_the_same_process(said: tuple[str, dict[str, str], str]) -> None:
    arguments, environment, file = said
    if file:
        write(file)
    write('limit = ["run=2/1", "cancel=1/1"]\nledger = "o.db"\nerrors = "oe"\noutput = "oo"', "an other.toml")
    first = requested("run", "prompts.jsonl", *shlex.split(arguments), ORCHESTRATOR_API_KEY=KEY, **environment)

    command = resume_command(first)
    assert KEY not in command
    program, *words = shlex.split(command)
    assert program == "orchestrator"
    goes_on = remembered(first, requested(*words, ORCHESTRATOR_API_KEY=KEY))
    assert process_of(goes_on) == process_of(first)
    assert resume_command(goes_on) == command


def test_what_was_said_against_a_variable_is_named_and_the_ledger_of_a_variable_too() -> None:
    """The next command may be given with the variable, or without: only what the run remembers needs no word."""
    request = requested(
        *("run", "p.jsonl", "--endpoint", "local:f.py:f", "--ledger", "orchestrator.db", "--pacing", "even"),
        ORCHESTRATOR_LEDGER="v.db",
        ORCHESTRATOR_PACING="window",
        ORCHESTRATOR_LIMIT="run=1/2",
    )
    assert resume_command(request) == "orchestrator resume p --ledger orchestrator.db --pacing even"
    assert continue_command(request) == "orchestrator unpause p --ledger orchestrator.db"


def test_a_command_that_needs_the_ledger_alone_reads_no_file_that_was_named() -> None:
    write('ledger = "l.db"', "an other.toml")
    request = requested("run", "p.jsonl", "--endpoint", "local:f.py:f", "--config", "an other.toml")
    assert resume_command(request) == "orchestrator resume p --ledger l.db"
    assert continue_command(request) == "orchestrator unpause p --ledger l.db"
    request = msgspec.structs.replace(request, ledger=Path("orchestrator.db"))
    assert continue_command(request) == "orchestrator unpause p"
    write('ledger = "f.db"')
    assert continue_command(request) == "orchestrator unpause p --ledger orchestrator.db"


def test_what_is_wrong_in_the_file_by_now_does_not_stand_in_the_way() -> None:
    request = RunRequest(
        name="p",
        source=None,
        endpoint=None,
        connection=ConnectionSettings(listen=":0"),
        configuration=Configuration(in_file={"listen": ("nowhere",), "pacing": ("x",)}),
    )
    assert resume_command(request) == "orchestrator resume p --listen :0 --pacing even"


def test_a_file_that_was_named_is_named_again_where_another_or_a_key_would_be_missed() -> None:
    write("", "an other.toml")
    request = requested(
        "run", "p.jsonl", "--endpoint", "local:f.py:f", "--config", "an other.toml", "--limit", "run=1/2"
    )
    assert resume_command(request) == "orchestrator resume p"
    with_key = msgspec.structs.replace(request, connection=ConnectionSettings(keys={"https://b": KEY}))
    assert resume_command(with_key) == "orchestrator resume p --config 'an other.toml'"
    write('ledger = "f.db"')
    assert resume_command(request) == "orchestrator resume p --config 'an other.toml'"


def test_files_that_are_streams_are_named_for_no_run_remembers_them() -> None:
    words = ("--output", "/dev/stdout", "--errors", "/dev/stderr")
    request = requested("run", "p.jsonl", "--endpoint", "local:f.py:f", *words)
    assert resume_command(request) == f"orchestrator resume p {' '.join(words)}"


def test_a_request_that_came_from_no_command_line_names_its_ledger_alone() -> None:
    request = requested(
        "run", "p.jsonl", "--endpoint", "local:f.py:f", "--ledger", "l.db", "--output", "./-", "--limit", "run=1/2"
    )
    request = msgspec.structs.replace(request, configuration=None)
    assert resume_command(request) == "orchestrator resume p --ledger l.db"
    plain = msgspec.structs.replace(
        request, ledger=Path("orchestrator.db"), output=None, errors=None, connection=ConnectionSettings()
    )
    assert resume_command(plain) == "orchestrator resume p"
    write('ledger = "f.db"')
    assert resume_command(plain) == "orchestrator resume p --config /dev/null"


# --- any settings

PATHS = st.builds(Path, st.sampled_from(["a", "b c", "-x", "./-", "ü/d", "'q'", "/tmp/x.db"]))
LIMITS = st.dictionaries(
    st.sampled_from(Operation),
    st.builds(
        Limit,
        st.integers(1, 10**6),
        st.integers(1_000, 86_400 * 10**6).map(lambda us: us / 1_000_000),
        st.integers(1, 10_000),
    ),
    max_size=3,
).map(lambda limits: {**CONTRACT_LIMITS, **limits})
LISTENERS = st.builds(
    lambda port, host, url: {"listen": f"{host}:{port}", "webhook_url": url},
    st.integers(0, 65_535),
    st.sampled_from(["127.0.0.1", "[::1]", "me.example"]),
    st.sampled_from([None, "https://me.example/x", "http://127.0.0.1:1"]),
)
CONNECTIONS = st.builds(
    lambda listener, **more: ConnectionSettings(**{**more, **listener}),
    st.one_of(st.just({}), LISTENERS),
    limits=LIMITS,
    pacing=st.sampled_from(["even", "window"]),
    requests_per_worker=st.none() | st.integers(1, 10**9),
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "ledger": st.sampled_from(["orchestrator.db", "f.db"]),
        "listen": st.sampled_from([":0", "127.0.0.1:80"]),
        "limit": st.sampled_from(["run=1/1", "cancel=7/2:3"]),
        "pacing": st.sampled_from(["even", "window"]),
    },
)


@given(
    connection=CONNECTIONS,
    files=st.none() | st.tuples(PATHS, st.none() | PATHS),
    ledger=st.just(Path("orchestrator.db")) | PATHS,
    name=st.sampled_from(["run", "two words", "-x", "--json", "a'b", "[bold]"]),
    in_file=FILES,
    was_told=st.booleans(),
)
def test_the_told_command_asks_for_the_same(
    connection: ConnectionSettings,
    files: tuple[Path, Path | None] | None,
    ledger: Path,
    name: str,
    in_file: dict[str, str],
    was_told: bool,
) -> None:
    output: Location | None
    errors: Location | None
    output, errors = files or (None, None)
    if output is not None and errors is None:
        errors = errors_beside(output)
    assume(len({ledger, output, errors}) == (3 if output else 2))
    assume(connection.listen is not None or "listen" not in in_file or not was_told)
    request = RunRequest(
        name=name,
        source=None,
        endpoint=None,
        ledger=ledger,
        output=output,
        errors=errors,
        connection=connection,
        configuration=Configuration(in_file={key: (text,) for key, text in in_file.items()}) if was_told else None,
    )
    write("".join(f"{key} = '{text}'\n" for key, text in in_file.items()))
    told = resume_command(request)
    again = requested(*shlex.split(told)[1:])
    assert process_of(remembered(request, again)) == process_of(request)


def test_a_key_that_was_given_itself_is_not_named() -> None:
    connection = ConnectionSettings(api_key=KEY, keys={"https://b": KEY, "https://c": "env:C_KEY"})
    request = RunRequest(name="r", source=None, endpoint=None, connection=connection)
    assert resume_command(request) == "orchestrator resume r", "the run remembers the name of the variable"
    read = msgspec.structs.replace(request, configuration=Configuration(in_file={"service-key": ("https://c=env:D",)}))
    assert resume_command(read) == "orchestrator resume r --service-key https://c=env:C_KEY"
