"""`status`, `results`, `emulate`, help and version; and the real program in a process of its own."""

import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import msgspec
import pytest

from orchestrator import __version__
from orchestrator.api.emulation.emulate_request import EmulateRequest
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.output import streams
from orchestrator.cli.runs.status import SHOWN_MAX, status_text
from orchestrator.cli.service.emulate import show_place
from orchestrator.core.diagnosis.failed_executions import RetriedKind
from orchestrator.core.gates.gates import CANCELLED, PAUSED, STOPPED, SUSPECT
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.views.status import CollectedBy, LastProcess, MarginSummary, RunsShown, RunStatus, UncertainSummary
from tests.cli.command_line import give, requested
from tests.cli.command_line import shown as shown_by
from tests.cli.samples import run_status
from tests.cli.small_ledger import a_ledger, a_ledger_of_runs
from tests.costs import cpu_s, slowness
from tests.engine.rows import empty_ledger

HELP_CPU_S_MAX = 2.0
"""Generous, for busy machines; a fifth of a second is usual. What matters is what is imported."""


def shown(*runs: RunStatus) -> RunsShown:
    return RunsShown(runs=runs, more=0, more_jobs={}, last_process=None)


def test_status_shows_each_run() -> None:
    busy = msgspec.structs.replace(
        run_status(queued=3581, outstanding=280, succeeded=6101, failed=38, cancelled=1),
        uncertain=UncertainSummary(seen=3, adopted=2, resubmitted=1),
        lost=1,
        expired=2,
        margin_s=MarginSummary(min=250.5, p1=1600.0),
        jobs_per_s=98.72,
        held_by="process 4711 since 2026-01-01 00:00:00 UTC",
        window_used=994,
        window_allowed=1000,
        window_s=10.0,
        throttled=0,
    )
    other = run_status("a-name-longer-than-any-other-name", succeeded=400)
    lines = status_text(shown(busy, other), width=80, colours=False).splitlines()
    assert [line.rstrip() for line in lines] == [
        "run                                  jobs   done  succeeded  failed",
        "─" * 67,
        "captions                           10,001   61 %      6,101      38",
        "a-name-longer-than-any-other-name     400  100 %        400       0",
        "",
        "captions at abc123: 3,581 queued; 280 outstanding; 1 cancelled; 98.7 jobs/s; 994",
        "of 1,000 requests in 10 s, none throttled; 3 were uncertain (2 adopted, 1",
        "resubmitted); 1 lost; 2 expired; closest call: collected 4 min before expiry",
        "a-name-longer-than-any-other-name at abc123: nothing left to do",
        "process 4711 since 2026-01-01 00:00:00 UTC is working on this ledger",
    ]


def test_status_names_all_who_work_on_the_ledger_of_several() -> None:
    """One may have taken what it has at different times."""
    held = [f"process {n} on {n} since 2026-01-01 12:0{minute}:00 UTC" for n, minute in ((1, 0), (2, 0), (1, 5))]
    runs = [msgspec.structs.replace(run_status(queued=1), held_by=each) for each in held]
    last = " ".join(status_text(shown(*runs), width=120, colours=False).splitlines()[-2:])
    assert (last.count("process 1"), last.count("process 2"), "UTC are working on this ledger" in last) == (1, 1, True)


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (CollectedBy.WEBHOOKS, "collected by webhooks; may be offline for 29 min"),
        (CollectedBy.POLLING, "collected by polling; may be offline for 29 min"),
        (
            CollectedBy.POLLING_INSTEAD,
            "collected by polling, since webhooks do not arrive; may be offline for 29 min",
        ),
    ],
)
def test_status_says_how_results_are_collected_as_long_as_some_are_missing(by: CollectedBy, told: str) -> None:
    at_work = msgspec.structs.replace(run_status(outstanding=2), collected_by=by, safe_offline_s=1_750.0)
    ended = msgspec.structs.replace(run_status(succeeded=2), collected_by=by)
    assert f"2 outstanding; {told}\n" in status_text(shown(at_work), width=200, colours=False)
    assert "collected" not in status_text(shown(ended), width=200, colours=False)


@pytest.mark.parametrize("why", [PAUSED, CANCELLED, SUSPECT, f"{STOPPED}: the service refused the API key [b](401)"])
def test_status_says_first_why_nothing_of_an_unfinished_run_is_sent(why: str) -> None:
    held = msgspec.structs.replace(run_status(queued=3), held_up=why)
    ended = msgspec.structs.replace(run_status(succeeded=3), held_up=why)
    assert f"at abc123: {why}; 3 queued" in status_text(shown(held), width=200, colours=False)
    assert json.loads(shown_by(partial(streams.put_json, [held])).stdout)[0]["held_up"] == why
    assert "nothing left to do" in status_text(shown(ended), width=80, colours=False)


def test_status_says_what_executions_failed_of_that_are_tried_again() -> None:
    kinds = tuple(
        RetriedKind(count=n, class_="failed", sample=sample, execution_s=1.0)
        for n, sample in ((1_200, "CUDA out of memory"), (3, ""))
    )
    run = msgspec.structs.replace(run_status(queued=3), retried_executions=1_203, largest_retried=kinds)
    assert "tried again after: CUDA out of memory (1,200), failed (3)" in status_text(
        shown(run), width=200, colours=False
    )


def test_status_shows_names_as_they_are_and_obeys_none() -> None:
    run = msgspec.structs.replace(
        run_status(queued=3), run="[red]x[/red] a/b", endpoint="local:/tmp/\x1b[2J/h.py:[b]f", held_up="\x07no"
    )
    text = status_text(shown(run), width=200, colours=False)
    assert "\n[red]x[/red] a/b     3" in text
    assert "\n[red]x[/red] a/b at local:/tmp/\\x1b[2J/h.py:[b]f: \\x07no; 3 queued\n" in text
    long = status_text(shown(msgspec.structs.replace(run, run="n" * 200)), width=80, colours=False)
    assert max(len(line) for line in long.splitlines()) <= 80
    assert long.count("n") >= 400, "all of it, in the table and below"


def test_status_has_colours_on_a_terminal_only() -> None:
    runs = [run_status(succeeded=1, failed=1)]
    assert "\x1b[" in status_text(shown(*runs), width=80, colours=True)
    assert "\x1b[" not in status_text(shown(*runs), width=80, colours=False)


def test_a_run_of_no_jobs_is_no_accident() -> None:
    assert "0 %" in status_text(shown(run_status()), width=80, colours=False)


def test_of_many_runs_status_shows_some_and_folds_the_others_into_one_line() -> None:
    a_ledger_of_runs(SHOWN_MAX + 2)
    told = give("status").stdout
    names = [line.split()[0] for line in told.splitlines() if line.startswith("run-") and " at " not in line]
    assert names == [f"run-{n}" for n in range(2, SHOWN_MAX + 2)]
    assert "2 of 22 runs are not shown (2 jobs, 0 % done, 0 failed); all of them: orchestrator" in told.replace(
        "\n", " "
    )
    everything = give("status", "--all").stdout
    assert "not shown" not in everything
    assert all(f"run-{n} at ep: " in everything for n in range(SHOWN_MAX + 2))
    assert len(json.loads(give("status", "--json").stdout)) == SHOWN_MAX + 2


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("it was asked to stop", "stopped at 2026-01-01 00:01:00 UTC: it was asked to stop"),
        (None, "ended without a word after 2026-01-01 00:01:00 UTC; it was killed, or crashed"),
    ],
)
def test_status_says_why_nobody_works_on_what_is_left(why: str | None, told: str) -> None:
    since = 1_767_225_600_000_000
    last = LastProcess(process="host 7", since=since, until=since + 60_000_000, why=why)
    left = msgspec.structs.replace(shown(run_status(queued=1)), last_process=last)
    assert f"the last process, host 7, {told}\n" in status_text(left, width=200, colours=False)
    done = msgspec.structs.replace(shown(run_status(succeeded=1)), last_process=last)
    assert "nobody works" not in status_text(done, width=200, colours=False)


def test_status_says_what_nobody_could_be_told() -> None:
    some = msgspec.structs.replace(shown(run_status(succeeded=1)), untold=2, owed=3, owed_problem="x answered 500")
    told = (
        "\n2 notifications could not be sent; why: orchestrator schedules check"
        "\n3 notifications still to be sent (x answered 500), by who works on this ledger\n"
    )
    assert status_text(some, width=200, colours=False).endswith(told)


def test_status_as_json_is_one_array() -> None:
    a_ledger(succeeded=2)
    a_ledger(name="other", queued=1)
    runs = msgspec.json.decode(give("status", "--json").stdout_bytes, type=list[RunStatus])
    assert [(run.run, run.jobs["succeeded"], run.jobs["queued"]) for run in runs] == [
        ("captions", 2, 0),
        ("other", 0, 1),
    ]
    assert shown_by(partial(streams.put_json, runs)).stdout == give("status", "--json").stdout


def test_an_empty_ledger_is_said_to_be_empty() -> None:
    empty_ledger(Path("l.db"))
    result = give("status", "--ledger", "l.db")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "l.db has no runs yet\n")
    assert give("status", "--ledger", "l.db", "--json").stdout == "[]\n"


def test_results_carry_what_is_asked_for() -> None:
    refused = give("results", "captions", "--include", "lines")
    assert '--include: "lines" is none of input, line, worker, endpoint, times, text' in refused.stderr
    a_ledger(succeeded=1)
    assert json.loads(give("results", "captions", "--include", "line").stdout)["line"] == 1
    words = ("runs", "export", "captions", "--output", "o.jsonl", "--include", "line")
    assert give(*words).exit_code == 0
    assert json.loads(Path("o.jsonl").read_text())["line"] == 1


def test_results_are_bytes_on_standard_output() -> None:
    line = b'{"a":"\xc3\xa9"}\n'
    assert shown_by(partial(streams.put_data, line)).stdout_bytes == line
    a_ledger(succeeded=2)
    result = give("results", "captions")
    assert [json.loads(each)["custom_id"] for each in result.stdout_bytes.splitlines()] == ["n-1", "n-2"]
    assert (result.exit_code, result.stderr) == (0, "")


def test_no_results_are_said_to_be_none() -> None:
    a_ledger(queued=1)
    assert give("results", "captions").stderr == "captions has no results yet\n"
    assert give("results", "captions", "--errors").stderr == "captions has no failed or cancelled jobs yet\n"


PLACE = ({"serverless_url": "http://127.0.0.1:8900"}, {"NAME": "value"})


def test_the_emulator_says_where_it_is() -> None:
    request = requested("emulate", "--handler", "h.py:f", "--workers", "8")
    assert request == EmulateRequest(port=8900, handler="h.py:f", scaling=fixed(8))
    result = shown_by(partial(show_place, request, *PLACE, as_json=False))
    assert result.stdout == ""
    assert result.stderr == (
        "serving h.py:f at http://127.0.0.1:8900; stop with Ctrl-C\n"
        "  serverless_url  http://127.0.0.1:8900\n"
        "for this program and the official tools:\n"
        "  export NAME=value\n"
    )


def test_the_emulator_says_where_it_is_as_json() -> None:
    result = shown_by(partial(show_place, EmulateRequest(), *PLACE, as_json=True))
    assert json.loads(result.stdout) == {
        "urls": {"serverless_url": "http://127.0.0.1:8900"},
        "environment": {"NAME": "value"},
    }
    assert result.stderr == ""


def test_the_version_is_one_line() -> None:
    result = give("--version")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"orchestrator {__version__}\n", "")


def test_a_program_that_cannot_be_imported_is_a_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> int:
        raise AssertionError

    assert execute(work, needs="orchestrator.api.of_no_such_name") == 70
    assert "ModuleNotFoundError: this is a defect of orchestrator" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1


def orchestrator(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_version_is_printed() -> None:
    result = orchestrator("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("orchestrator ")


def test_help_comes_at_once() -> None:
    before_s = cpu_s()
    assert orchestrator("--help").returncode == 0
    assert cpu_s() - before_s < HELP_CPU_S_MAX * slowness()


STUBBORN = """
import threading, time
from orchestrator.cli.output import streams
threading.Thread(target=time.sleep, args=(50,)).start()
print("data")
streams.leave(3)
"""


def test_a_thread_that_never_ends_does_not_keep_the_program() -> None:
    result = subprocess.run([sys.executable, "-c", STUBBORN], capture_output=True, check=False, timeout=40)
    assert (result.returncode, result.stdout) == (3, b"data\n")


NOT_LOADED = {
    "orchestrator.cli": (
        "orchestrator.engine",
        "orchestrator.ledger",
        "orchestrator.client",
        "orchestrator.emulator.jobs.world",
        "sqlalchemy",
        "httpx",
        "aiohttp",
        "anyio",
        "asyncio",
        "starlette",
        "uvicorn",
        "rich",
    ),
    "orchestrator.api.inspect.status": (
        "orchestrator.client",
        "httpx",
        "aiohttp",
        "starlette",
        "uvicorn",
        "graphql",
        "alembic",
        "jinja2",
    ),
    "orchestrator.api.foreground.run": ("orchestrator.emulator", "uvicorn", "graphql", "alembic", "jinja2"),
}
"""What `--help`, `status` and a run over the network do without."""


LOADING = f"""
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    print(module, [name for name in {NOT_LOADED}[module] if name in sys.modules])
"""


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param(("orchestrator.cli", "orchestrator.api.inspect.status"), marks=pytest.mark.slow),
        ("orchestrator.api.foreground.run",),
    ],
    ids=["looking", "run"],
)
def test_a_command_does_not_import_what_only_others_need(modules: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADING, *modules], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{module} []" for module in modules]


def ended(process: "subprocess.Popen[bytes]") -> bytes:
    """What the process said on standard error until its end; it is killed when that does not come."""
    watchdog = threading.Timer(40, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        return process.stderr.read()
    finally:
        watchdog.cancel()


FLOOD = """
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.output import streams
async def work():
    for _ in range(100_000):
        streams.put_data(b'{"custom_id": "x"}\\n')
    return 0
streams.leave(execute(work))
"""


def test_a_reader_that_has_enough_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", FLOOD], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"custom_id": "x"}\n'
        process.stdout.close()
        assert ended(process) == b""
    assert process.returncode == 0


LITTLE = """
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.output import streams
async def work():
    streams.put_data(b"x\\n")
    input()
    streams.flush()
    return 0
streams.leave(execute(work))
"""


def test_a_reader_that_left_before_the_first_line_is_no_error_either() -> None:
    command = [sys.executable, "-c", LITTLE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert ended(process) == b""
    assert process.returncode == 0


IDLE = """
import anyio
from orchestrator.cli.framework.runner import while_read
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.output import streams
async def follow():
    streams.put_data(b"x\\n")
    streams.flush()
    await anyio.sleep_forever()
async def work():
    return await while_read(follow)
streams.leave(execute(work))
"""


def test_who_follows_ends_when_its_reader_has_enough_even_if_nothing_comes_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", IDLE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n", "at once, and not when a buffer is full"
        process.stdout.close()
        assert ended(process) == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (("--errors",), ["n-3", "n-4"]),
        (("--failed", "--order", "completion"), ["n-3"]),
        (("--where", "line>1"), ["n-2"]),
        (("-f", "--where", "line>1"), ["n-2"]),
    ],
)
def test_which_results_and_in_which_order_is_handed_on(words: tuple[str, ...], jobs: list[str]) -> None:
    a_ledger(succeeded=2, failed=1, cancelled=1)
    assert [json.loads(line)["custom_id"] for line in give("results", *words).stdout.splitlines()] == jobs


@pytest.mark.parametrize(
    "words",
    [("--errors", "--failed"), ("--follow", "--order", "input"), ("--order", "random")],
)
def test_what_contradicts_itself_is_refused(words: tuple[str, ...]) -> None:
    assert give("results", *words).exit_code == 2
