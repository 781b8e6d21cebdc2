"""Carries out one command: loads the program, runs it, and turns what happened into messages and an exit code."""

import ctypes
import gc
import os
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import typer

from orchestrator.cli.framework.crash_reports import (
    DEFECT_EXIT_CODE,
    STARVED,
    STARVED_EXIT_CODE,
    defect_message,
    is_starved,
    leading_failure,
    write_crash_report,
)
from orchestrator.cli.framework.raised_workers import tell_raised
from orchestrator.cli.framework.requests import ledger_of
from orchestrator.cli.output import streams
from orchestrator.core.diagnosis.findings import Diagnosis
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.planning.plan import Plan
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.settings import run_flags
from orchestrator.settings.plan_flags import PlanRequest
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.structs import (
    LEDGER_DEFAULT,
    Chosen,
    DoctorRequest,
    Include,
    OutputSettings,
    ResultsRequest,
    RunRequest,
    ServeRequest,
    VerifyRequest,
    Wish,
)
from orchestrator.units import MIB
from orchestrator.views.status import (
    EndpointLimits,
    Failures,
    FoundJobs,
    RunControl,
    RunsShown,
    RunStatus,
    Snapshot,
    Summary,
    WholeJob,
)

T = TypeVar("T")

if TYPE_CHECKING:
    import anyio

    from orchestrator.api import View  # at run time it would cost every `--help` the import of the whole program
    from orchestrator.api.admin.brakes import RunBrakes
    from orchestrator.api.admin.ledger_admin import BackedUp, Compacted, LedgerInfo
    from orchestrator.api.admin.process_stop import Stopped
    from orchestrator.api.admin.revalidate import RecheckedRun
    from orchestrator.api.admin.run_admin import Deleted, Exported, Renamed
    from orchestrator.api.emulation.flags import EmulateRequest
    from orchestrator.api.flows.apply import Applied
    from orchestrator.api.flows.flows import Asked, Fires, FlowShown, FlowStatus
    from orchestrator.api.flows.lineage import Lineage
    from orchestrator.api.flows.rerun import Rerun
    from orchestrator.api.flows.schedules import History, ScheduleStatus, Trouble
    from orchestrator.api.flows.tick import Ticked
    from orchestrator.api.outcomes.job_queries import JobsPreview
    from orchestrator.api.outcomes.verify import Verification
    from orchestrator.api.runs.job_progress import RunProgress
    from orchestrator.engine.hosting.worker_scaling import PutBack

GC_THRESHOLD: Final = 100_000
"""How many more values than before there must be until the collector looks for cycles; Python's own number is 700.

As many as there are between two commits, and more: at 20,000 it looked through all of them four times a second, found
nothing, and took a twelfth of the processor time (measured)."""

LARGE_BLOCK_BYTES: Final = MIB
"""Blocks of memory from this size on come from the system, and go back to it as soon as they are free."""

_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1

INTERRUPTED_EXIT_CODE: Final = 130

WRITING_EXIT_CODE: Final = 3
"""A results pipe whose reader left: everything is in the ledger, and the command can be given again."""


class App(Protocol):
    """What the command line asks of the program: the functions of `orchestrator.api`."""

    async def run(self, request: RunRequest, view: "View", *, stop: "anyio.Event") -> Summary: ...

    async def plan(self, request: PlanRequest, view: "View", *, stop: "anyio.Event") -> Plan: ...

    async def serve(self, request: ServeRequest, view: "View", *, stop: "anyio.Event") -> list[RunStatus]: ...

    async def tidy(self, request: ServeRequest) -> "list[PutBack]": ...

    async def apply(
        self, files: Sequence[Path], ledger: Path, *, check: bool, view: "View | None" = ..., config: str | None = ...
    ) -> "list[Applied]": ...

    async def tick(
        self, request: ServeRequest, view: "View", *, stop: "anyio.Event", within_us: int | None
    ) -> "Ticked": ...

    async def trigger(self, ledger: Path, name: str, at: str | None) -> "Asked": ...

    async def wait_for_flow(
        self, request: ServeRequest, name: str, view: "View", *, stop: "anyio.Event"
    ) -> "FlowStatus": ...

    async def backfill_preview(self, ledger: Path, name: str, since: str, until: str) -> "Fires": ...

    async def backfill(self, ledger: Path, fires: "Fires", *, parallel: int, again: bool) -> "Asked": ...

    async def flows_list(
        self, ledger: Path, pipeline: str | None, states: Sequence[FlowState], most: int | None
    ) -> "list[FlowStatus]": ...

    async def flow_called(self, ledger: Path, name: str) -> "FlowStatus | None": ...

    async def flow_lineage(self, ledger: Path, name: str, custom_id: str) -> "Lineage": ...

    async def flow_rerun(self, ledger: Path, name: str, stage: str, *, only_failed: bool) -> "Rerun": ...

    async def flow_show(self, ledger: Path, name: str) -> "FlowShown": ...

    async def schedules_list(self, ledger: Path) -> "list[ScheduleStatus]": ...

    async def schedules_next(self, ledger: Path, name: str | None, number: int) -> list[tuple[str, int, str]]: ...

    async def schedules_history(self, ledger: Path, name: str, most: int) -> "list[History]": ...

    async def schedules_check(self, ledger: Path, name: str | None) -> "list[Trouble]": ...

    async def schedules_pause(self, ledger: Path, name: str, note: str, until: str | None) -> "ScheduleStatus": ...

    async def schedules_continue(self, ledger: Path, name: str, *, catch_up: bool) -> "ScheduleStatus": ...

    async def schedules_remove(self, ledger: Path, name: str) -> "ScheduleStatus": ...

    async def status(self, ledger: Path) -> list[RunStatus]: ...

    async def stop(self, ledger: Path) -> "Stopped": ...

    async def doctor(self, request: DoctorRequest) -> Diagnosis: ...

    async def latest(self, ledger: Path, most: int | None) -> RunsShown: ...

    async def show(self, ledger: Path, name: str | None) -> RunStatus: ...

    async def results(self, request: ResultsRequest, write: Callable[[bytes], None]) -> int: ...

    async def limits(self, ledger: Path, name: str | None) -> list[EndpointLimits]: ...

    async def limits_set(
        self, ledger: Path, name: str, chosen: Mapping[Operation, Limit], *, endpoint: str | None = None
    ) -> EndpointLimits: ...

    async def limits_reset(
        self, ledger: Path, name: str, operations: Collection[Operation], *, endpoint: str | None = None
    ) -> EndpointLimits: ...

    async def brakes(self, ledger: Path, name: str | None) -> "RunBrakes": ...

    async def brakes_set(self, ledger: Path, name: str, settings: Mapping[str, str]) -> "RunBrakes": ...

    async def control(self, ledger: Path, name: str, wish: Wish, *, grace_us: int = 0) -> RunControl: ...

    async def prioritize(self, ledger: Path, name: str, priority: int) -> RunControl: ...

    async def resend(self, ledger: Path, name: str) -> RunControl: ...

    async def retry(self, ledger: Path, name: str, *, chosen: Chosen | None = None) -> RunControl: ...

    async def cancel_jobs(self, ledger: Path, name: str, where: str) -> RunControl: ...

    async def cancel_preview(self, ledger: Path, name: str | None, where: str) -> "JobsPreview": ...

    async def recheck(
        self, ledger: Path, name: str, changes: Mapping[str, Any], *, dry_run: bool = False
    ) -> "RecheckedRun": ...

    async def retry_preview(self, ledger: Path, name: str | None, where: str, cluster: str | None) -> "JobsPreview": ...

    async def rename(self, ledger: Path, name: str, to: str) -> "Renamed": ...

    async def delete(self, ledger: Path, name: str) -> "Deleted": ...

    async def export_run(
        self,
        ledger: Path,
        name: str | None,
        output: Path | None,
        errors: Path | None,
        *,
        include: Collection[Include] = (),
        where: str = "",
        writing: OutputSettings = ...,
    ) -> "Exported": ...

    async def ledger_info(self, ledger: Path) -> "LedgerInfo": ...

    async def ledger_backup(self, ledger: Path, copy: Path) -> "BackedUp": ...

    async def ledger_compact(self, ledger: Path) -> "Compacted": ...

    async def watch(self, ledger: Path, name: str | None, view: "View", *, stop: "anyio.Event") -> Snapshot: ...

    async def jobs_list(self, ledger: Path, name: str | None, where: str, limit: int) -> FoundJobs: ...

    async def progress(self, ledger: Path, name: str | None, limit: int) -> "RunProgress": ...

    async def follow_progress(
        self, ledger: Path, name: str | None, limit: int, show: "Callable[[RunProgress], None]", *, stop: "anyio.Event"
    ) -> None: ...

    async def job_show(self, ledger: Path, name: str | None, custom_id: str) -> WholeJob: ...

    async def failures(self, ledger: Path, name: str | None, limit: int) -> Failures: ...

    async def verify(self, request: VerifyRequest, progress: Callable[[str, int, int], None]) -> "Verification": ...

    async def emulate(
        self,
        request: "EmulateRequest",
        ready: Callable[[Mapping[str, str], Mapping[str, str]], None],
        stop: "anyio.Event",
    ) -> int: ...


def load_api() -> App:
    """The real program; imported only by a command that needs it."""
    from orchestrator import api  # noqa: PLC0415

    return api


Work = Callable[[], Awaitable[int]]
"""What a command does; it returns the exit code."""

Prepare = Callable[[Choices], tuple[Work, Path | None]]
"""What a command makes of all that was chosen, and the ledger that it is about. Raises `UsageError`."""

AtLedger = Callable[[Path, bool], Awaitable[int]]
"""What a command does with a ledger; the flag is `--json`."""


@contextmanager
def exit_if_refused() -> Iterator[None]:
    """Ends the command where the block raises `UsageError`, with its message and its exit code."""
    try:
        yield
    except UsageError as error:
        raise typer.Exit(explain(error)) from None


class Understood(NamedTuple, Generic[T]):
    """What the flags of a command that works on a ledger come to."""

    asked: T
    choices: Choices
    as_json: bool
    quiet: bool


def understood(flags: Mapping[str, object], prepare: Callable[[Choices], T]) -> Understood[T]:
    """What `prepare` makes of the flags, the environment and the file; ends the command where they are refused."""
    with exit_if_refused():
        choices = choose(flags, os.environ)
        asked = prepare(choices)
        return Understood(asked, choices, choices.is_on(run_flags.JSON), choices.is_on(run_flags.QUIET))


def carry_out(flags: Mapping[str, object], prepare: Prepare, *, tells_raised: bool = True) -> NoReturn:
    """Everything between the flags and the exit code. Not `tells_raised`: the command itself tells of workers that are
    paid still.
    """
    with exit_if_refused():
        choices = choose(flags, os.environ)
        work, ledger = prepare(choices)
    if tells_raised and ledger is not None and not choices.is_on(run_flags.JSON):
        work = telling_raised(work, ledger)
    raise typer.Exit(execute(work, ledger=ledger))


def telling_raised(work: Work, ledger: Path) -> Work:
    """`work`, and then which workers are still paid that were raised for a run."""

    async def both() -> int:
        code = await work()
        await tell_raised(ledger)
        return code

    return both


def carry_out_at_ledger(
    flags: Mapping[str, object], prepare: Callable[[Choices], AtLedger], *, tells_raised: bool = True
) -> NoReturn:
    """The same for a command about the ledger that was chosen."""

    def at_ledger(choices: Choices) -> tuple[Work, Path]:
        ledger = ledger_of(choices)
        return partial(prepare(choices), ledger, choices.is_on(run_flags.JSON)), ledger

    carry_out(flags, at_ledger, tells_raised=tells_raised)


def execute(work: Work, *, ledger: Path | None = None, needs: Callable[[], object] = lambda: None) -> int:
    """Does `work` on an event loop and returns the exit code: its own, or that of the error which ended it.

    `needs` loads what a long command will need, before it begins.
    """
    streams.speak_of(ledger)
    try:
        _load(needs)
        import anyio  # noqa: PLC0415

        return anyio.run(work, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except BaseException as error:  # noqa: BLE001  this is where every exception ends
        return explain(error, ledger)


def _load(needs: Callable[[], object]) -> None:
    """Calls `needs`, and has the collector of cycles look at new values only, and at those more rarely.

    A run makes millions of small values that no cycle holds; at the default threshold looking for cycles among them was
    a fifth of the processor time of a whole run, and looking through what is loaded anyway a twentieth (measured).
    """
    give_back_large_blocks()
    gc.disable()
    try:
        needs()
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


def give_back_large_blocks() -> None:
    """Has glibc keep no large block for later; other C libraries do what they do.

    By itself it takes blocks of up to 32 MB from its heap once one of that size was freed, and small values settle
    between them: a run with outputs of megabytes grew from 130 to 300 MB that nobody used (measured).
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)


def explain(error: BaseException, ledger: Path | None = None) -> int:
    """Tells the user about `error`; returns the exit code. `SystemExit` is not ours and goes on."""
    match leading_failure(error):
        case SystemExit() as cause:
            raise cause
        case OrchestratorError() as cause:
            streams.complain(str(cause))
            return cause.exit_code
        case KeyboardInterrupt():
            return INTERRUPTED_EXIT_CODE
        case BaseException(__context__=KeyboardInterrupt()):  # a signal hit the closing of the event loop
            return INTERRUPTED_EXIT_CODE
        case streams.ReaderLeftError():
            return 0
        case BrokenPipeError():
            words = [] if ledger is None or ledger == LEDGER_DEFAULT else run_flags.LEDGER.words(ledger)
            command = shlex.join(["orchestrator", "results", "NAME", *words])
            streams.complain(f"nobody reads the pipe, or not to its end; all of it is in the ledger: {command}")
            return WRITING_EXIT_CODE
        case cause:
            return _explain_unforeseen(cause, error, ledger)


def _explain_unforeseen(cause: BaseException, error: BaseException, ledger: Path | None) -> int:
    if is_starved(cause):
        streams.complain(STARVED)
        return STARVED_EXIT_CODE
    folders = (*([ledger.parent] if ledger else []), Path())
    streams.complain(defect_message(cause, write_crash_report(error, folders, os.environ)))
    return DEFECT_EXIT_CODE
