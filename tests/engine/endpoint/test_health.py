"""An endpoint that answers nothing for a while is asked little, and everything again once it answers."""

from pathlib import Path

import anyio
import pytest

from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, IN_PROGRESS, REFUSED, WELL, Asked, Reply, Scripted, numbered

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 30
GONE_AT_S = 20.0
BACK_AT_S = 200.0
WELL_AT_S = 70.0
GONE = {"refused": (REFUSED, 1_200.0), "cut": (CUT, 120.0), "503": (Reply(503), 120.0)}
"""What is answered instead, and for how many seconds."""


@pytest.mark.parametrize("kind", [pytest.param("refused", marks=pytest.mark.slow), "cut", "503"])
async def test_without_an_answer_few_questions_are_put_and_then_all_at_once(tmp_path: Path, kind: str) -> None:
    reply, for_s = GONE[kind]
    back_at_s = GONE_AT_S + for_s

    def is_gone(asked: Asked) -> bool:
        return GONE_AT_S <= asked.at_s < back_at_s

    def status(asked: Asked) -> Reply:
        if is_gone(asked):
            return reply
        return COMPLETED if asked.at_s >= back_at_s else IN_PROGRESS

    transport = Scripted(run=numbered(), status=status, health=lambda asked: reply if is_gone(asked) else WELL)
    settings = RunSettings(retention_us=int(for_s / 2) * 1_000_000)  # deadlines pass meanwhile: everything is urgent
    async with process(tmp_path / "db", transport, jobs=JOBS, settings=settings) as p:
        await p.begin()
        await p.finish()
        times = [s for s in transport.times("status") if s >= GONE_AT_S]
        first = next(s for s in times if s >= back_at_s)
        assert len([s for s in times if s < back_at_s]) < for_s / 2 + JOBS, "one each at first"
        assert first < back_at_s + 5
        assert times[-1] < first + 5
        assert (await p.counts())["succeeded"] == JOBS


@pytest.mark.parametrize("reply", [REFUSED, pytest.param(Reply(503), marks=pytest.mark.slow)], ids=["refused", "503"])
async def test_the_queue_is_not_sent_to_nobody(tmp_path: Path, reply: Reply) -> None:
    def run(asked: Asked) -> Reply:
        return reply if asked.at_s < BACK_AT_S else numbered()(asked)

    def health(asked: Asked) -> Reply:
        return reply if asked.at_s < BACK_AT_S else WELL

    transport = Scripted(run=run, status=COMPLETED, health=health)
    async with process(tmp_path / "db", transport, jobs=250) as p:
        await p.begin()
        await anyio.sleep_until(BACK_AT_S)
        assert len(transport.of("run")) < 100, "those of the first moment"
        assert len(transport.of("health")) < BACK_AT_S / 2
        await p.finish()
        taken = [asked.at_s for asked in transport.of("run") if asked.at_s >= BACK_AT_S]
        assert taken[0] < BACK_AT_S + 5
        assert taken[-1] < taken[0] + 8, "at full speed"


async def test_a_job_that_can_never_be_asked_for_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return Reply(500) if asked.remote_id == "r-1" else IN_PROGRESS if asked.at_s < WELL_AT_S else COMPLETED

    transport = Scripted(run=numbered(), status=status)
    settings = RunSettings(retention_us=100_000_000)
    async with process(tmp_path / "db", transport, jobs=3, settings=settings) as p:
        await p.begin()
        await anyio.sleep_until(WELL_AT_S + 60)
        assert (await p.counts())["succeeded"] == 2


async def test_towards_the_last_moment_of_a_result_the_questions_come_faster(tmp_path: Path) -> None:
    """With a short retention, pauses of seconds would leave no time for a second try."""

    def status(asked: Asked) -> Reply:
        return CUT if asked.at_s < 12.5 else COMPLETED

    transport = Scripted(run=numbered(), status=status)
    async with process(tmp_path / "db", transport, jobs=20, settings=RunSettings(retention_us=14_000_000)) as p:
        await p.begin()
        await p.finish()
        assert p.progress.margin_min_s is not None
        assert p.progress.margin_min_s > 0
