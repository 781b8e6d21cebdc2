"""Verifies a ledger, and the files that were written from it, beside whoever works on it."""

import shlex
from typing import Any, Final

import anyio
import msgspec

from orchestrator.api.outcomes.audit import AuditCounts, AuditFinding, Findings, Flaw, Progress, audit_ledger
from orchestrator.api.outcomes.compare import Files, compare_files
from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.outcomes.saved_files_check import check_saved_files
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError, leading
from orchestrator.formats.output.writers import parts_of
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.reports.exports import Writing
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import output_settings, run_request
from orchestrator.settings.command_requests import VerifyRequest
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.stores.object_url import asked_about

PROGRESS_EVERY_S: Final = 5.0


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was gone through, and what was wrong."""

    ledger: str
    ok: bool
    findings: tuple[AuditFinding, ...]
    figures: AuditCounts
    files: Files | None
    wall_s: float


async def verify(request: VerifyRequest, progress: Progress) -> Verification:
    """Goes through everything; tells `progress` every few seconds what it is at.

    Raises `UsageError` where there is no ledger, no such run or no such file, and `StorageError` where the ledger
    cannot be read at all.
    """
    clock = SystemClock()
    began_at = clock.now()
    findings, ticker = Findings(), Ticker(progress)
    try:
        async with read_ledger(request.ledger, clock=clock) as ledger, anyio.create_task_group() as group:
            run, told = await _run_of_files(ledger, request)
            group.start_soon(ticker.serve)
            figures = await audit_ledger(ledger, findings, ticker.at)
            saved = await check_saved_files(ledger, findings, ticker.at)
            figures = msgspec.structs.replace(figures, saved_files=saved)
            files = None
            if run is not None and request.output is not None and request.errors is not None:
                writing = _writing(request, run, told)
                chosen = filter_of(told.where, now=told.at) if told.where else None
                files = await compare_files(
                    ledger, run.id, request.output, request.errors, findings, ticker.at, writing=writing, chosen=chosen
                )
                for lack in files.lacks if request.complete else ():
                    findings.add(Flaw.INCOMPLETE, lack)
            group.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise leading(group) from group
    found = findings.all()
    return Verification(
        ledger=str(request.ledger),
        ok=not found,
        findings=found,
        figures=figures,
        files=files,
        wall_s=round((clock.now() - began_at) / 1_000_000, 3),
    )


class Ticker:
    """Tells every few seconds what is being looked at, also while one statement of the database takes longer."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._latest: tuple[str, int, int] | None = None

    def at(self, what: str, done: int, total: int) -> None:
        """This is looked at now: so many are done, of so many."""
        self._latest = what, done, total

    async def serve(self) -> None:
        """Goes on until cancelled."""
        while True:
            await anyio.sleep(PROGRESS_EVERY_S)
            if self._latest is not None:
                self._progress(*self._latest)


async def _run_of_files(ledger: Ledger, request: VerifyRequest) -> tuple[Run | None, Writing]:
    """Whose files are meant, and how they were exported, if they were."""
    if request.output is None:
        return None, Writing()
    output = str(request.output.absolute())
    known, told = await _written_to(ledger, output)
    run = known if request.name is None and known is not None else await run_named(ledger, request.name)
    await asked_about(lambda: _check_files(request, run.name), request.output, request.errors)
    return run, told if known is not None and known.id == run.id else Writing()


async def _written_to(ledger: Ledger, output: str) -> tuple[Run | None, Writing]:
    """The run that was written to that file last, and how it was exported to it, if it was; None where none was, as far
    as the ledger knows.
    """
    all_runs = [run for run in await ledger.runs.all() if run.accepted]
    own = [run for run in all_runs if run.settings.output == output]
    latest = max(own, key=lambda run: run.settings.files_at, default=None)
    export = await ledger.reports.exports.of(output)
    if export is None or (latest is not None and latest.settings.files_at > export.exported_at):
        return latest, Writing()
    found = next((run for run in all_runs if run.id == export.run), None)
    return (latest, Writing()) if found is None else (found, export.writing)


def _writing(request: VerifyRequest, run: Run, told: Writing) -> OutputSettings:
    """How the files were written: as is said, or as they were exported, or the run was told, if they are its own."""
    fields: dict[str, Any] = {"format": request.format or told.format, "order": request.order or told.order}
    if run.settings.output == str(request.output and request.output.absolute()):
        for setting in (output_settings.OUTPUT_FORMAT, output_settings.ORDER):
            if fields[setting.name] is None and (texts := run.settings.cli_defaults.get(setting.key)):
                fields[setting.name] = setting.value_type.read(texts)
    return OutputSettings(**{name: value for name, value in fields.items() if value is not None})


def _check_files(request: VerifyRequest, run: str) -> None:
    """Finds out at once what could only be compared in the end. Raises `UsageError`."""
    first = next(parts_of(request.output), None) if request.output is not None else None
    output = request.output if first is None or (request.output and request.output.exists()) else first
    for path in (output, request.errors):
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            advice = ""
            if path == request.errors:
                make = [
                    "orchestrator",
                    "results",
                    run,
                    str(run_request.ERRORS),
                    *run_request.LEDGER.words(request.ledger),
                ]
                advice = (
                    f"; name the errors file that was written beside the results with {run_request.ERRORS}, or"
                    f" write one now: {shlex.join(make)} > {shlex.quote(str(path))}"
                )
            raise UsageError(f"{path}: cannot be read ({error.strerror}){advice}") from error
