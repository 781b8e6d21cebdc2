"""An audit from outside: what it says while it lasts, and what it finds out before it begins."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.outcomes.verify import PROGRESS_EVERY_S, Ticker, verify
from orchestrator.errors import UsageError
from orchestrator.settings.command_requests import VerifyRequest
from tests.ledger.ledgers import a_run, opened
from tests.simulation.run import run

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_it_says_again_and_again_what_it_is_at_however_long_that_takes() -> None:
    told: list[tuple[str, int, int]] = []
    ticker = Ticker(lambda *what: told.append(what))
    async with anyio.create_task_group() as group:
        group.start_soon(ticker.serve)
        await anyio.sleep(PROGRESS_EVERY_S * 1.5)  # before the beginning there is nothing to say
        ticker.at("the file", 0, 0)
        await anyio.sleep(PROGRESS_EVERY_S * 2)
        for done in range(100):
            ticker.at("jobs", done, 100)
        await anyio.sleep(PROGRESS_EVERY_S)
        group.cancel_scope.cancel()

    assert told == [("the file", 0, 0), ("the file", 0, 0), ("jobs", 99, 100)]


def a_ledger(path: Path) -> Path:
    """A ledger with one run."""

    async def make() -> None:
        async with opened(path) as ledger:
            await a_run(ledger, name="run 1")

    run(make)
    return path


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ((), "r.jsonl: cannot be read (No such file or directory)"),
        (("r.jsonl",), "r.jsonl.errors: cannot be read (No such file or directory); name the errors file"),
    ],
)
def test_files_that_cannot_be_compared_are_told_before_the_audit(
    tmp_path: Path, there: tuple[str, ...], told: str
) -> None:
    ledger = a_ledger(tmp_path / "my ledger.db")
    for name in there:
        (tmp_path / name).touch()
    request = VerifyRequest(ledger=ledger, output=tmp_path / "r.jsonl", errors=tmp_path / "r.jsonl.errors")
    with pytest.raises(UsageError) as raised:
        anyio.run(verify, request, lambda *_: None)

    assert str(raised.value).startswith(f"{tmp_path}/{told}")
    if there:
        assert str(raised.value).endswith(
            f": orchestrator results 'run 1' --errors --ledger '{ledger}' > {tmp_path}/r.jsonl.errors"
        )
