"""What a worker or a service repeats of a secret reaches nothing that is kept."""

import json
import sqlite3
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.runtime.secret_scrubber import SecretScrubber
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, Asked, Reply, Scripted, in_turn, numbered, says
from tests.factories import a_row

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECRET = "wJalr/XUtn+FEMI"
ENVIRON = {"S3_SECRET": SECRET, "S3_ID": "short"}
CONFIG = b'{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET"}'
ROWS = [a_row(n, payload=b'{"n":%d}' % n, s3_config=CONFIG) for n in (1, 2, 3, 4)]
BROKEN = Reply(body=b'{"id":"r-3","status":"COMPLETED","output":[NaN,"%b"]}' % SECRET.encode())


ALLOWED = RunSettings(allow_env=("*",))


def kept(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        return "\n".join(connection.iterdump()) + "".join(
            str(row) for table in ("outcomes", "notices") for row in connection.execute(f"SELECT * FROM {table}")
        )


def answers(asked: Asked) -> Reply:
    return {
        "r-1": says("COMPLETED", "r-1", output={"env": SECRET, "id": "short"}),
        "r-2": says("FAILED", "r-2", error=f"Traceback: {json.dumps({'secret': SECRET})}"),
        "r-3": BROKEN,
    }.get(asked.remote_id, says("IN_PROGRESS", asked.remote_id))


async def test_what_a_worker_echoes_is_scrubbed_before_it_is_kept(tmp_path: Path) -> None:
    settings = RunSettings(allow_env=("*",), max_attempts=1, retention_us=60_000_000)
    transport = Scripted(run=numbered(), status=answers)
    async with process(tmp_path / "db", transport, jobs=ROWS, settings=settings, webhooks=True, environ=ENVIRON) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 4)
        assert SECRET in transport.of("run")[0].body.decode()
        await tell(p, await submission_of(p, 4), says("COMPLETED", "r-4", output=[SECRET]))
        await p.finish()
        assert [result.output for result in await p.results()] == [
            b'{"env":"[env:S3_SECRET]","id":"short"}',
            b'["[env:S3_SECRET]"]',
        ]
        assert [failure.message for failure in await p.failures()] == [
            'Traceback: {"secret": "[env:S3_SECRET]"}',
            "the service's answer about the finished job could not be decoded",
        ]
        assert [warning.partition(" is shorter")[0] for warning in p.warnings] == ["the value of S3_ID"]
    found = kept(tmp_path / "db")
    assert "wJalr" not in found
    assert b'"[env:S3_SECRET]"]}'.hex().upper() in found  # the undecodable answer, as far as it may be kept


async def test_what_a_worker_reports_is_scrubbed_before_it_is_kept(tmp_path: Path) -> None:
    report = {"seq": 1, "message": f"at {SECRET}", "checkpoint": {"url": SECRET}}
    transport = Scripted(status=in_turn(says("IN_PROGRESS", output=report), COMPLETED))
    settings = RunSettings(allow_env=("*",), resumable=True)
    async with process(tmp_path / "db", transport, jobs=ROWS[:1], settings=settings, environ=ENVIRON) as p:
        await p.begin()
        await p.finish()
        checkpoint = await p.ledger.jobs.segments.checkpoint(1)
        assert checkpoint is not None
        assert checkpoint[1] == b'{"url":"[env:S3_SECRET]"}'
        assert (await p.ledger.jobs.segments.of_job(1))[0].message == "at [env:S3_SECRET]"
    assert "wJalr" not in kept(tmp_path / "db")


async def test_the_next_process_knows_what_an_earlier_one_has_handed_out(tmp_path: Path) -> None:
    async with process(
        tmp_path / "db", Scripted(run=numbered()), jobs=ROWS[:1], settings=ALLOWED, environ=ENVIRON
    ) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        assert p.ledger.jobs.claims.secret_names == {"S3_ID", "S3_SECRET"}
    async with process(tmp_path / "db", Scripted(status=answers), settings=ALLOWED, environ=ENVIRON) as p:
        await p.begin()
        await p.finish()
        assert SECRET.encode() not in ((await p.results())[0].output or b"wJalr/XUtn+FEMI")


async def test_a_notice_is_scrubbed_before_it_is_made_durable(tmp_path: Path) -> None:
    async with process(
        tmp_path / "db", Scripted(), jobs=ROWS[:1], settings=ALLOWED, webhooks=True, environ=ENVIRON
    ) as p:
        await p.start("dispatcher")  # nobody goes through the notices
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), says("FAILED", error=f"{'x' * 1_990}{SECRET}"))
        await anyio.sleep(1)
    assert "wJalr" not in kept(tmp_path / "db")


def test_the_api_key_is_one_of_them_and_nothing_shows_them() -> None:
    secrets = SecretScrubber(
        lambda: frozenset({"UNSET"}),
        {},
        api_keys=lambda: {"": "rpa_SECRET_KEY", "https://b": "rpa_OTHER_KEY"},
        warn=pytest.fail,
    )
    assert secrets.scrub(b"Bearer rpa_SECRET_KEY") == b"Bearer [the API key]"
    assert secrets.scrub(b"rpa_OTHER_KEY") == b"[the API key of https://b]"
    assert "rpa" not in repr(secrets)


def test_answers_without_secrets_are_not_even_copied() -> None:
    body = COMPLETED.body
    assert SecretScrubber(frozenset, {}, warn=pytest.fail).scrub(body) is body
    assert msgspec.json.decode(body)["status"] == "COMPLETED"
