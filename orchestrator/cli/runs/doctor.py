"""`orchestrator doctor`."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags import Flags, also
from orchestrator.cli.framework.requests import doctor_request
from orchestrator.cli.framework.runner import Work, carry_out
from orchestrator.cli.output import streams, tables
from orchestrator.core.diagnosis.findings import Diagnosis, Finding
from orchestrator.settings import command_settings, request_settings
from orchestrator.settings.requests import DoctorRequest
from orchestrator.settings.sources import Choices

PERSON_EXIT_CODE: Final = 1

_FLAGS: Final = tuple(setting for setting in command_settings.DOCTOR if setting is not command_settings.JSON)

_INDENT: Final = "  "

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The run; else every run that is not finished.")]
Endpoint = Annotated[
    str | None,
    options.option(
        request_settings.ENDPOINT, "Look at this endpoint, whether a run uses it or not, and at its runs only."
    ),
]
Json = Annotated[bool | None, options.option(command_settings.JSON, "One JSON object on standard output.")]


def add_doctor(commands: typer.Typer) -> None:
    """Registers `doctor`."""

    @commands.command()
    @also(_carry_out, endpoint=Endpoint, **options.flags_of(*_FLAGS), json=Json)
    def doctor(name: Name = None, *, choices: Choices) -> tuple[Work, Path]:
        """Say what holds a run up, by what it was recognised, and what to do.

        Example: orchestrator doctor prompts
        """
        request = doctor_request(name, choices, os.environ)
        return partial(_doctor, request, choices.is_on(command_settings.JSON)), request.ledger


def _carry_out(flags: Flags, prepare: Callable[[Choices], tuple[Work, Path]]) -> None:
    carry_out(with_endpoint_id(flags), prepare, tells_raised=False)


async def _doctor(request: DoctorRequest, as_json: bool) -> int:
    from orchestrator.api.inspect.doctor import doctor

    return show_diagnosis(await doctor(request), as_json=as_json)


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
