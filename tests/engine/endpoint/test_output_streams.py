"""What workers yield: gathered into outputs where that is wanted, and told at once where it is not."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_validation_pool import ended
from tests.engine.process import process
from tests.engine.scripted import NOT_FOUND, Asked, Reply, Scripted, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

DONE = says("COMPLETED", delayTime=10, executionTime=20)
NOTHING = Reply(body=b'{"status":"COMPLETED","stream":[]}')


def part(*chunks: str, status: str = "COMPLETED") -> Reply:
    items = ",".join(f'{{"output":{chunk},"metrics":{{}}}}' for chunk in chunks)
    return Reply(body=f'{{"status":"{status}","stream":[{items}]}}'.encode())


class Drained:
    """Hands these answers out, one after the other, and then says that there are no chunks."""

    def __init__(self, *parts: Reply) -> None:
        self._parts: Iterator[Reply] = iter(parts)

    def __call__(self, _: Asked) -> Reply:
        return next(self._parts, NOTHING)


STREAM = RunSettings(stream=True, max_attempts=1)


async def test_what_a_worker_yields_is_the_output_also_when_the_job_ends_between_questions(tmp_path: Path) -> None:
    service = Scripted(status=DONE, stream=Drained(part('"a"', status="IN_PROGRESS"), part('{"b":1}', "null")))
    async with process(tmp_path / "db", service, settings=STREAM) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [b'["a",{"b":1},null]']
        assert len(service.of("stream")) == 2
        assert p.warnings == []


async def test_an_output_that_is_there_stays_as_it_is_and_nobody_asks(tmp_path: Path) -> None:
    service = Scripted(status=says("COMPLETED", output=["a"]), stream=part('"b"'))
    async with process(tmp_path / "db", service, settings=STREAM) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [b'["a"]']
        assert service.of("stream") == []


async def test_chunks_that_were_lost_on_their_way_are_no_result(tmp_path: Path) -> None:
    lost = Reply(error=httpx.ReadError("cut"))
    service = Scripted(status=DONE, stream=Drained(lost, NOTHING, part('"a"')))
    async with process(tmp_path / "db", service, settings=STREAM) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [b'["a"]']
        assert [event.trouble for event in await p.events() if event.event == "retried"] == ["lost"]
        assert len(service.of("run")) == 2


async def test_what_came_before_an_answer_was_refused_is_not_lost(tmp_path: Path) -> None:
    busy = Reply(status=503, body=b"")
    service = Scripted(status=DONE, stream=Drained(part('"a"', status="IN_PROGRESS"), busy, part('"b"')))
    async with process(tmp_path / "db", service, settings=STREAM) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [b'["a","b"]']
        assert len(service.of("run")) == 1


async def test_the_first_empty_output_of_a_worker_that_yields_is_told_at_once(tmp_path: Path) -> None:
    service = Scripted(status=DONE, stream=Drained(part('"a"', '"b"')))
    async with process(tmp_path / "db", service, jobs=3) as p:
        await ended(p)
        [told] = p.warnings
        assert told.startswith("the worker yields: 2 chunks of a job stood in its stream")
        assert "<setting stream>" in told
        assert "return_aggregate_stream" in told
        assert sorted(each.output or b"" for each in await p.results()) == [b"", b"", b'["a","b"]']
        assert len(service.of("stream")) == 1, "it is looked into once"


async def test_a_worker_that_yields_nothing_is_looked_into_once_and_not_held_up(tmp_path: Path) -> None:
    service = Scripted(status=DONE, stream=NOT_FOUND)
    async with process(tmp_path / "db", service, jobs=3) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [None, None, None]
        assert p.warnings == []
        assert len(service.of("stream")) == 1


@pytest.mark.parametrize(("outputs", "are_empty"), [([], False), ([None], True), ([None, "x"], False)])
async def test_results_that_are_all_empty_are_told_at_any_size(
    tmp_path: Path, outputs: list[str | None], are_empty: bool
) -> None:
    replies = iter([says("COMPLETED", output=each) for each in outputs])
    service = Scripted(status=lambda _: next(replies, NOT_FOUND), stream=NOT_FOUND)
    async with process(tmp_path / "db", service, jobs=max(1, len(outputs))) as p:
        if outputs:
            await ended(p)
        assert await p.ledger.jobs.results.are_all_empty(p.run.id) is are_empty
