"""The process at work and its ledger, as people and programs are shown them. Times are microseconds UTC."""

from collections.abc import Mapping

import msgspec

from orchestrator.views.batch_api_totals import BatchApiTotals
from orchestrator.views.series import Series
from orchestrator.views.status import JanitorSummary, LastProcess


class WorkerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that works on the ledger, or says so, or stands by."""

    process: str
    """Process id and host."""

    since: int
    reported_at: int | None = msgspec.field(name="heard_at")
    """When it last said how it stands; None where it has nothing to say."""

    is_silent: bool
    """Whether it has said nothing for so long that it says nothing of the present."""

    has: str | None = None
    """What it has of the ledger, as text, where there may be several; None on a file, where one has all."""


class EnginePage(msgspec.Struct, frozen=True, kw_only=True):
    """Who works, how the process and the ledger stand, and how it went of late."""

    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, as text; None where nobody does."""

    at_work: tuple[WorkerProcess, ...] = ()
    remarks: tuple[str, ...] = ()
    """What nobody has of the ledger though runs there are not finished, as texts."""

    last_process: LastProcess | None = None
    """None where one works, or none ever has."""

    before: str | None = None
    """Why the process before the one at work ended; "" where it ended without a word; None where there was none."""

    begins: int = 0
    """How many processes have begun."""

    clock_ahead_us: int = 0
    """How far what was heard last lies in the future: this machine's clock was set back, or another one is ahead."""

    sampled_at: int | None = None
    """When what follows was sampled last; None where it never was."""

    resident_bytes: int | None = None
    cpu_share: float | None = None
    """Of one core, in the time of the charts."""

    lag_p50_s: float | None = None
    lag_p99_s: float | None = None
    commit_p50_s: float | None = None
    commit_p99_s: float | None = None
    webhooks_received: int = 0
    """With a valid token, by this process and those before it."""

    webhooks_unusable: int = 0
    """Of these: without a usable body, or not to be kept at that moment. Their jobs are asked for."""

    webhooks_refused: int = 0
    """Besides: without a valid token."""

    webhook_url: str | None = None
    webhook_share: Mapping[str, float] = {}
    """By endpoint: the share of finished jobs whose webhook came, of late."""

    ledger: str
    schema: str
    file_bytes: int
    unused_bytes: int
    log_bytes: int
    disk_free_bytes: int | None = None
    batch_api: BatchApiTotals | None = None
    """None where the ledger was never served so."""

    janitor: JanitorSummary | None = None
    """What puts things in order: when it last went through its duties, and which it could not do."""

    rows: Mapping[str, int] | None = None
    """By table; only where it was asked for."""

    rows_problem: str | None = None
    """Why they are not told though they were asked for."""

    span: str
    spans: tuple[str, ...]
    since: int
    until: int
    cpu: tuple[Series, ...] = ()
    memory: tuple[Series, ...] = ()
    lag: tuple[Series, ...] = ()
    commits: tuple[Series, ...] = ()
    webhooks: tuple[Series, ...] = ()
