"""Every metric, once: its name, type, labels, what it says and its unit. The reference, the rules and the dashboard of
Grafana are made of this table, or checked against it.

Labels are closed: those that name something of the user's are cut off at a number (`metrics.labels`), and all others
have the few values that stand here. No job, flow or text of an error ever is one: a series lasts for ever.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "orchestrator_"


class MetricType(StrEnum):
    """What Prometheus takes a metric for."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    """Without the prefix; of a counter with `_total`, of an info with `_info`."""

    type: MetricType
    labels: tuple[str, ...]
    help: str
    unit: str = ""
    """In the words that Prometheus recommends; empty for plain numbers."""

    @property
    def full_name(self) -> str:
        """As Prometheus knows it."""
        return PREFIX + self.name

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names that its samples have."""
        if self.type is not MetricType.HISTOGRAM:
            return (self.full_name,)
        return tuple(f"{self.full_name}_{part}" for part in ("bucket", "sum", "count"))


ENDPOINT: Final = "endpoint"
OPERATION: Final = "operation"
PIPELINE: Final = "pipeline"
RUN: Final = "run"
SLOT: Final = "slot"
STATE: Final = "state"
RESULT: Final = "result"

_AT: Final = (ENDPOINT,)
_OF_OPERATION: Final = (ENDPOINT, OPERATION)


def _gauge(name: str, labels: tuple[str, ...], help_: str, unit: str = "") -> Metric:
    return Metric(name=name, type=MetricType.GAUGE, labels=labels, help=help_, unit=unit)


def _counter(name: str, labels: tuple[str, ...], help_: str, unit: str = "") -> Metric:
    return Metric(name=name, type=MetricType.COUNTER, labels=labels, help=help_, unit=unit)


def _histogram(name: str, labels: tuple[str, ...], help_: str) -> Metric:
    return Metric(name=name, type=MetricType.HISTOGRAM, labels=labels, help=help_, unit="seconds")


_OF_JOBS: Final = (
    _gauge("jobs", (ENDPOINT, STATE), "Jobs in each state, of all runs of the ledger."),
    _gauge("runs", (ENDPOINT, "standing"), "Runs by how they stand: running, paused, held, cancelling or ended."),
    _gauge("batches", (ENDPOINT, "stage"), "Batches of the service about which something is to be done still."),
    _gauge(
        "batch_quiet_seconds",
        _AT,
        "For how long nothing has come of a batch at the service: the longest.",
        "seconds",
    ),
    _counter("job_outcomes_total", (ENDPOINT, "outcome"), "Jobs that ended: succeeded, failed or cancelled."),
    _counter("executions_total", (ENDPOINT, RESULT), "Executions that ended: succeeded, or why not."),
    _counter(
        "submissions_total",
        (ENDPOINT, "answer"),
        "Submissions by their answer: accepted, unanswered, or deferred (refused without effect).",
    ),
    _counter("uncertain_settled_total", (ENDPOINT, "by"), "Submissions without an answer, by what became of them."),
    _counter("paid_twice_total", _AT, "Executions that ran beside another one of their job."),
    _counter("spend_total", _AT, "What executions have cost, in the currency of the price that was given."),
)

_OF_REQUESTS: Final = (
    _counter("requests_total", (*_OF_OPERATION, "code"), "Requests by their answer: 2xx, 3xx, 4xx, 429, 5xx or none."),
    _histogram("request_duration_seconds", _OF_OPERATION, "How long requests took."),
    _gauge("limit_requests", _OF_OPERATION, "How many requests a window may hold.", "requests"),
    _gauge("limit_used_requests", _OF_OPERATION, "How many requests count in the present window.", "requests"),
    _gauge("limit_window_seconds", _OF_OPERATION, "How long that window is.", "seconds"),
    _gauge("requests_in_flight", _OF_OPERATION, "Requests that wait for their answers."),
)

_OF_RESULTS: Final = (
    _histogram("result_margin_seconds", _AT, "How much time results had left when they were collected."),
    _histogram("queue_delay_seconds", _AT, "How long jobs waited at the service for a worker."),
    _histogram("execution_seconds", _AT, "How long workers had jobs."),
    _gauge("workers", (ENDPOINT, STATE), "Workers of the endpoint, as the service last said."),
    _gauge("workers_bound", (ENDPOINT,), "How many it may have at most by now, where that follows what its runs need."),
    _gauge(
        "safe_until_timestamp_seconds",
        _AT,
        "Until when no result can expire if nobody collects. Absent where none can.",
        "seconds",
    ),
    _gauge("last_collected_timestamp_seconds", _AT, "When a result was collected last.", "seconds"),
    _gauge("webhook_share_ratio", _AT, "The share of finished jobs whose webhook came, of late.", "ratio"),
)

_OF_PIPELINES: Final = (
    _gauge("flows", (PIPELINE, STATE), "Flows in each state."),
    _counter("flow_ends_total", (PIPELINE, RESULT), "Flows that ended, by how."),
    _counter("fires_missed_total", (PIPELINE,), "Fires that were due while nobody worked, and were not made up for."),
    _gauge(
        "flow_last_success_timestamp_seconds",
        (PIPELINE,),
        "When a flow last ended with a result of each row.",
        "seconds",
    ),
    _gauge("flow_last_duration_seconds", (PIPELINE,), "How long the last flow took that ended.", "seconds"),
    _gauge(
        "schedule_next_fire_timestamp_seconds",
        (PIPELINE,),
        "The next fire that nobody has recorded. In the past: nobody looks. Absent while paused.",
        "seconds",
    ),
    _gauge("schedule_paused", (PIPELINE,), "1 while the schedule is paused, else 0."),
    _gauge("flow_late", (PIPELINE,), "Flows that have not ended in the time that `late-after` leaves them."),
)

_OF_RUNS: Final = (
    _gauge("run_jobs", (RUN, STATE), "Jobs of the run in each state. Stages of flows are not among the runs."),
    _gauge("run_eta_timestamp_seconds", (RUN,), "When the run will be done, at the pace of late.", "seconds"),
    _gauge("run_finish_by_timestamp_seconds", (RUN,), "By when the run is to be done (`finish-by`).", "seconds"),
    _gauge("run_spend", (RUN,), "What the executions of the run have cost, where a price is known."),
    _gauge("run_budget", (RUN,), "What the run may cost (`budget`)."),
)

_OF_BATCH_API: Final = (
    _gauge("batch_api_batches", (STATE,), "Batches that programs have posted, in each state that goes on."),
    _counter("batch_api_batch_ends_total", (RESULT,), "Such batches that ended, by how."),
    _counter(
        "batch_api_requests_total",
        ("outcome",),
        "Requests of batches that ended: completed, or failed, which stand in the file of errors.",
    ),
    _gauge("batch_api_files_bytes", (), "Size of all files of the Batch API.", "bytes"),
    _gauge("batch_api_files_max_bytes", (), "What they may have together (`max-storage-megabytes`).", "bytes"),
)

_OF_PROCESS: Final = (
    _gauge("at_work", (SLOT,), "1 while the process works on the ledger, else 0."),
    _gauge("heartbeat_timestamp_seconds", (SLOT,), "When the process was last heard of.", "seconds"),
    _gauge("engine_resident_memory_bytes", (SLOT,), "Memory of the process.", "bytes"),
    _gauge(
        "ledger_processes",
        (STATE,),
        "Processes that have the ledger or a part of it (`works`), and those that wait for a place (`stands_by`).",
    ),
    _gauge(
        "ledger_shards_unowned",
        (),
        "Parts of the ledger (endpoints, or what belongs to no run) that no process has.",
    ),
    _counter("engine_cpu_seconds_total", (SLOT,), "Processor time of the processes in this slot.", "seconds"),
    _histogram("engine_loop_lag_seconds", (), "How late the event loop was."),
    _histogram("ledger_commit_seconds", (), "How long commits to the ledger took."),
)

_OF_LEDGER: Final = (
    _gauge("ledger_size_bytes", ("file",), "Size of the ledger: the database, and its log.", "bytes"),
    _gauge("disk_free_bytes", (), "Room on the ledger's disk.", "bytes"),
    _gauge("janitor_failing", ("duty",), "1 for each duty that the process at work cannot do. Absent for the others."),
    _gauge("sample_timestamp_seconds", (), "When the process at work last wrote down how it stands.", "seconds"),
    Metric(name="build_info", type=MetricType.INFO, labels=("version", "schema"), help="The program, and its ledger."),
    _gauge("pods", (STATE,), "Pods that work for runs, or are to, by where they stand: all of them may be paid."),
    _gauge("pods_cost_per_hour", (), "What these cost in an hour, as far as the account has told."),
    _counter("webhooks_total", (RESULT,), "Webhooks that came in, by what became of them."),
    _counter("notifications_total", ("target", RESULT), "Messages that were sent, or given up."),
    _gauge("notifications_waiting", ("target",), "Messages that are still to be sent."),
)

METRICS: Final = (
    *_OF_JOBS,
    *_OF_REQUESTS,
    *_OF_RESULTS,
    *_OF_PIPELINES,
    *_OF_RUNS,
    *_OF_BATCH_API,
    *_OF_PROCESS,
    *_OF_LEDGER,
)
"""All of them, in the order in which they are shown."""

BY_NAME: Final = {each.name: each for each in METRICS}
