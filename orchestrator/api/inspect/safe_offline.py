"""For how long no result of a run can expire if nobody collects."""

from collections.abc import Mapping

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_summaries import RunSummaries
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.units import SECOND_US


async def safe_by_run(ledger: Ledger, seen: RunSummaries, present: ProcessReport, now: int) -> Mapping[int, float]:
    """For how many seconds no result can expire, by run.

    By what the process at work says, which costs nothing; else by the outstanding jobs.
    """
    at_risk = [run for run in seen.runs if _may_expire(run, seen.counts.get(run.id, {}))]
    said = {run: safe for run, each in present.runs.items() if (safe := _safe_until(each)) is not None}
    if any(run.id not in said for run in at_risk):
        waiting = await ledger.jobs.margins.waiting(now=now)
        retention_us = {run.id: seen.retention_us(run) for run in at_risk}
        said = {run: each.safe_until(retention_us[run]) for run, each in waiting.items() if run in retention_us} | said
    left_us = {run.id: min(said[run.id] - now, seen.retention_us(run)) for run in at_risk if run.id in said}
    return {run: max(0, us) / SECOND_US for run, us in left_us.items()}


def _safe_until(said: RunReport) -> int | None:
    return None if said.collecting is None else said.collecting.safe_until


def _may_expire(run: Run, counts: Mapping[str, int]) -> bool:
    """Whether a result of `run` can: not with `local:` endpoints, whose jobs run again."""
    return bool(counts.get(State.OUTSTANDING.value)) and run.service_url != LOCAL


async def safe_offline_s(ledger: Ledger, run: Run, counts: Mapping[str, int], *, retention_us: int) -> float | None:
    """For how many seconds no result of `run` can expire if nobody collects; None where none can. `counts` are the
    run's, of the ledger.
    """
    if not _may_expire(run, counts):
        return None
    safe_us = await ledger.jobs.margins.safe_until(run=run.id, retention_us=retention_us, now=ledger.now())
    return None if safe_us is None else max(0, safe_us - ledger.now()) / SECOND_US
