"""Pipelines that programs write have the keys of a pipeline's file."""

from typing import Any

import msgspec
import pytest

from orchestrator import Notify, Pipeline, Schedule, Stage
from orchestrator.settings import pipeline_keys


@pytest.mark.parametrize(
    ("struct", "of_python", "settings"),
    [
        (Pipeline, ("stages", "schedule", "notify", "folder"), pipeline_keys.PIPELINE),
        (Schedule, (), pipeline_keys.SCHEDULE),
        (Notify, (), pipeline_keys.NOTIFY),
        (Stage, ("name",), (*pipeline_keys.STAGE, *pipeline_keys.STAGE_RUN)),
    ],
)
def test_each_key_of_the_file_is_a_field_in_python(
    struct: type[msgspec.Struct], of_python: tuple[str, ...], settings: tuple[Any, ...]
) -> None:
    fields = {name.removesuffix("_") for name in struct.__struct_fields__ if name not in of_python}
    keys = {setting.key.replace("-", "_") for setting in settings}
    home = f"class {struct.__name__} of orchestrator/api/python/pipeline.py"
    assert keys - fields == set(), f"{home}: add these fields"
    assert fields - keys == set(), f"{home}: these are no keys any more"
