"""`orchestrator doctor`: what holds runs up, the first cause first, and what cures it."""

import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.flags_to_requests import doctor_request
from orchestrator.cli.framework.runner import carry_out_at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.core.diagnosis.causes import Diagnosis, Finding
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.sources import Choices

PERSON_EXIT_CODE: Final = 1

_INDENT: Final = "  "

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The run; else every run that is not finished.")]
_FLAGS: Final = {
    "endpoint": options.flag(
        run_request.ENDPOINT, "Look at this endpoint, whether a run uses it or not, and at its runs only."
    ),
    **options.flags_of(*command_flags.DOCTOR),
    "json": options.flag(command_flags.JSON, "One JSON object on standard output."),
}


def _carry_out(flags: Flags, command: Callable[..., Awaitable[int]]) -> None:
    carry_out_at_ledger(with_endpoint_id(flags), command, tells_raised=False)


@options.also(_carry_out, **_FLAGS)
async def doctor(name: Name = None, *, choices: Choices, as_json: bool) -> int:
    """Say what holds a run up, by what it was recognised, and what to do.

    Example: orchestrator doctor prompts
    """
    from orchestrator.api.inspect.doctor import doctor

    return show_diagnosis(await doctor(doctor_request(name, choices, os.environ)), as_json=as_json)


def show_diagnosis(diagnosis: Diagnosis, *, as_json: bool) -> int:
    """Prints what was found; returns the exit code."""
    if as_json:
        streams.put_json(diagnosis)
    else:
        tables.put_lines(list(diagnosis_lines(diagnosis)), has_heading=True)
    return PERSON_EXIT_CODE if diagnosis.needs_person else 0


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """What was found, for people: the first line says what holds it up."""
    for finding in diagnosis.findings:
        yield from _finding_lines(finding)
    if not diagnosis.findings:
        runs = f"{diagnosis.runs:,} {'run is' if diagnosis.runs == 1 else 'runs are'} open"
        yield f"nothing holds it up: {runs}" if diagnosis.runs else "nothing holds it up: no run is open"
        yield from (f"asked, and well: {each}" for each in diagnosis.asked)
    for each in diagnosis.not_asked:
        yield f"not looked at: {each}"


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.about}: {finding.sentence}"
    for evidence in finding.evidence:
        yield f"{_INDENT}seen: {evidence}"
    yield f"{_INDENT}what to do: {finding.advice}"
