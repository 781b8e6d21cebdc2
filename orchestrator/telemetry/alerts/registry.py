"""Every alert, once: when it fires, for how long that must hold, how bad it is, and what to do then.

Expressions keep apart what several ledgers say (`instance`, `job`, as Prometheus names who was asked). What a dead
process said last stands still, so whoever asks about the present asks `at_work` or the age of a sample, too.
"""

from typing import Final

from orchestrator.telemetry.alerts.alert import ALERT_PREFIX, Alert, Severity

_BY: Final = "instance, job"
_PROCESSES: Final = f"sum by ({_BY}) (orchestrator_ledger_processes)"
_WORKING: Final = f"sum by ({_BY}) (orchestrator_at_work) > 0"


def _alert(name: str, expr: str, for_: str, severity: Severity, summary: str, todo: str, page: str = "/") -> Alert:
    return Alert(
        name=ALERT_PREFIX + name, expr=expr, for_=for_, severity=severity, summary=summary, todo=todo, page=page
    )


def _share(part: str, of: str, by: str, window: str) -> str:
    """The share of `part` in what grew in `window`. Without growth it is no number, which is above nothing."""
    parts, whole = (f"sum by ({_BY}, {by}) (increase(orchestrator_{each}[{window}]))" for each in (part, of))
    return f"{parts} / {whole}"


_FAILED: Final = 'executions_total{result=~"failed|timed_out|invalid_output"}'
_REFUSED: Final = 'requests_total{code="429"}'
_UNANSWERED: Final = 'submissions_total{answer="unanswered"}'

_UNATTENDED: Final = (
    _alert(
        "ResultsExpireUnattended",
        f"(orchestrator_safe_until_timestamp_seconds - time() < 600) unless on ({_BY}) ({_WORKING})",
        "0m",
        Severity.CRITICAL,
        "Results at {{ $labels.endpoint }} expire in less than 10 minutes, and nobody collects them",
        "Jobs are at the service, and no process works on the ledger. Begin `orchestrator serve`, or `orchestrator"
        " resume`, where the ledger is: what is not collected in time has to be paid again.",
        "/engine",
    ),
    _alert(
        "NobodyAtWork",
        f'sum by ({_BY}) (orchestrator_runs{{standing=~"running|held|cancelling"}}) > 0 unless on ({_BY}) ({_WORKING})',
        "15m",
        Severity.WARNING,
        "Jobs are left, and nobody works on the ledger",
        "The process has ended, or cannot write its heartbeats. See why with `orchestrator status`, then begin"
        " `orchestrator serve` or `orchestrator resume`.",
        "/engine",
    ),
    _alert(
        "NobodyTakesOver",
        f"{_PROCESSES} == 1 and count_over_time(({_PROCESSES} > 1)[1d:1m]) >= 15",
        "15m",
        Severity.WARNING,
        "One process is left on the ledger: nobody would take its place",
        "There were more within a day, and not only while one was begun anew. See with `orchestrator status"
        " --processes` which one is missing, and begin `orchestrator serve` on its machine.",
        "/engine",
    ),
    _alert(
        "ShardsUnowned",
        "orchestrator_ledger_shards_unowned > 0",
        "2m",
        Severity.WARNING,
        "Parts of the ledger (endpoints, or what belongs to no run) have no process",
        "`orchestrator status --processes` says which, and what the processes at work lack to take them: a key, a file,"
        " a variable.",
        "/engine",
    ),
    _alert(
        "PodsLeft",
        f"sum by ({_BY}) (orchestrator_pods) > 0 unless on ({_BY}) ({_WORKING})",
        "5m",
        Severity.CRITICAL,
        "Pods are paid, and nobody works on the ledger who would end them",
        "The process that asked for them has ended without a word. `orchestrator runs tidy` ends them; `orchestrator"
        " resume` goes on with them.",
        "/engine",
    ),
    _alert(
        "PodsStay",
        f'sum by ({_BY}) (orchestrator_pods{{state="ending"}}) > 0',
        "10m",
        Severity.CRITICAL,
        "Pods that nobody needs cannot be ended, and are paid",
        "`orchestrator doctor` names them. See whether the account's interface answers, and end them there by their"
        " ids.",
        "/engine",
    ),
    _alert(
        "SamplesStandStill",
        f"(time() - orchestrator_sample_timestamp_seconds > 120) and on ({_BY}) ({_WORKING})",
        "5m",
        Severity.WARNING,
        "The process at work has written down nothing of how it stands for minutes",
        "It lives, and cannot write samples: look for a full disk or a ledger that is locked with `orchestrator"
        " doctor`. Until then the other metrics are old.",
        "/engine",
    ),
)

_RESULTS: Final = (
    _alert(
        "NothingCollected",
        f'(sum by ({_BY}, endpoint) (orchestrator_jobs{{state="outstanding"}}) > 0)'
        f" unless on ({_BY}, endpoint) (time() - orchestrator_last_collected_timestamp_seconds < 120)"
        f" unless on ({_BY}, endpoint) (orchestrator_batch_quiet_seconds >= 0)",
        "30m",
        Severity.WARNING,
        "Nothing was collected from {{ $labels.endpoint }} for half an hour, and jobs are outstanding there",
        "`orchestrator doctor` says what holds it up: no workers, a queue that does not move, jobs that take longer"
        " than that. For jobs that are meant to, silence this alert.",
        "/endpoints",
    ),
    _alert(
        "BatchStuck",
        f"max by ({_BY}, endpoint) (orchestrator_batch_quiet_seconds) > 43200",
        "15m",
        Severity.WARNING,
        "Nothing has come of a batch at {{ $labels.endpoint }} for half a day",
        "`orchestrator doctor` names it. Look for it in the service's console. What is left of it leaves by `/run` once"
        " the run is to be finished by a time: `orchestrator brakes set`.",
        "/endpoints",
    ),
    _alert(
        "MarginsThin",
        f"histogram_quantile(0.01, sum by ({_BY}, endpoint, le)"
        " (rate(orchestrator_result_margin_seconds_bucket[15m]))) < 300",
        "5m",
        Severity.WARNING,
        "One result in a hundred from {{ $labels.endpoint }} is collected less than 5 minutes before it expires",
        "Collecting does not keep up. Lower the rate of submissions (`orchestrator limits set`), see that webhooks"
        " arrive, and what else uses the limit of `/status`.",
        "/endpoints",
    ),
    _alert(
        "ResultsExpired",
        f'sum by ({_BY}, endpoint) (increase(orchestrator_executions_total{{result="expired"}}[1h])) > 0',
        "0m",
        Severity.CRITICAL,
        "Results at {{ $labels.endpoint }} have expired before they were collected",
        "They were paid, and are executed again. See for how long nobody worked, and whether the endpoint keeps"
        " results for less than 30 minutes.",
        "/endpoints",
    ),
    _alert(
        "JobsLost",
        f'sum by ({_BY}, endpoint) (increase(orchestrator_executions_total{{result="lost"}}[1h])) > 0',
        "0m",
        Severity.WARNING,
        "{{ $labels.endpoint }} has lost jobs",
        "The service no longer knows jobs that it had accepted; they are sent again. Often its queue was purged, or"
        " the endpoint was deleted and made anew.",
        "/endpoints",
    ),
    _alert(
        "PaidTwice",
        f"sum by ({_BY}, endpoint) (increase(orchestrator_paid_twice_total[1h])) > 0",
        "0m",
        Severity.WARNING,
        "Jobs at {{ $labels.endpoint }} were executed twice",
        "An answer never came, the job was sent again, and the first one had arrived after all. If that is dearer than"
        ' to wait, set `on-uncertain = "hold"`.',
        "/endpoints",
    ),
    _alert(
        "FailuresMany",
        f"{_share(_FAILED, 'executions_total', 'endpoint', '15m')} > 0.2",
        "5m",
        Severity.WARNING,
        "More than a fifth of the executions at {{ $labels.endpoint }} fail",
        "`orchestrator failures` has their kinds, largest first. Pause the run if it is worth it, mend the cause, then"
        " retry that kind.",
        "/endpoints",
    ),
    _alert(
        "RunHeld",
        'orchestrator_runs{standing="held"} > 0',
        "1m",
        Severity.CRITICAL,
        "A run at {{ $labels.endpoint }} is held: a breaker is open, or another brake stops it",
        "Too many executions fail, the canary did, or a budget is spent. `orchestrator doctor` says which, and why."
        " Mend that first: what goes on is paid. Then `orchestrator unpause`.",
        "/",
    ),
)

_REQUESTS: Final = (
    _alert(
        "TooManyRequests",
        f"{_share(_REFUSED, 'requests_total', 'endpoint, operation', '10m')} > 0.05",
        "10m",
        Severity.WARNING,
        "More than one in twenty requests `{{ $labels.operation }}` to {{ $labels.endpoint }} is answered 429",
        "Something else uses the same limit, or the limit is lower than was thought. Lower it: `orchestrator limits"
        " set`.",
        "/endpoints",
    ),
    _alert(
        "SubmissionsUncertain",
        f"{_share(_UNANSWERED, 'submissions_total', 'endpoint', '15m')} > 0.01",
        "5m",
        Severity.WARNING,
        "More than 1 % of the submissions to {{ $labels.endpoint }} get no answer",
        "Each may be executed unseen, and paid twice. Look at the line to the service, and at time-outs of proxies on"
        " the way.",
        "/endpoints",
    ),
    _alert(
        "WebhooksMissing",
        "orchestrator_webhook_share_ratio < 0.5",
        "10m",
        Severity.WARNING,
        "Fewer than half of the webhooks from {{ $labels.endpoint }} arrive",
        "Results are asked for instead, which uses up the limit of `/status`. See that the public URL leads to the"
        " listener: `orchestrator doctor`.",
        "/engine",
    ),
)

_AIMS: Final = (
    _alert(
        "FinishByMissed",
        "orchestrator_run_eta_timestamp_seconds > orchestrator_run_finish_by_timestamp_seconds"
        " or (time() > orchestrator_run_finish_by_timestamp_seconds"
        f" and on ({_BY}, run) sum by ({_BY}, run)"
        ' (orchestrator_run_jobs{state=~"queued|submitting|uncertain|outstanding"}) > 0)',
        "5m",
        Severity.WARNING,
        "{{ $labels.run }} will not be done in time",
        "At the pace of late it ends after its `finish-by`. `orchestrator doctor` says what binds: give it more"
        " workers, raise limits, or let other runs wait.",
        "/runs",
    ),
    _alert(
        "BudgetNearlySpent",
        "orchestrator_run_spend / orchestrator_run_budget > 0.9",
        "0m",
        Severity.WARNING,
        "{{ $labels.run }} has spent more than 90 % of its budget",
        "At 100 % nothing more of it is sent. Raise it (`orchestrator brakes set NAME`), or let it end there.",
        "/runs",
    ),
)

_PIPELINES: Final = (
    _alert(
        "FlowLate",
        "orchestrator_flow_late > 0",
        "0m",
        Severity.WARNING,
        "A flow of {{ $labels.pipeline }} has not ended in time",
        "`orchestrator flows` shows where it is, and `orchestrator doctor` what holds it up.",
        "/pipelines",
    ),
    _alert(
        "FlowFailed",
        f'sum by ({_BY}, pipeline) (increase(orchestrator_flow_ends_total{{result="failed"}}[1h])) > 0',
        "0m",
        Severity.CRITICAL,
        "A flow of {{ $labels.pipeline }} has failed",
        "`orchestrator schedules history {{ $labels.pipeline }}` says why. Once that is mended: `orchestrator flows"
        " rerun`.",
        "/pipelines",
    ),
    _alert(
        "FiresMissed",
        f"sum by ({_BY}, pipeline) (increase(orchestrator_fires_missed_total[1h])) > 0",
        "0m",
        Severity.WARNING,
        "Fires of {{ $labels.pipeline }} were missed",
        "Nobody worked when they were due. `orchestrator schedules history {{ $labels.pipeline }}` has the command that"
        " makes up for them.",
        "/pipelines",
    ),
    _alert(
        "ScheduleUnseen",
        "time() - orchestrator_schedule_next_fire_timestamp_seconds > 900",
        "5m",
        Severity.CRITICAL,
        "A fire of {{ $labels.pipeline }} is due, and nobody has looked",
        "Neither `orchestrator serve` works nor does a timer begin `orchestrator tick`. Begin one of the two.",
        "/pipelines",
    ),
)

_HOUSE: Final = (
    _alert(
        "CommitsSlow",
        f"histogram_quantile(0.99, sum by ({_BY}, le) (rate(orchestrator_ledger_commit_seconds_bucket[10m]))) > 1",
        "10m",
        Severity.WARNING,
        "One commit in a hundred takes longer than a second",
        "The disk of the ledger is slow or busy, or lies on a network. Everything waits for it.",
        "/engine",
    ),
    _alert(
        "DiskNearlyFull",
        "orchestrator_disk_free_bytes < 1e9 or predict_linear(orchestrator_disk_free_bytes[1h], 4 * 3600) < 0",
        "10m",
        Severity.CRITICAL,
        "The disk of the ledger is nearly full, or will be within 4 hours",
        "Without room nothing can be collected, and results expire. Make room; `orchestrator runs delete` and"
        " `orchestrator ledger compact` give some back.",
        "/engine",
    ),
    _alert(
        "FilesNearlyFull",
        "orchestrator_batch_api_files_bytes > 0.9 * orchestrator_batch_api_files_max_bytes",
        "15m",
        Severity.WARNING,
        "The files of the Batch API have more than nine tenths of their room",
        "Beyond it uploads are refused, and their senders told. Have old files deleted (`DELETE /v1/files/ID`), keep"
        " them for less long (`keep-files` of `[batch-api]`), or give them more room (`max-storage-megabytes`).",
        "/engine",
    ),
    _alert(
        "JanitorFailing",
        f"(orchestrator_janitor_failing > 0) and on ({_BY}) ({_WORKING})",
        "15m",
        Severity.WARNING,
        "The process at work cannot do this for a quarter of an hour: {{ $labels.duty }}",
        "Its log says why; it goes on trying.",
        "/engine",
    ),
    _alert(
        "MessagesStuck",
        "orchestrator_notifications_waiting > 0",
        "30m",
        Severity.WARNING,
        "Messages to {{ $labels.target }} have waited for half an hour",
        "Whoever should be told is not. `orchestrator notify list` says what the receiver answers; once that is mended:"
        " `orchestrator notify resend`.",
        "/messages",
    ),
)

ALERTS: Final = (*_UNATTENDED, *_RESULTS, *_REQUESTS, *_AIMS, *_PIPELINES, *_HOUSE)
"""All of them, in the order in which they are shown."""
