"""What the exit code says, what stands on which stream, and what becomes of errors."""

import errno
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from orchestrator.cli.framework.crash_reports import KEY_CHARS_MIN, defect_message, leading_failure, write_crash_report
from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.cli.output.streams import ReaderLeftError
from orchestrator.cli.runs.run import carry_out_run
from orchestrator.errors import (
    InputError,
    IntakeBusyError,
    LedgerBusyError,
    LedgerVersionError,
    NotBegunError,
    NotSent,
    OrchestratorError,
    StoppedError,
    StorageError,
    Unanswered,
    UsageError,
)
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.views.status import Summary
from tests.cli.command_line import LOCAL, Result, shown
from tests.cli.samples import summary

REQUEST = RunRequest(name="captions", source="captions.jsonl", endpoint=LOCAL, connection=ConnectionSettings())


def ended(
    answer: Summary | BaseException | None = None,
    *,
    script: Callable[[QuietConsole], object] = lambda console: None,
    quiet: bool = False,
    as_json: bool = False,
    request: RunRequest = REQUEST,
    **environment: str,
) -> Result:
    """What is said of a run that does what `script` says, and ends with this summary or this error."""

    async def run(request: RunRequest, console: QuietConsole, *, stop: anyio.Event) -> Summary:
        script(console)
        if isinstance(answer, BaseException):
            raise answer
        return answer or summary()

    return shown(partial(carry_out_run, run, request, quiet=quiet, as_json=as_json), **environment)


def stopped(error: Exception, so_far: Summary) -> Exception:
    error.summary = so_far  # type: ignore[attr-defined]  # as `app.run` does it
    return error


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (summary(succeeded=3), 0),
        (summary(succeeded=2, failed=1), 1),
        (summary(succeeded=2, cancelled=1), 1),
        (UsageError("--endpoint: no"), 2),
        (InputError("captions.jsonl", ["line 3: not JSON"], 1), 2),
        (LedgerBusyError(), 4),
        (IntakeBusyError(), 4),
        (LedgerVersionError(), 2),
        (StoppedError("the service answered 401"), 3),
        (StorageError(), 3),
        (NotBegunError(), 130),
        (NotSent(), 70),
        (Unanswered(), 70),
        (OrchestratorError("strange"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 3),
        (ExceptionGroup("tasks", [UsageError("no")]), 2),
    ],
)
def test_each_way_to_end_has_its_exit_code(answer: Summary | BaseException, code: int) -> None:
    result = ended(answer)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "Traceback" not in result.stderr
    if isinstance(answer, OrchestratorError):
        assert result.stderr == f"error: {answer}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 3),
        (ExceptionGroup("tasks", [ValueError("for want of memory"), MemoryError()]), 3),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 3),
        (RuntimeError("can't start new thread"), 3),
        (ImportError("_x.so: failed to map segment from shared object"), 3),
        (ImportError("no module named x"), 70),
        (RuntimeError("can't start"), 70),
        (OSError(errno.EBADF, "Bad file descriptor"), 70),
    ],
)
def test_a_system_that_gives_no_more_memory_or_threads_is_told_as_such(
    error: Exception, code: int, tmp_path: Path
) -> None:
    result = ended(error)
    assert result.exit_code == code
    assert ("gives no more memory or no more threads" in result.stderr) is (code == 3)
    assert ("a defect" in result.stderr) is (code == 70)
    assert len(list(tmp_path.glob("*crash*"))) == (code == 70)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_as_its_signal_would_have_ended_it(signum: int, code: int) -> None:
    def script(console: QuietConsole) -> None:
        console.interrupted(signum)

    assert ended(summary(interrupted=True, queued=3), script=script).exit_code == code
    assert ended(KeyboardInterrupt(), script=script).exit_code == code
    assert ended(summary(succeeded=3), script=script).exit_code == 0


def test_an_interruption_by_nobody_knows_whom_is_taken_for_ctrl_c() -> None:
    assert ended(summary(interrupted=True, queued=3)).exit_code == 130


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (summary(succeeded=3), 0),
        (summary(failed=3), 1),
        (stopped(StoppedError("401"), summary(queued=3)), 3),
        (ExceptionGroup("tasks", [stopped(StorageError("full"), summary(queued=3))]), 3),
        (stopped(BrokenPipeError(), summary(succeeded=3)), 3),
        (stopped(OrchestratorError("strange"), summary(queued=3)), 70),
        (summary(interrupted=True, queued=3), 130),
    ],
)
def test_json_is_one_object_on_standard_output(answer: Summary | BaseException, code: int) -> None:
    result = ended(answer, as_json=True, quiet=True)
    assert result.exit_code == code
    assert result.stdout.endswith("}\n")
    assert result.stdout.count("\n") == 1
    assert msgspec.json.decode(result.stdout.encode(), type=Summary).run == "captions"
    assert result.stderr.startswith("" if isinstance(answer, Summary) else f"error: {leading_failure(answer)}")


def test_the_json_object_has_the_documented_members_in_order() -> None:
    result = ended(as_json=True, quiet=True)
    assert result.stdout == (
        '{"run":"captions","jobs":{"total":3,"queued":0,"submitting":0,"uncertain":0,"outstanding":0,"succeeded":3,'
        '"failed":0,"cancelled":0},"requests":{"run":3,"status":4},"throttled":0,"uncertain":{"seen":0,"adopted":0,'
        '"resubmitted":0},"lost":0,"expired":0,"paid_twice":0,"failed_executions":0,"retried_executions":0,"no_news":0,'
        '"unsaved":0,'
        '"stuck":{"in_progress":0,"in_queue":0,"examples":[]},"margin_s":{"min":null,"p1":null},'
        '"safe_offline_s":null,"failure_kinds":0,"largest_failures":[],"largest_retried":[],"all_empty":false,'
        '"empty_columns":[],"members":[],"output":null,"errors":null,"wall_s":2.0,"interrupted":false}\n'
    )


@pytest.mark.parametrize("answer", [UsageError("no"), StoppedError("no summary came with it"), ValueError("defect")])
def test_without_a_summary_there_is_no_json(answer: Exception) -> None:
    assert ended(answer, as_json=True).stdout == ""


def test_what_the_users_function_prints_stays_out_of_the_json() -> None:
    result = ended(script=lambda console: print("working on it"), as_json=True, quiet=True)
    assert result.stdout.startswith('{"run"')
    assert result.stderr == "working on it\n"


def test_a_stopped_run_shows_how_far_it_came_and_last_of_all_why_it_stopped() -> None:
    lines = ended(stopped(StoppedError("401"), summary(queued=2, succeeded=1))).stderr.splitlines()
    assert lines[0] == "captions: stopped; 1 of 3 jobs finished"
    assert lines[-1] == "error: 401"


def test_a_defect_is_one_line_and_a_file_beside_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledgers").mkdir()
    secret = "rpa_very_secret"
    answer = ExceptionGroup("tasks", [ZeroDivisionError(f"with {secret}")])
    request = replace(REQUEST, ledger=Path("ledgers/l.db"))
    result = ended(answer, request=request, ORCHESTRATOR_API_KEY=secret)
    (report,) = (tmp_path / "ledgers").glob("orchestrator-crash-*.log")
    assert result.exit_code == 70
    assert result.stderr == (
        "error: ZeroDivisionError: this is a defect of orchestrator, please report it;"
        f" the traceback is in {report.relative_to(tmp_path)}\n"
    )
    text = report.read_text(encoding="utf-8")
    assert "Traceback" in text
    assert "ZeroDivisionError: with [ORCHESTRATOR_API_KEY]" in text
    assert secret not in text
    assert report.stat().st_mode & 0o077 == 0


def test_a_crash_report_goes_where_there_is_room_or_nowhere(tmp_path: Path) -> None:
    error = ValueError("x")
    missing = tmp_path / "missing"
    written = write_crash_report(error, [missing, tmp_path], {})
    assert written is not None
    key = "k" * KEY_CHARS_MIN
    variables = {"OF_WORK": key, "RUNPOD_API_KEY": "short", "PGPASSWORD": "hunter2"}
    write_crash_report(ValueError(f"not {key}, not short, not hunter2"), [tmp_path], variables)
    assert "not [OF_WORK], not [RUNPOD_API_KEY], not [PGPASSWORD]" in written.read_text()
    assert written.parent == tmp_path
    assert write_crash_report(error, [missing], {}) is None


def test_when_the_report_cannot_be_written_the_defect_is_told_all_the_same() -> None:
    assert defect_message(ValueError("x"), None) == (
        "ValueError: this is a defect of orchestrator, please report it; the traceback could not be written anywhere"
    )


def test_the_error_that_explains_the_others_is_told() -> None:
    storage, stop, usage, defect = StorageError("full"), StoppedError("401"), UsageError("no"), ValueError("defect")
    assert leading_failure(ExceptionGroup("", [defect, usage, ExceptionGroup("", [stop, storage])])) is storage
    assert leading_failure(ExceptionGroup("", [defect, usage, stop])) is stop
    assert leading_failure(ExceptionGroup("", [defect, usage])) is usage
    assert leading_failure(BaseExceptionGroup("", [defect, KeyboardInterrupt()])).__class__ is KeyboardInterrupt
    assert leading_failure(ExceptionGroup("", [ReaderLeftError(), defect])).__class__ is ReaderLeftError
    assert leading_failure(ExceptionGroup("", [defect, BrokenPipeError()])).__class__ is BrokenPipeError
    assert leading_failure(defect) is defect


def test_the_exit_of_somebody_else_is_left_alone() -> None:
    with pytest.raises(SystemExit) as left:
        ended(SystemExit(5))
    assert left.value.code == 5
