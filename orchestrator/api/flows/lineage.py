"""Where a row of a flow comes from, and what has become of it."""

import msgspec

from orchestrator.api.flows.flows import flow_named, looking_at
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.flows.lineage import KIN_MAX
from orchestrator.ledger.jobs.results import Origin
from orchestrator.settings.addresses.ledger_address import LedgerAddress


class RowOfFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of one stage."""

    stage: str
    custom_id: str
    state: State
    class_: str | None = msgspec.field(default=None, name="class")
    """Why it failed or was cancelled."""

    made_of: tuple[str, ...] = ()
    """The rows of the stages before that it was made of; none: it is one of the input."""

    reused: Origin | None = None
    """Whose result it has, where nothing was sent for it."""

    not_reused: str | None = None
    """Why it was sent, where it could have had an earlier result; as far as that is remembered."""

    of_others: int = 0
    """How many further rows it was made of, which are no relatives of the one that was asked for."""

    became: int | None = None
    """How many rows of the stages behind were made of it: 0 where it was dropped, or failed. None: nothing follows, or
    it has not been handed over yet.
    """


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a flow, all that it was made of, and all that was made of it, stage by stage."""

    flow: str
    custom_id: str
    rows: tuple[RowOfFlow, ...]
    is_all: bool
    """False: there are more rows than are shown."""


async def flow_lineage(
    ledger: LedgerAddress, name: str, custom_id: str, dependencies: Dependencies | None = None
) -> Lineage:
    """Of the rows of a flow that have that custom_id, in whichever stage. Raises `UsageError` where there are none."""
    async with looking_at(ledger, dependencies) as opened:
        return await lineage_of(opened, await flow_named(opened, name), custom_id)


async def lineage_of(ledger: Ledger, flow: Flow, custom_id: str) -> Lineage:
    """The same of a flow of an open ledger. Raises `UsageError` where there are none."""
    stage_of = {stage.run: stage.stage for stage in await ledger.flows.stages([flow.id]) if stage.run is not None}
    order = list(stage_of)
    kin = await ledger.flows.lineage.kin(order, custom_id)
    if not kin:
        raise UsageError(f"{flow.name} has no row {custom_id}")
    names = {each.job: each.custom_id for each in kin}
    parents = await ledger.flows.lineage.parents(names)
    became = await ledger.flows.lineage.became(names)
    reused, why_not = await ledger.jobs.reused.origins(names), await ledger.jobs.reused.why_not(names)
    rows = sorted(kin, key=lambda each: (order.index(each.run), each.line, each.job))
    return Lineage(
        flow=flow.name,
        custom_id=custom_id,
        rows=tuple(
            RowOfFlow(
                stage=stage_of[each.run],
                custom_id=each.custom_id,
                state=each.state,
                class_=each.trouble,
                made_of=tuple(sorted(names[of] for of in parents.get(each.job, ()) if of in names)),
                of_others=sum(of not in names for of in parents.get(each.job, ())),
                reused=reused.get(each.job),
                not_reused=why_not.get(each.job),
                became=became.get(each.job),
            )
            for each in rows
        ),
        is_all=len(kin) < KIN_MAX,
    )
