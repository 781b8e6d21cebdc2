"""What is written down of runs, endpoints and the process at work, every ten seconds.

Gauges say how it stood at that moment. Counters and histograms only grow, over restarts too, so that any two samples
tell what happened between them, whatever was thinned out. Times are microseconds UTC. Bodies are JSON without what is
0 or empty; what another program has added to them is not read.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.core.samples.buckets import NO_VALUES, Histogram

NO_EVENT: Final = -1
"""The position before all events."""

UNSERVED: Final = "unserved"
"""The code of why nothing of a run is sent: whoever is at work does not send for it."""


class RunSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How a run stood."""

    at: int = 0
    is_last: bool = False
    """Whether it had nothing more to do."""

    # --- gauges
    counts: Mapping[str, int] = {}
    """Jobs in each state (`core.jobs.lifecycle.State`), and the run's cumulative counters (`core.jobs.run_counters`:
    `paid_twice`, `uncertain_adopted`, `lost` …), as the table `counts` had them in the same transaction.
    """

    hold: str = ""
    """The code of why nothing of it is sent, or single ones only: a `core.gates.gates.Gate` or a
    `core.gates.brake_gates.Brake`; "" where nothing is wrong.
    `unserved`: whoever was at work did not send for it.
    """

    hold_by: str = ""
    """Who asked for that, where people did."""

    hold_since: int | None = None
    """Since when that is so, as far as samples tell."""

    spent: float | None = None
    """What its executions have cost; None where no price is known."""

    safe_until: int | None = None
    """Until when nothing is lost if nobody works; None where nothing waits to be collected."""

    # --- what only grows
    submissions: Mapping[str, int] = {}
    """Of its submissions, how many were `accepted`, `unanswered` and `deferred` (refused or throttled without effect).
    """

    ends: Mapping[str, int] = {}
    """How often a job `succeeded`, `failed` or was `cancelled`; one that is reopened ends again."""

    margin: Histogram = NO_VALUES
    """In the buckets of `core.samples.buckets.MARGIN_BOUNDS_S`."""

    queue: Histogram = NO_VALUES
    """How long executions waited in the service's queue, in `TIME_BOUNDS_S`; as far as that was told."""

    execution: Histogram = NO_VALUES
    """How long workers had them, in `TIME_BOUNDS_S`."""

    @property
    def sent(self) -> int:
        """Submissions that the service has taken, or may have."""
        return self.submissions.get("accepted", 0) + self.submissions.get("unanswered", 0)

    @property
    def finished(self) -> int:
        """How often a job has ended."""
        return sum(self.ends.values())


class OperationUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an operation of an endpoint stood with its limit: `used` of `allowance` requests in `window_s`."""

    allowance: int
    used: int = 0
    window_s: float = 0.0
    in_flight: int = 0
    concurrent: int | None = None
    """So many may be in flight at once; None: any number."""

    is_chosen: bool = False
    """Whether a person has set its limit."""

    share: float = 1.0
    """What 429s have left of the rate."""

    codes: Mapping[str, int] = {}
    """What only grows: requests by what was answered: `2xx`, `3xx`, `4xx`, `429`, `5xx`, or `none`."""

    latency: Histogram = NO_VALUES
    """How long answers took, in `core.samples.buckets.REQUEST_BOUNDS_S`."""


class EndpointSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an endpoint stood."""

    at: int = 0
    position: int = 0
    """The last event of the ledger that is in it, where several engines take samples, and `NO_EVENT` where there was
    none; 0: its process says so.
    """

    # --- gauges
    workers: Mapping[str, int] = {}
    """Workers in each state, as `/health` said last: `running`, `idle`, `ready`, `initializing`, `throttled`,
    `unhealthy`.
    """

    workers_at: int | None = None
    """When it said so; None where nobody has asked."""

    workers_most: int | None = None
    """So many it might have at most, where that followed what its runs needed."""

    safe_until: int | None = None
    collected_at: int | None = None
    """When a result was last collected there."""

    webhook_share: float | None = None
    """The share of finished jobs whose webhook came, of late; None while too little is known."""

    is_stopped: bool = False
    """Whether going on to send was pointless until somebody mends something."""

    # --- limits, and requests
    operations: Mapping[str, OperationUse] = {}
    """By `core.limits.rate_pacer.Operation`; of those that were used."""

    # --- what only grows
    submissions: Mapping[str, int] = {}
    """As of a run; of all runs that were ever there, like all that follows."""

    ends: Mapping[str, int] = {}
    executions: Mapping[str, int] = {}
    """Executions that ended, by result: `succeeded`, or a `core.service.failure_class.FailureClass`."""

    settled: Mapping[str, int] = {}
    """What became of submissions whose answer never came: `adopted`, `resubmitted`, `given_up`."""

    paid_twice: int = 0
    spent: float = 0.0
    """What executions have cost, as far as a price is known."""

    margin: Histogram = NO_VALUES
    queue: Histogram = NO_VALUES
    execution: Histogram = NO_VALUES


class ProcessTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How the process at work stood, and what all that ever worked in its place have done."""

    at: int = 0

    # --- gauges
    process: str = ""
    """Host and process id, for people."""

    began_at: int = 0
    resident_bytes: int = 0
    before: str | None = None
    """Why the process before ended; None where there was none, "" where it ended without a word."""

    position: int = 0
    """The last event of the ledger that is in the samples of the same moment."""

    # --- what only grows
    begins: int = 0
    """How many processes have begun."""

    cpu_s: float = 0.0
    lag: Histogram = NO_VALUES
    """By how much the event loop was late, in `core.samples.buckets.LAG_BOUNDS_S`."""

    commits: Histogram = NO_VALUES
    """How long commits took, in `COMMIT_BOUNDS_S`."""

    webhooks: Mapping[str, int] = {}
    """Webhooks: `received`, of which `hints` had no usable body and `unavailable` could not be kept; and `refused`
    ones, without a valid token.
    """
