"""The keywords of a program, which a type checker has to see written out, are those of the settings."""

from orchestrator.api.runs.keyword_options import ConnectionOptions, InputOptions, RunOptions, named
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.run_settings import GIVE_UP_AFTER, POLICY, RunSettings
from orchestrator.settings.setting import settings_in


def keywords_of(*settings: object) -> set[str]:
    return {named(each).removesuffix("=") for each in settings}  # type: ignore[arg-type]


def test_a_run_is_given_each_setting_but_one_that_ends_a_command() -> None:
    settings = (*POLICY, *(each for each in settings_in(RunSettings) if each is not GIVE_UP_AFTER))
    assert set(RunOptions.__annotations__) == keywords_of(*settings)


def test_a_program_reaches_its_service_as_a_command_does() -> None:
    beside = {"api_key", "profile", "config"}
    assert set(ConnectionOptions.__annotations__) == keywords_of(*settings_in(ConnectionSettings)) | beside


def test_a_file_is_read_as_a_command_reads_it() -> None:
    assert set(InputOptions.__annotations__) == keywords_of(*settings_in(InputSettings))
