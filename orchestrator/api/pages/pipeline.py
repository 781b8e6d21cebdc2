"""One pipeline: its schedule, what fired, what did not, and what has changed in it; and all of them."""

from collections.abc import Sequence
from typing import Final

from orchestrator.api.flows.backfills import backfill_lines
from orchestrator.api.flows.pipeline_states import pipeline_states
from orchestrator.api.flows.stage_settings import stage_endpoints
from orchestrator.api.inspect.run_facts import wording
from orchestrator.api.pages.attention import need_line
from orchestrator.api.pages.flow_results import flow_results
from orchestrator.api.pages.pipeline_lines import fires_of, next_of, pipeline_line, pipeline_lines
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.need_facts import NeedFacts
from orchestrator.core.diagnosis.needs import needs
from orchestrator.core.pipelines.definition_changes import definition_changes
from orchestrator.core.text.local_time import local
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.ledger.overviews.flow_summaries import PipelineGap
from orchestrator.units import SECOND_US
from orchestrator.views.pages.pipelines import GapLine, PipelinePage, PipelinesPage, PipelineVersion

FIRES_SHOWN: Final = 60
GAPS_SHOWN: Final = 20
VERSIONS_SHOWN: Final = 5
NEXT_SHOWN: Final = 5


async def pipelines_page(ledger: Ledger, held_by: str | None) -> PipelinesPage:
    """All pipelines, the worst first; `held_by` says who works on the ledger."""
    return PipelinesPage(
        pipelines=tuple(await pipeline_lines(ledger)), backfills=tuple(await backfill_lines(ledger, held_by))
    )


async def pipeline_page(ledger: Ledger, held_by: str | None, number: int) -> PipelinePage | None:
    """The pipeline of that number; None where there is none."""
    each = next((each for each in await ledger.flows.pipelines.all() if each.id == number), None)
    if each is None:
        return None
    now, summaries = ledger.now(), ledger.overviews.flows
    [state] = await pipeline_states(ledger, [each])
    flows = await summaries.latest(FIRES_SHOWN, pipeline=number)
    gaps = await summaries.gaps(GAPS_SHOWN, pipeline=number)
    skipped = await summaries.skipped(FIRES_SHOWN, pipeline=number)
    fires = fires_of([each], flows, skipped, gaps, most=FIRES_SHOWN)
    last = (await summaries.ended()).get(number)
    results = await flow_results(ledger, flows if last is None or last in flows else [*flows, last])
    schedule = each.pipeline.schedule
    late_us = None if schedule is None else schedule.late_after_us
    result = None if last is None else results[last.id]
    oldest_first = [results[flow.id] for flow in reversed(flows)]
    facts = Facts(now=now, word=wording(ledger.address, {}))
    return PipelinePage(
        line=pipeline_line(each, state, fires[number], await summaries.live(), result, now),
        needs=tuple(map(need_line, needs(NeedFacts(diagnosis=facts, pipelines=[state])))),
        version=each.version,
        next_fires=tuple(next_of(each, now, NEXT_SHOWN)),
        late_after_s=None if late_us is None else late_us / SECOND_US,
        overlap=None if schedule is None else schedule.overlap,
        stages=tuple(stage.name for stage in each.pipeline.stages),
        endpoints=stage_endpoints(each.pipeline),
        backfills=tuple(await backfill_lines(ledger, held_by, pipeline=number)),
        results=tuple(results[flow.id] for flow in flows),
        took_s=tuple(each.took_s or 0.0 for each in oldest_first),
        rows=tuple(each.rows for each in oldest_first),
        spent=tuple(0.0 if each.spent is None else each.spent.amount for each in oldest_first),
        gaps=tuple(_gap(gap, each) for gap in sorted(gaps, key=lambda gap: -gap.until_at)),
        versions=tuple(await _versions(ledger, number)),
    )


def _gap(gap: PipelineGap, each: Defined) -> GapLine:
    zone = "UTC" if each.pipeline.schedule is None else each.pipeline.schedule.zone
    return GapLine(
        kind=gap.kind,
        first_at=gap.first_at,
        until_at=gap.until_at,
        fires=gap.n,
        first=local(gap.first_at, zone),
        until=local(gap.until_at, zone),
    )


async def _versions(ledger: Ledger, pipeline: int) -> Sequence[PipelineVersion]:
    """Each with what has changed since the one before."""
    rows = await ledger.overviews.flows.versions(pipeline, VERSIONS_SHOWN + 1)
    bodies = await ledger.flows.pipelines.definitions(row.id for row in rows)
    befores = [bodies[row.id] for row in rows[1:]]
    changes = [definition_changes(before, bodies[row.id]) for before, row in zip(befores, rows, strict=False)]
    return [
        PipelineVersion(version=row.version, applied_at=row.applied_at, changes=changed)
        for row, changed in zip(rows[:VERSIONS_SHOWN], [*changes, ()], strict=False)
    ]
