"""Flows that have ended, with some of their stages carried out anew."""

from pathlib import Path

import msgspec

from orchestrator.api.flows.flows import flow_named, hand_over
from orchestrator.api.runs.commands import beside
from orchestrator.api.runs.run_lookup import unknown_name
from orchestrator.core.pipelines.flow_lifecycle import LIVE
from orchestrator.core.pipelines.pipeline import run_name
from orchestrator.core.pipelines.stage_graph import ancestors
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What is carried out anew."""

    flow: str
    runs: tuple[str, ...]
    """The new runs, one for each of its stages from the one that was named on."""

    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, and goes on with the flow."""


async def flow_rerun(
    ledger: Path, name: str, stage: str, *, only_failed: bool = False, dependencies: Dependencies | None = None
) -> Rerun:
    """A flow that has ended goes on with new runs of `stage` and of all that follow it; the old ones stay as they are.

    With `only_failed` what has succeeded in the run before is taken over where its input is the same. Raises
    `UsageError` where there is no such flow or stage, or it has not ended.
    """
    async with beside(ledger, dependencies) as opened:
        flow = await flow_named(opened, name)
        [pipeline] = (await opened.flows.pipelines.definitions([flow.definition])).values()
        names = [each.name for each in pipeline.stages]
        if stage not in names:
            raise unknown_name("stage", stage, opened.path, names)
        again = [each for each in names if each == stage or stage in ancestors(pipeline.stages, each)]
        if flow.state in LIVE or not await opened.flows.rerun(flow.id, again, only_failed=only_failed):
            raise UsageError(f"{flow.name} has not ended: it is {flow.state}; wait until it has, or cancel it first")
        latest = {row.stage: row.again for row in await opened.flows.stages([flow.id])}
        runs = tuple(run_name(flow.name, each, latest[each]) for each in again)
        return Rerun(flow=flow.name, runs=runs, holder=await hand_over(opened))
