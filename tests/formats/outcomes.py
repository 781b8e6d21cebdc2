"""Outcomes for the tests of the formats that they are written in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.formats.output.coming_files import commit_together
from orchestrator.formats.output.outcome_lines import ErrorClass, ErrorLine, OutcomeDetails, ResultLine, WrittenOutcome
from orchestrator.formats.output.writers import OutcomeFile, form_of, forms_of
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.words_and_defaults import Include


def result(
    number: int, output: bytes = b"null", *, input_: bytes = b"{}", more: OutcomeDetails | None = None
) -> WrittenOutcome:
    """The job of row `number`, which succeeded."""
    line = ResultLine(
        custom_id=f"r{number}",
        job_id=f"j{number}-u1",
        output=msgspec.Raw(output),
        attempts=1,
        paid_at_most=2,
        delay_ms=None,
        execution_ms=3,
    )
    return WrittenOutcome(number=number, line=line, input=msgspec.Raw(input_), more=more)


def failure(number: int, message: str = "no", *, input_: bytes = b"{}") -> WrittenOutcome:
    """The job of row `number`, which failed."""
    line = ErrorLine(
        custom_id=f"r{number}",
        job_id=None,
        status=None,
        error=ErrorClass("failed", message),
        attempts=3,
        paid_at_most=3,
    )
    return WrittenOutcome(number=number, line=line, input=msgspec.Raw(input_))


def write(path: Path, outcomes: Sequence[WrittenOutcome], *, include: Sequence[Include] = (), **settings: Any) -> None:
    """Writes them to `path`, as results or errors, as the program does."""
    is_errors = any(isinstance(each.line, ErrorLine) for each in outcomes)
    form = form_of(path, OutputSettings(**settings), include, is_errors=is_errors)
    with OutcomeFile(path, form) as file:
        file.write(outcomes)
        file.finish()
        commit_together(file.parts)


__all__ = ["failure", "forms_of", "result", "write"]
