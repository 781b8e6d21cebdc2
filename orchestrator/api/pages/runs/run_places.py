"""Where runs are found: by number, or by name with what was perhaps meant."""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.text.name_match import meant_by, nearest
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_list import FlowOfRun
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.runs.run_pages import FlowPlace

NEAREST_MAX: Final = 5


class MeantName(msgspec.Struct, frozen=True, kw_only=True):
    """What a name means: one thing, or none and the names of others."""

    name: str | None
    perhaps: Sequence[str] = ()


def named_among(known: Sequence[str], text: str) -> MeantName:
    """Which of the names `known` is meant by `text`, or its beginning, if one is."""
    found = meant_by(text, known)
    if len(found) == 1:
        return MeantName(name=found[0])
    near = nearest(text, known)
    return MeantName(name=None, perhaps=found[-NEAREST_MAX:] or ([near] if near is not None else known[-NEAREST_MAX:]))


async def run_numbered(ledger: Ledger, number: int) -> Run | None:
    """The run of that number, if there is one that was accepted and not deleted since."""
    found = await ledger.runs.all([number])
    return next((run for run in found if run.accepted), None)


async def flow_place(ledger: Ledger, run: int) -> FlowPlace | None:
    """The flow of which that run carries out a stage; None where it does not."""
    found = (await ledger.reports.run_list.flows_of([run])).get(run)
    return None if found is None else flow_place_of(found)


def flow_place_of(part: FlowOfRun) -> FlowPlace:
    """The same of what the ledger says."""
    return FlowPlace(
        flow=part.flow, name=part.name, pipeline=part.pipeline, pipeline_name=part.pipeline_name, stage=part.stage
    )
