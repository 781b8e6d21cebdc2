"""Runs as the program would tell of them, for what shows them."""

from orchestrator.core.planning.worker_steps import WorkersNow, WorkersWhy
from orchestrator.core.pools.member_health import THROTTLED, MemberState
from orchestrator.views.members import MemberStatus
from orchestrator.views.status import MarginSummary, RunStatus, Snapshot, Summary, UncertainSummary

WORKERS = WorkersNow(bound=12, wanted=12, why=WorkersWhy.DEADLINE, least=2, most=30)
WORKERS_SENTENCE = "up to 12 workers, of 2 to 30: finish-by needs 12 workers"


def jobs(**counts: int) -> dict[str, int]:
    states = ("queued", "submitting", "uncertain", "outstanding", "succeeded", "failed", "cancelled")
    return {"total": sum(counts.values()), **{state: counts.get(state, 0) for state in states}}


def summary(*, interrupted: bool = False, **counts: int) -> Summary:
    return Summary(
        run="captions",
        jobs=jobs(**(counts or {"succeeded": 3})),
        requests={"run": 3, "status": 4},
        throttled=0,
        uncertain=UncertainSummary(seen=0, adopted=0, resubmitted=0),
        lost=0,
        expired=0,
        margin_s=MarginSummary(min=None, p1=None),
        wall_s=2.0,
        interrupted=interrupted,
    )


def snapshot(
    *,
    reading: bool = False,
    rows_read: int = 0,
    jobs_per_s: float | None = None,
    eta_s: float | None = None,
    throttled: int = 0,
    were_uncertain: int = 0,
    margin_min_s: float | None = None,
    wall_s: float = 0.0,
    run: str = "captions",
    **counts: int,
) -> Snapshot:
    return Snapshot(
        run=run,
        reading=reading,
        rows_read=rows_read,
        counts=counts,
        jobs_per_s=jobs_per_s,
        eta_s=eta_s,
        sent=0,
        window_used=994,
        window_allowed=1000,
        window_s=10.0,
        throttled=throttled,
        were_uncertain=were_uncertain,
        margin_min_s=margin_min_s,
        wall_s=wall_s,
    )


def run_status(name: str = "captions", **counts: int) -> RunStatus:
    return RunStatus(
        id=1,
        run=name,
        endpoint="abc123",
        service_url="https://api.example",
        source="captions.jsonl",
        jobs=jobs(**counts),
        uncertain=UncertainSummary(seen=0, adopted=0, resubmitted=0),
        lost=0,
        expired=0,
        margin_s=MarginSummary(min=None, p1=None),
        created_at=1_767_225_600_000_000,
    )


MEMBERS = (
    MemberStatus(
        endpoint="abc123",
        state=MemberState.WELL,
        outstanding=108,
        done=1_051,
        failed=2,
        jobs_per_s=4.2,
        execution_s=1.2,
        price_per_s=0.0001,
        cost=0.126,
        window_used=10,
        window_allowed=1_000,
    ),
    MemberStatus(
        endpoint="local:/srv/work/handlers.py:caption",
        state=MemberState.UNWELL,
        why=THROTTLED,
        outstanding=0,
        done=6,
        jobs_per_s=0.0,
        execution_s=0.25,
        window_used=3,
        window_allowed=2_000,
    ),
)
"""Two members of a pool, of which one is not well, and costs nobody knows what."""
