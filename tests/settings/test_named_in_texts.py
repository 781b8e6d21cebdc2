"""Texts name settings by their keys, and whoever shows them says a flag or a keyword."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrator
from orchestrator.errors import UsageError, flag_name, keyword_name, message_of, with_settings_named
from orchestrator.settings.command_flags import ACCEPT_LOST_COMMITS, NO_PIPELINES
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS

SOURCES = Path(orchestrator.__file__).parent


def test_each_setting_that_a_text_names_is_declared() -> None:
    named = {
        key for path in SOURCES.rglob("*.py") for key in re.findall(r"<setting ([a-z][a-z0-9-]*)", path.read_text())
    }
    assert "ledger" in named
    of_a_command_alone = {ACCEPT_LOST_COMMITS.key, NO_PIPELINES.key}
    assert named <= RUNS.settings.keys() | DASHBOARDS.settings.keys() | of_a_command_alone


@pytest.mark.parametrize(
    ("name", "text"), [(flag_name, "use another --max-attempts"), (keyword_name, "use another max_attempts=")]
)
def test_a_setting_is_called_as_its_reader_writes_it(name: Callable[[str, str | None], str], text: str) -> None:
    assert with_settings_named("use another <setting max-attempts>", name) == text


def test_a_value_stands_with_its_setting() -> None:
    assert with_settings_named("say <setting format=csv>", flag_name) == "say --format csv"
    assert with_settings_named("say <setting format=csv>", keyword_name) == "say format=csv"


def test_an_error_names_settings_as_a_program_does_and_hands_on_their_keys() -> None:
    error = UsageError("give <setting id-field>, not [[1]]")
    assert str(error) == "give id_field=, not [[1]]"
    assert message_of(UsageError(f"here: {message_of(error)}")) == "here: give <setting id-field>, not [[1]]"
    assert message_of(ValueError("else")) == "else"
