"""People's code that changes the folder of the process: every path counts from where the command began."""

import os
from pathlib import Path

import pytest

from orchestrator.api.foreground.run import run as foreground
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.parsers.job_parsers import parse_check
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CODE = """
import os

def handler(job):
    os.chdir({other!r})
    return job["input"]["n"]

def check(output):
    os.chdir({other!r})
    return True
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder; paths count from `here` until people's code goes there."""
    here, other = tmp_path / "here", tmp_path / "other"
    for each in (here, other):
        each.mkdir()
    monkeypatch.chdir(here)
    (here / "code.py").write_text(CODE.format(other=str(other)))
    for number in (1, 2):
        (here / f"in-{number}.jsonl").write_text(f'{{"n": {number}}}\n')
    return other


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("endpoint", [ENDPOINT, f"{LOCAL}code.py:handler"], ids=["a check", "a handler"])
async def test_a_run_writes_its_files_where_it_was_told_to(tmp_path: Path, other: Path, endpoint: str) -> None:
    is_local = endpoint != ENDPOINT
    async with desk(tmp_path) as d:
        await foreground(
            RunRequest(
                name="captions",
                source="in-1.jsonl\nin-2.jsonl",
                endpoint=endpoint,
                ledger=Path("l.db"),
                output=Path("out.jsonl"),
                errors=Path("err.jsonl"),
                connection=ConnectionSettings(serverless_url=URL, api_key="key"),
                settings=RunSettings(check=None if is_local else parse_check("code.py:check")),
            ),
            dependencies=d.dependencies,
        )
    here = other.with_name("here")
    assert os.getcwd() == str(other if is_local else here)  # noqa: PTH109  a check has a process of its own
    assert names_in(other) == set()
    assert len((here / "out.jsonl").read_text().splitlines()) == 2
    assert names_in(here) >= {"out.jsonl", "err.jsonl", "l.db"}


async def test_a_program_s_ledger_is_the_one_that_it_was_told_of(tmp_path: Path, other: Path) -> None:
    async with desk(tmp_path) as d:
        orc = Orchestrator("l.db", serverless_url=URL, api_key="key", _dependencies=d.dependencies)
        os.chdir(other)
        async with orc:
            run = await orc.submit(numbers(2), endpoint=ENDPOINT, name="captions")
            assert (await run.wait())["succeeded"] == 2
    assert names_in(other) == set()
    assert "l.db" in names_in(other.with_name("here"))
