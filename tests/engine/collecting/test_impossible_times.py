"""Times that make no sense, in records that are good otherwise."""

from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import process
from tests.engine.scripted import Asked, Reply, Scripted, numbered

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

IMPOSSIBLE = [b"1e400", b"-1e400", b"9007199254740991", b"-5", b"604800000", b'"soon"']
"""The fifth is a week, of a job that was sent just now."""


def finished_after(time: bytes, remote_id: str = "r-1") -> Reply:
    body = b'{"id":"%s","status":"COMPLETED","output":1,"delayTime":%s,"executionTime":%s}'
    return Reply(body=body % (remote_id.encode(), time, time))


async def test_an_impossible_time_spoils_no_result_and_changes_nothing(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        number = int(asked.remote_id.removeprefix("r-"))
        return finished_after(IMPOSSIBLE[number % len(IMPOSSIBLE)], asked.remote_id)

    transport = Scripted(run=numbered(), status=status)
    async with process(tmp_path / "db", transport, jobs=60) as p:
        await p.begin()
        await p.finish()
        assert [(job.output, job.delay_ms, job.execution_ms) for job in await p.results()] == [(b"1", None, None)] * 60
        assert len(transport.of("run")) == 60
        assert p.endpoint.estimates.durations.execution.weight == 0
        assert (p.endpoint.estimates.durations.whole.quantile_us(0.995) or 0) < 10_000_000, (
            "as far as we could tell ourselves"
        )


@pytest.mark.parametrize("time", IMPOSSIBLE)
async def test_nor_does_it_in_a_webhook(tmp_path: Path, time: bytes) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), finished_after(time))
        await p.finish()
        assert [(job.output, job.delay_ms, job.execution_ms) for job in await p.results()] == [(b"1", None, None)]
        assert p.endpoint.estimates.durations.execution.weight == 0


async def test_a_time_that_can_be_true_is_believed(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=finished_after(b"700.9"))) as p:
        await p.begin()
        await p.finish()
        assert [(job.delay_ms, job.execution_ms) for job in await p.results()] == [(700, 700)]
