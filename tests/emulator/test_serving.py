"""An emulator in one line, from Python, from pytest and as the command line asks for it."""

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from orchestrator import emulator
from orchestrator.api.emulation.child_environment import run_command
from orchestrator.api.emulation.emulate import emulate, emulator_settings
from orchestrator.api.emulation.emulate_request import EmulateRequest
from orchestrator.emulator import ServedEmulator
from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.faults import Faults, Spell
from orchestrator.emulator.contract.faults_file import read_faults
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling
from orchestrator.emulator.pytest_fixture import emulated_service
from orchestrator.errors import UsageError
from tests.emulator.emulators import double

__all__ = ["emulated_service"]


def test_the_fixture_serves_a_handler_in_a_test_of_any_kind(emulated_service: Callable[..., ServedEmulator]) -> None:
    service = emulated_service(double, keys=("the-key",), seed=7)
    answer = httpx.post(
        f"{service.origin}/v2/any/runsync",
        json={"input": {"n": 2}},
        headers={"authorization": f"Bearer {service.environment()['RUNPOD_API_KEY']}"},
    )
    assert answer.json()["output"] == {"double": 4}
    assert service.emulator.stats().jobs_known == 1
    assert set(service.urls.values()) == {service.origin, f"{service.origin}/graphql"}


@pytest.mark.anyio
async def test_without_handlers_endpoints_exist_once_they_are_created() -> None:
    async with emulator.serve() as service, httpx.AsyncClient(base_url=service.origin) as http:
        answer = await http.get("/v2/any/health", headers={"authorization": "k"})
        assert answer.status_code == 404


def test_only_public_names_are_there() -> None:
    with pytest.raises(AttributeError):
        _ = emulator.nothing


def test_faults_come_from_a_file_and_from_the_command_line_which_wins(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("lost_answer = 0.5\nsilence_s = 7\n")
    assert read_faults(file, ["lost_answer=0.1"]) == Faults(lost_answer=0.1, silence_s=7.0)
    assert read_faults(None) == Faults()


def test_spells_come_from_a_file_and_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("[[spells]]\nfrom_s = 60\nfor_s = 40\nnot_json = 0.5\nbare_error = 0.5\n")
    maintenance = Spell(from_s=60, for_s=40, not_json=0.5, bare_error=0.5)
    assert read_faults(file) == Faults(spells=(maintenance,))
    assert read_faults(file, ["unauthorized=1@600+1.5"]) == Faults(
        spells=(maintenance, Spell(from_s=600, for_s=1.5, unauthorized=1.0))
    )


@pytest.mark.parametrize(
    "wrong",
    ["lost_answer", "lost_answer=often", "lost_anser=0.1", "lost_answer=2", "reset=1@60", "reset=1@a+b", "rset=1@1+2"],
)
def test_a_fault_that_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        read_faults(None, [wrong])


def test_a_faults_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="faults file"):
        read_faults(tmp_path / "none.toml")


def test_a_request_becomes_settings(tmp_path: Path) -> None:
    file = tmp_path / "h.py"
    file.write_text("def f(job):\n    return 1\n")
    settings = emulator_settings(
        EmulateRequest(
            endpoints=(f"a={file}:f",),
            http_endpoints=(f"*={file}:f", f"b={file}:f"),
            worker="python handler.py --fast",
            scaling=Scaling(workers_max=2, scaler=Scaler.REQUEST_COUNT),
            error_bodies=ErrorBodies.HTML,
            webhooks_as_observed=True,
            faults=("throttled=0.5",),
            handler_processes=2,
            keys=("k",),
            algorithm=Algorithm.TOKEN_BUCKET,
            retry_after=True,
            queue_per_worker=500,
            page_size=2,
            without=("v1=410", "graphql"),
        )
    )
    assert (set(settings.endpoints), set(settings.http_endpoints)) == ({"a"}, {"*", "b"})
    assert settings.command == (sys.executable, "handler.py", "--fast")
    assert settings.scaling is not None
    assert (settings.scaling.workers_max, settings.scaling.scaler) == (2, Scaler.REQUEST_COUNT)
    assert (settings.error_bodies, settings.webhook_delays_s) == (ErrorBodies.HTML, (5.0, 15.0))
    assert settings.faults.throttled == 0.5
    assert (settings.handler_processes, settings.keys, settings.queue_per_worker) == (2, ("k",), 500)
    assert (settings.algorithm, settings.retry_after) == (Algorithm.TOKEN_BUCKET, True)
    assert (settings.page_size, settings.without) == (2, {"v1": 410, "graphql": 404})


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoints": ("a",)},
        {"endpoints": ("a/b=h.py:f",)},
        {"handler": "h.py:f"},
        {"http_endpoints": ("a",)},
        {"http_endpoints": ("a=h.py:f",)},
        {"http_endpoints": ("a/b=h.py:f",)},
        {"http_endpoints": ("a=h.py:f",), "endpoints": ("a=h.py:f",)},
        {"worker": ""},
        {"worker": "'"},
        {"worker": "no-such-program-anywhere"},
        {"time_scale": 0.0},
        {"without": ("v3",)},
        {"without": ("v1=500",)},
    ],
)
def test_what_cannot_be_emulated_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        emulator_settings(EmulateRequest(**wrong))


def test_a_function_and_a_worker_for_every_endpoint_exclude_each_other(tmp_path: Path) -> None:
    file = tmp_path / "h.py"
    file.write_text("def f(job):\n    return 1\n")
    with pytest.raises(UsageError, match="exclude each other"):
        emulator_settings(EmulateRequest(handler=f"{file}:f", worker="python h.py"))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "\u00e9", "a" * 129])
def test_an_endpoint_that_no_client_could_ask_for_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "h.py"
    file.write_text("def f(job):\n    return 1\n")
    with pytest.raises(UsageError, match="letters, digits"):
        emulator_settings(EmulateRequest(endpoints=(f"{name}={file}:f",)))


@pytest.mark.anyio
async def test_every_variable_of_the_tools_points_here() -> None:
    """Those that say where something is: none may be left that leads to the service itself."""
    async with emulator.serve(endpoints={"llm": double}) as service:
        environment = service.environment()
    assert environment["ORCHESTRATOR_PROFILE"] == "", "one that is set would win over all of this"
    urls = {name: value for name, value in environment.items() if not name.endswith(("_KEY", "_PROFILE"))}
    assert all(value.startswith(service.origin) for value in urls.values())
    assert {name for name in urls if name.startswith("RUNPOD_")} == {
        *("RUNPOD_API_BASE_URL", "RUNPOD_HAPI_URL", "RUNPOD_CONSOLE_URL", "RUNPOD_ENDPOINT_BASE_URL"),
        *("RUNPOD_GRAPHQL_URL", "RUNPOD_AUTHED_GRAPHQL_URL", "RUNPOD_PUBLIC_GRAPHQL_URL", "RUNPOD_INVOKE_URL"),
        *("RUNPOD_API_URL", "RUNPOD_REST_API_URL", "RUNPOD_BASE_URL", "RUNPOD_SERVERLESS_API_URL"),
        *("RUNPOD_REST_V2_URL", "RUNPOD_REST_V2_API_URL"),
    }
    assert urls["OPENAI_BASE_URL"] == f"{service.origin}/v2/llm/openai/v1"


@pytest.mark.anyio
async def test_a_command_has_the_variables_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    """Also where it is stopped, and where a signal ends it."""
    file = tmp_path / "emulator.env"
    check = 'sh -c \'test "$RUNPOD_API_URL" = "$ORCHESTRATOR_REST_URL/v1" && exit 7\''
    ready: list[Mapping[str, str]] = []

    async def emulated(run: str, stop: anyio.Event, **more: Any) -> int:
        request = EmulateRequest(port=0, run=run, **more)
        return await emulate(request, lambda _, environment: ready.append(environment), stop)

    file.write_text("OLD=1\n" * 99)  # readable by everybody, until there is a key in it
    with file.open() as before:
        assert await emulated(check, anyio.Event(), env_file=file) == 7
        assert before.read() == "OLD=1\n" * 99, "who reads it meanwhile reads one or the other"
    assert dict(line.split("=", 1) for line in file.read_text().splitlines()) == ready[0]
    assert file.stat().st_mode & 0o777 == 0o600
    stop = anyio.Event()
    stop.set()
    assert await run_command(("sleep", "60"), {}, stop, grace_s=0) == 128 + signal.SIGTERM
    assert await emulated("sh -c 'exit 5'", stop) == 5, "who hears of Ctrl-C has its own last word"
    for wrong in ("", "'", "no-such-program-anywhere"):
        with pytest.raises(UsageError, match=r"^--run"):
            await emulated(wrong, stop)
    with pytest.raises(BaseExceptionGroup, check=lambda group: "it is a folder" in repr(group.exceptions)):
        await emulated("true", stop, env_file=tmp_path)


@pytest.mark.anyio
async def test_the_key_to_paste_is_no_common_word() -> None:
    async with emulator.serve(double) as service:
        assert service.environment()["RUNPOD_API_KEY"] not in emulator.__name__


@pytest.mark.anyio
@pytest.mark.parametrize(("scale", "told"), [(60.0, "60"), (1.0, None)])
async def test_every_answer_says_how_fast_time_runs_where_it_does_not_run_as_the_clock_does(
    scale: float, told: str | None
) -> None:
    async with (
        emulator.serve(handler=lambda job: job["input"], time_scale=scale) as service,
        httpx.AsyncClient(headers={"Authorization": f"Bearer {service.key}"}) as http,
    ):
        good = await http.get(f"{service.origin}/v2/abc/health")
        bad = await http.get(f"{service.origin}/nowhere")

    assert (good.status_code, bad.status_code) == (200, 404)
    assert good.headers.get("x-emulator-time-scale") == bad.headers.get("x-emulator-time-scale") == told
