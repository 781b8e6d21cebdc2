"""What processes did with a ledger is written down."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.foreground.run_log import LogBook
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LogFormat
from orchestrator.units import MINUTE_US
from tests.api.runs.test_program import Silence
from tests.engine.hosting.test_continued import desk_in
from tests.factories import S
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEY = "rpa_a_very_secret_key"


async def test_the_log_says_when_each_process_began_and_why_it_ended_and_holds_no_key(tmp_path: Path) -> None:
    log, connection = tmp_path / "l.log", ConnectionSettings(serverless_url=URL, api_key=KEY)
    async with desk_in(tmp_path) as desk:
        options: dict[str, Any] = {"log_file": log, "log_format": LogFormat.JSON, "connection": connection}
        await desk.run(**options)
        with pytest.raises(StoppedError):
            await desk.run(name=KEY, endpoint="unknown", output=None, errors=None, **options)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert KEY not in log.read_text()
    told = [(line["event"], line["level"]) for line in lines if line["event"] in ("start", "stop", "warned")]
    assert told[:2] == [("start", "info"), ("stop", "info")]
    assert told[2] == ("start", "info")
    assert told[-1] == ("stop", "error")
    assert ("warned", "warning") in told
    assert "does not know this endpoint" in lines[-1]["message"]
    assert all(line["at"].endswith("Z") and line["process"] for line in lines)


async def test_the_log_names_the_kinds_of_failures(tmp_path: Path) -> None:
    book = LogBook(Silence(), tmp_path / "l", LogFormat.TEXT, clock=VirtualClock(), secrets={})
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 3)
        for job in (1, 2):
            await brought_to(ledger, State.FAILED, EPOCH_AT + job * S, job=job)
        await book.note_failures(ledger, run.id)
    book.close()
    (line,) = (tmp_path / "l").read_text().splitlines()
    assert " warning failures [" in line
    assert line.endswith("] 2 failed: it broke")


async def test_the_words_of_a_worker_are_visible_in_a_log_of_text_and_move_nothing_in_it(tmp_path: Path) -> None:
    book = LogBook(Silence(), tmp_path / "l", LogFormat.TEXT, clock=VirtualClock(), secrets={})
    book.note("failures", "no \u202etxt.exe\x1b[2J\r2026 all is well")
    book.close()
    (line,) = (tmp_path / "l").read_bytes().splitlines()
    assert line.endswith(rb"] no \u202etxt.exe\x1b[2J\r2026 all is well")


@pytest.mark.slow
async def test_the_log_says_why_a_run_was_given_up(tmp_path: Path) -> None:
    log = tmp_path / "l.log"
    async with desk_in(tmp_path, workers=0) as desk:
        with pytest.raises(StoppedError):
            await desk.run(log_file=log, settings=RunSettings(give_up_after_us=MINUTE_US))
    assert " error stop [" in log.read_text()
    assert "StoppedError: it got nowhere for 1 min" in log.read_text()


async def test_holds_are_noted_when_they_begin_and_when_they_end(tmp_path: Path) -> None:
    book = LogBook(Silence(), tmp_path / "l", LogFormat.TEXT, clock=VirtualClock(), secrets={})
    held: list[str | None] = [None, None, "the key is refused", "the key is refused", None, None]
    with anyio.move_on_after(4.5):
        await book.watch(lambda: held.pop(0))
    book.close()
    lines = (tmp_path / "l").read_text().splitlines()
    assert [line.split(" ", 2)[1:2] for line in lines] == [["warning"], ["info"]]
    assert lines[0].endswith("the key is refused")


async def test_a_log_that_cannot_be_written_is_refused_at_the_start_and_told_once_later(tmp_path: Path) -> None:
    console = Silence()
    with pytest.raises(UsageError, match="the log cannot be written"):
        LogBook(console, tmp_path / "no" / "l", LogFormat.TEXT, clock=VirtualClock(), secrets={})
    full = LogBook(console, Path("/dev/full"), LogFormat.TEXT, clock=VirtualClock(), secrets={})
    full.info("first")
    full.info("second")
    assert console.lines == [
        "/dev/full: the log cannot be written any more (No space left on device)",
        "first",
        "second",
    ]
