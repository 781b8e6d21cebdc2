"""Stages whose jobs leave in batches of the service: each row goes through all of them, once."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import INPUT, Stage
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.jobs.jobs import WorkerResult
from tests.engine.flowing import a_pipeline, flowing
from tests.ledger.pipelines import applied
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]


def one_more(raw: bytes, _number: int) -> WorkerResult:
    return WorkerResult(output=b'{"n":%d}' % (int(raw[5:-1]) + 1))


async def test_rows_go_through_two_stages_in_batches(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, batch=BatchRules(append_ids=True, delay_s=600.0), work=one_more)
    settings = {"endpoint": (ENDPOINT,), "via": ("batch",), "breaker": ("off",)}
    stages = (
        Stage(name="caption", from_=(INPUT,), settings=settings),
        Stage(name="index", from_=("caption",), settings={**settings, "output": ("out.jsonl",)}),
    )
    async with service.serving(), flowing(tmp_path, transport=service.transport(), clock=clock) as f:
        pipeline = replace(a_pipeline(tmp_path), stages=stages)
        of = await applied(f.ledger, pipeline, now=clock.now())
        [name] = await f.ledger.flows.add(of.id, "p", of.definition, [clock.now()], FlowKind.TRIGGERED)
        f.scheduler.on_change()
        await f.idle()
        assert await f.states() == {name: "succeeded"}
        assert service.counts.executed.total() == 4
        batches = [len(await f.ledger.runs.batches.of_run(run.id)) for run in await f.ledger.runs.all()]
        assert batches == [1, 1]
    outputs = [json.loads(line)["output"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert outputs == [{"n": 3}, {"n": 4}]
