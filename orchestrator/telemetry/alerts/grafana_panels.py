"""What the dashboard of Grafana shows: its panels, each with the expressions that it draws."""

from dataclasses import dataclass
from typing import Final, NamedTuple

_INSTANCE: Final = 'instance=~"$instance"'
"""The ledgers that were chosen at the top of the dashboard."""


class DrawnExpression(NamedTuple):
    """One expression, and what its lines are called."""

    expr: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class GrafanaPanel:
    """One panel."""

    title: str
    drawn: tuple[DrawnExpression, ...]
    unit: str = "short"
    """In Grafana's words."""

    is_figure: bool = False
    """Whether it is one figure rather than lines in time."""

    is_stacked: bool = False


@dataclass(frozen=True, kw_only=True)
class GrafanaRow:
    """Panels under one heading."""

    title: str
    panels: tuple[GrafanaPanel, ...]


def _of(name: str, matches: str = "") -> str:
    return f"orchestrator_{name}{{{_INSTANCE}{matches and f', {matches}'}}}"


def _rate(name: str, by: str, matches: str = "") -> str:
    return f"sum by ({by}) (rate({_of(name, matches)}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str) -> str:
    return f"histogram_quantile({share}, {_rate(f'{name}_bucket', f'{by}, le' if by else 'le')})"


def _figure(title: str, expr: str, unit: str = "short") -> GrafanaPanel:
    return GrafanaPanel(title=title, drawn=(DrawnExpression(expr, ""),), unit=unit, is_figure=True)


def _lines(title: str, unit: str, *drawn: tuple[str, str], is_stacked: bool = False) -> GrafanaPanel:
    expressions = tuple(DrawnExpression(*each) for each in drawn)
    return GrafanaPanel(title=title, drawn=expressions, unit=unit, is_stacked=is_stacked)


def _quantiles(title: str, name: str, by: str = "") -> GrafanaPanel:
    legend = f"{{{{{by}}}}} " if by else ""
    return _lines(
        title, "s", *((_quantile(share, name, by), f"{legend}p{round(share * 100)}") for share in (0.5, 0.95, 0.99))
    )


_LEFT: Final = 'state=~"queued|submitting|uncertain|outstanding"'
_HELD: Final = 'standing="held"'
_FAILED: Final = 'result=~"failed|timed_out|invalid_output"'
_IN_VAIN: Final = 'result=~"expired|lost"'
_AT: Final = "{{endpoint}} {{operation}}"

_NOW: Final = GrafanaRow(
    title="Now",
    panels=(
        _figure("Processes at work", f"sum({_of('at_work')})"),
        _figure("Jobs left", f"sum({_of('jobs', _LEFT)})"),
        _figure("Runs held", f"sum({_of('runs', _HELD)})"),
        _figure("Flows late", f"sum({_of('flow_late')})"),
        _figure("Results are safe for", f"min({_of('safe_until_timestamp_seconds')}) - time()", "s"),
        _figure("Pods", f"sum({_of('pods')})"),
        _figure("Messages waiting", f"sum({_of('notifications_waiting')})"),
    ),
)
_JOBS: Final = GrafanaRow(
    title="Jobs",
    panels=(
        _lines("Ended", "ops", (_rate("job_outcomes_total", "endpoint, outcome"), "{{endpoint}} {{outcome}}")),
        _lines("Jobs by state", "short", (f"sum by (state) ({_of('jobs')})", "{{state}}"), is_stacked=True),
        _lines(
            "Share of executions that fail",
            "percentunit",
            (
                f"{_rate('executions_total', 'endpoint', _FAILED)} / {_rate('executions_total', 'endpoint')}",
                "{{endpoint}}",
            ),
        ),
        _lines(
            "Expired, lost, paid twice",
            "ops",
            (_rate("executions_total", "endpoint, result", _IN_VAIN), "{{endpoint}} {{result}}"),
            (_rate("paid_twice_total", "endpoint"), "{{endpoint}} paid twice"),
        ),
        _lines("Spend per hour", "short", (f"{_rate('spend_total', 'endpoint')} * 3600", "{{endpoint}}")),
        _lines(
            "Submissions without an answer",
            "ops",
            (_rate("submissions_total", "endpoint", 'answer="unanswered"'), "{{endpoint}}"),
            (_rate("uncertain_settled_total", "endpoint, by"), "{{endpoint}} {{by}}"),
        ),
    ),
)
_ENDPOINTS: Final = GrafanaRow(
    title="Endpoints",
    panels=(
        _lines("Requests", "reqps", (_rate("requests_total", "endpoint, operation, code"), f"{_AT} {{{{code}}}}")),
        _lines(
            "Limit used",
            "percentunit",
            (f"{_of('limit_used_requests')} / {_of('limit_requests')}", _AT),
        ),
        _lines("In flight", "short", (_of("requests_in_flight"), _AT)),
        _quantiles("Requests take", "request_duration_seconds", "operation"),
        _quantiles("Wait for a worker", "queue_delay_seconds", "endpoint"),
        _quantiles("Execution", "execution_seconds", "endpoint"),
        _lines(
            "Margin of results",
            "s",
            (_quantile(0.01, "result_margin_seconds", "endpoint"), "{{endpoint}} p1"),
            (_quantile(0.5, "result_margin_seconds", "endpoint"), "{{endpoint}} p50"),
        ),
        _lines("Workers", "short", (_of("workers"), "{{endpoint}} {{state}}"), is_stacked=True),
        _lines("Share of webhooks that came", "percentunit", (_of("webhook_share_ratio"), "{{endpoint}}")),
    ),
)
_RUNS: Final = GrafanaRow(
    title="Runs",
    panels=(
        _lines("Jobs left", "short", (f"sum by (run) ({_of('run_jobs', _LEFT)})", "{{run}}")),
        _lines("Done in", "s", (f"{_of('run_eta_timestamp_seconds')} - time()", "{{run}}")),
        _lines("Budget spent", "percentunit", (f"{_of('run_spend')} / {_of('run_budget')}", "{{run}}")),
    ),
)
_PIPELINES: Final = GrafanaRow(
    title="Pipelines",
    panels=(
        _lines(
            "Flows that ended, a day",
            "short",
            (
                f"sum by (pipeline, result) (increase({_of('flow_ends_total')}[1d]))",
                "{{pipeline}} {{result}}",
            ),
        ),
        _lines(
            "Since the last success", "s", (f"time() - {_of('flow_last_success_timestamp_seconds')}", "{{pipeline}}")
        ),
        _lines("Last flow took", "s", (_of("flow_last_duration_seconds"), "{{pipeline}}")),
    ),
)
_BATCH_API: Final = GrafanaRow(
    title="Batch API",
    panels=(
        _lines("Batches under way", "short", (_of("batch_api_batches"), "{{state}}")),
        _lines("Requests", "ops", (_rate("batch_api_requests_total", "outcome"), "{{outcome}}")),
        _lines(
            "Files", "bytes", (_of("batch_api_files_bytes"), "files"), (_of("batch_api_files_max_bytes"), "at most")
        ),
    ),
)
_HOUSE: Final = GrafanaRow(
    title="The process at work",
    panels=(
        _lines("Processor", "percentunit", (f"rate({_of('engine_cpu_seconds_total')}[$__rate_interval])", "{{slot}}")),
        _lines("Memory", "bytes", (_of("engine_resident_memory_bytes"), "{{slot}}")),
        _quantiles("Event loop is late by", "engine_loop_lag_seconds"),
        _quantiles("Commits take", "ledger_commit_seconds"),
        _lines(
            "Ledger and disk", "bytes", (_of("ledger_size_bytes"), "{{file}}"), (_of("disk_free_bytes"), "free on disk")
        ),
        _lines(
            "Webhooks and messages",
            "ops",
            (_rate("webhooks_total", "result"), "webhooks {{result}}"),
            (_rate("notifications_total", "target, result"), "{{target}} {{result}}"),
        ),
    ),
)

PANELS: Final = (_NOW, _JOBS, _ENDPOINTS, _RUNS, _PIPELINES, _BATCH_API, _HOUSE)
"""All of them, from the top on."""
