"""A check that hangs: on real time, since it is a thread that does."""

import threading
from pathlib import Path

import pytest

from orchestrator.core.service.job_record import Record
from orchestrator.engine.collecting.validation_pool import GOOD, ValidationPool
from orchestrator.settings.parsers.job_parsers import parse_check
from orchestrator.settings.run_settings import RunSettings

pytestmark = pytest.mark.anyio

STUCK = """
import tests.engine.collecting.test_hanging_check as here

def waits(output):
    here.LEFT.wait()
    return True

def good(output):
    return True
"""
LEFT = threading.Event()
ENDS_S = 30.0


async def test_it_is_left_behind_in_bounded_time_and_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    said: list[str] = []
    settings = {n: RunSettings(check=parse_check(f"{tmp_path}/stuck.py:{of}")) for n, of in ((1, "waits"), (2, "good"))}
    validators = ValidationPool(settings, said.append, most_s=0.2)
    before = {*threading.enumerate()}
    for run in settings.values():
        validators.load(run)
    record = Record(remote_id=None, status="COMPLETED", output=b"1")
    try:
        first, again = await validators.judged(1, record), await validators.judged(1, record)
        other = await validators.judged(2, record)
    finally:
        LEFT.set()
    assert first.invalid is None
    assert "has looked at one output for 200 ms" in (first.unjudged or "")
    assert again == first
    assert other == GOOD
    assert len(said) == 1
    validators.leave()
    for thread in {*threading.enumerate()} - before:
        thread.join(ENDS_S)
        assert not thread.is_alive(), "it ends with what it was left behind with"
