"""What needs a person, found in an open ledger: by kept counts, and a few questions whatever it holds."""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.api.flows.pipeline_states import pipeline_states
from orchestrator.api.inspect.paid_pods import paid_pods
from orchestrator.api.inspect.run_facts import free_bytes, ledger_state, run_state, wording
from orchestrator.api.inspect.status import picture
from orchestrator.api.pages.page_paths import cure_path, page_path
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.need_facts import Need, NeedFacts, PipelineState, RunPlace
from orchestrator.core.diagnosis.needs import needs
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.reports.run_list import RunsWanted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.pages.needs import NeedLine

RUNS_MAX: Final = 200
"""So many unfinished runs are looked at: the newest."""


async def needs_of(ledger: LedgerAddress) -> tuple[NeedLine, ...]:
    """What needs a person, of the ledger at that path. Raises `UsageError` where there is none."""
    async with read_ledger(ledger) as opened:
        return tuple(map(need_line, await needs_now(opened, await opened.holder_or_next())))


async def needs_now(
    ledger: Ledger, held_by: str | None, states: Sequence[PipelineState] | None = None
) -> tuple[Need, ...]:
    """What needs a person, the most urgent first; `held_by` says who works on the ledger, `states` what is wrong with
    its pipelines, where somebody has asked that already.
    """
    now = ledger.now()
    among = set(await ledger.reports.run_list.page(wanted=RunsWanted.OPEN, before=None, most=RUNS_MAX))
    among |= {each.run for each in await ledger.commands.pending() if each.run is not None}  # all its jobs may be over
    seen, said, safe_s = await picture(ledger, held_by, among=among)
    flows = await ledger.reports.run_list.flows_of(among)
    runs = [run for run in seen.runs if unfinished(seen.counts.get(run.id, {})) or run.id in seen.pending]
    of_runs = {
        run.id: msgspec.structs.replace(run_state(run, seen, said, safe_s.get(run.id), now), is_of_flow=run.id in flows)
        for run in runs
    }
    blocked = [number for number, state in of_runs.items() if state.blocked_by is not None or state.hold is not None]
    since = await ledger.samples.holds_since(blocked)
    places = {
        state.name: RunPlace(
            number=number,
            flow=flows[number].flow if number in flows else None,
            flow_name=flows[number].name if number in flows else "",
            blocked_since=since.get(number),
        )
        for number, state in of_runs.items()
    }
    if states is None:
        states = await pipeline_states(ledger, await ledger.flows.pipelines.all())
    problem = await ledger.flows.run_outbox.problem()
    worked_on = await ledger_state(ledger, seen, held_by, now)
    facts = NeedFacts(
        diagnosis=Facts(
            ledger=msgspec.structs.replace(worked_on, free_bytes=free_bytes(ledger.address)),
            runs=list(of_runs.values()),
            raised_workers=[each.shown for each in await ledger.runs.scaling_overrides.all()],
            paid_pods=await paid_pods(ledger),
            now=now,
            word=wording(ledger.address, {run.name: run.service_url for run in runs}),
        ),
        places=places,
        last_heard=max((beat.beaten_at for beat in seen.heartbeats), default=None),
        pipelines=states,
        owed=await ledger.flows.run_outbox.count_owed() if problem else 0,
        owed_problem=problem,
    )
    return needs(facts)


def need_line(need: Need) -> NeedLine:
    """`need` with its paths."""
    told = {name: getattr(need, name) for name in need.__struct_fields__}
    path = page_path(need.subject, need.number)
    return NeedLine(**told, path=path, cure_path=cure_path(need.subject, need.number, need.cure))
