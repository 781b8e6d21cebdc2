"""Pipelines that programs write have the keys of a pipeline's file."""

from typing import Any

import msgspec
import pytest

from orchestrator import Notify, Pipeline, Schedule
from orchestrator.api.python.pipeline import OF_STAGE
from orchestrator.settings import pipeline_keys


@pytest.mark.parametrize(
    ("struct", "of_python", "settings"),
    [
        (Pipeline, ("stages", "schedule", "notify", "folder"), pipeline_keys.PIPELINE),
        (Schedule, (), pipeline_keys.SCHEDULE),
        (Notify, (), pipeline_keys.NOTIFY),
    ],
)
def test_each_key_of_the_file_is_a_field_in_python(
    struct: type[msgspec.Struct], of_python: tuple[str, ...], settings: tuple[Any, ...]
) -> None:
    fields = {name.removesuffix("_") for name in struct.__struct_fields__ if name not in of_python}
    assert fields == {setting.keyword for setting in settings}


def test_each_key_of_a_stage_is_a_keyword_in_python() -> None:
    keywords = {name.removesuffix("_") for name in OF_STAGE}
    assert keywords == {setting.keyword for setting in (*pipeline_keys.STAGE, *pipeline_keys.STAGE_RUN)}
