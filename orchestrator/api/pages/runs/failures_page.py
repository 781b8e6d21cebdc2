"""The failures of a run by their kinds, with how often each came of late."""

from typing import Final

from orchestrator.api.outcomes.job_queries import failures_of
from orchestrator.api.pages.runs.command_lines import command_line
from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, are_texts_hidden, kind_shown
from orchestrator.core.filters.filter_parser import cluster_key
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import HOUR_US
from orchestrator.views.jobs import ClusterRow
from orchestrator.views.runs.run_pages import FailureKindShown, FailuresPage

KINDS_MAX: Final = 50
"""So many kinds stand on a page; there are rarely more than a few dozen."""

PARTS: Final = 12
"""The last hour is counted in five minutes each."""


async def failures_page(ledger: Ledger, run: Run, *, shows: PayloadPolicy) -> FailuresPage:
    """The kinds of failures of `run`, the largest first."""
    now = ledger.now()
    found = await failures_of(ledger, run, KINDS_MAX, is_counted=False)
    late = await ledger.reports.failed_jobs.kinds_since(run.id, now - HOUR_US, now, parts=PARTS)
    counts = await ledger.runs.counts(run.id)

    def shown(kind: ClusterRow) -> FailureKindShown:
        where = f"cluster={kind.cluster}"
        return FailureKindShown(
            kind=kind_shown(shows, kind),
            last_hour=late.parts.get(cluster_key(kind.cluster), (0,) * PARTS),
            where=where,
            command=command_line(ledger.address, "retry", run.name, "--cluster", kind.cluster),
            where_retried=(retried := f"retried={kind.cluster}"),
            cancel_command=command_line(ledger.address, "jobs", "cancel", run.name, "--where", retried),
        )

    return FailuresPage(
        id=run.id,
        run=run.name,
        jobs=found.jobs,
        total=sum(counts.get(state.value, 0) for state in State),
        left=unfinished(counts),
        all_kinds=found.kinds,
        retried_executions=found.retried_executions,
        kinds=[shown(kind) for kind in found.clusters],
        counted_since=late.since,
        command=command_line(ledger.address, "failures", run.name),
        texts_hidden=are_texts_hidden(shows),
    )
