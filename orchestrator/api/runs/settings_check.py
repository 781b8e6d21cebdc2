"""Whether the settings of a run can be used at all: what they name is there, and they agree with one another."""

from orchestrator.core.jobs.escalation_text import problems_of
from orchestrator.engine.collecting.output_validator import validator_of
from orchestrator.errors import UsageError
from orchestrator.formats.templates.field_templates import template_of
from orchestrator.settings import run_settings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName


def check_usable(settings: RunSettings, name: DisplayName = str) -> None:
    """Raises `UsageError` where they cannot; `name` is how a setting is named."""
    validator_of(settings)
    if problem := problems_of(settings.escalate, max_attempts=settings.max_attempts):
        raise UsageError(f"{name(run_settings.ESCALATE)}: {problem}")
    for rule in settings.escalate:
        for field, text in (template for step in rule.steps for template in step.templates):
            try:
                template_of(text)
            except ValueError as error:
                raise UsageError(f"{name(run_settings.ESCALATE)}: map {field}={text}: {error}") from None
