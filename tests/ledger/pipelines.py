"""Pipelines for tests, small ones."""

from orchestrator.core.pipelines.pipeline import INPUT, Overlap, Pipeline, Schedule, Stage
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.units import HOUR_US

STAGES = (Stage(name="caption", from_=(INPUT,), settings={"endpoint": ("ep1",)}),)
HOURLY = Schedule(every_us=HOUR_US)


def a_pipeline(name: str = "p", schedule: Schedule | None = HOURLY, *, input_: str = "in.jsonl") -> Pipeline:
    """A pipeline of one stage."""
    return Pipeline(name=name, folder="/data", input=input_, schedule=schedule, stages=STAGES)


def every(hours: float, overlap: Overlap = Overlap.QUEUE, *, parallel: int = 1, catch_up_h: float = 24) -> Schedule:
    """A schedule that fires each so many hours."""
    us = round(hours * HOUR_US)
    return Schedule(every_us=us, overlap=overlap, parallel=parallel, catch_up_us=round(catch_up_h * HOUR_US))


async def applied(ledger: Ledger, pipeline: Pipeline | None = None, *, now: int) -> Defined:
    """A pipeline that was applied then."""
    pipeline = pipeline or a_pipeline()
    before = await ledger.flows.pipelines.named(pipeline.name)
    assert await ledger.flows.pipelines.define(pipeline, now=now, before=before)
    found = await ledger.flows.pipelines.named(pipeline.name)
    assert found is not None
    return found
