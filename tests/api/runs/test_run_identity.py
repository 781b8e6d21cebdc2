"""What a Python program asks for and gets refused, before anything is opened: the command line has its own checks."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.runs.run_identity import check_given
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"priority": 99}, "priority 99 is not from -10 to 10"),
        ({"priority": -11}, "priority -11 is not from -10 to 10"),
        ({"priority": "5"}, "the settings of the run: Expected `int`, got `str` - at `$.priority`"),
        ({"max_attempts": 2.5}, "the settings of the run: Expected `int`, got `float` - at `$.max_attempts`"),
        ({"on_uncertain": "pray"}, "the settings of the run: Invalid enum value 'pray' - at `$.on_uncertain`"),
        ({"output_required": object()}, "the settings of the run: Encoding objects of type object is unsupported"),
    ],
)
async def test_settings_that_could_not_be_read_again_or_have_no_meaning_are_refused(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        await check_given(asked_for(tmp_path, settings=RunSettings(**settings)))
    assert str(refused.value) == why
    assert [path.name async for path in anyio.Path(tmp_path).iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("name", ["", " ", "\n", "a\x1b[31m", "n" * 201, "\udce9"])
async def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--name: a run's name has 1 to 200 printable characters"):
        await check_given(asked_for(tmp_path, name=name))


@pytest.mark.parametrize("name", ["a/b", "..", "-lead", "[red]x[/red]", "n" * 200])
async def test_other_names_and_settings_are_fine(tmp_path: Path, name: str) -> None:
    settings = RunSettings(priority=-10, policy=Policy(ttl_ms=60_000), queue_depth=7)
    await check_given(asked_for(tmp_path, name=name, settings=settings))


def asked_for(folder: Path, **changes: Any) -> RunRequest:
    source = folder / "in.jsonl"
    source.touch()
    asked: dict[str, Any] = {"name": "n", "source": str(source), "endpoint": "ep", "ledger": folder / "l.db"}
    return RunRequest(**asked | {"connection": ConnectionSettings(), "settings": RunSettings()} | changes)
