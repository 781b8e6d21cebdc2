"""Of each alert: what is so an hour long when it has to fire, and what nearly is when it must not.

Values are as promtool writes them: `1+2x60` is 1, 3, 5 ... for an hour, one a minute, from the beginning of time on.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

Series = Mapping[str, str]
"""Values by series, without the prefix of all names."""


class AlertCase(NamedTuple):
    """One alert."""

    firing: Series
    silent: tuple[Series, ...]


_ON: Final = '{endpoint="a"}'
_WORKING: Final = {'at_work{slot="0"}': "1x60"}
_NOBODY: Final = {'at_work{slot="0"}': "0x60"}


def _endpoint(name: str, **labels: str) -> str:
    said = ", ".join(f'{label}="{value}"' for label, value in {"endpoint": "a", **labels}.items())
    return f"{name}{{{said}}}"


def _histogram(name: str, bounds: Mapping[str, str], **labels: str) -> Series:
    said = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {f'{name}_bucket{{le="{bound}"{said}}}': values for bound, values in bounds.items()}


def _results(result: str, of_it: str, others: str) -> Series:
    return {
        _endpoint("executions_total", result=result): of_it,
        _endpoint("executions_total", result="succeeded"): others,
    }


CASES: Final[Mapping[str, AlertCase]] = {
    "ResultsExpireUnattended": AlertCase(
        {_endpoint("safe_until_timestamp_seconds"): "4100x60", **_NOBODY},
        (
            {_endpoint("safe_until_timestamp_seconds"): "4100x60", **_WORKING},
            {_endpoint("safe_until_timestamp_seconds"): "4300x60", **_NOBODY},
        ),
    ),
    "NobodyAtWork": AlertCase(
        {_endpoint("runs", standing="running"): "1x60", **_NOBODY},
        (
            {_endpoint("runs", standing="running"): "1x60", **_WORKING},
            {_endpoint("runs", standing="paused"): "1x60", _endpoint("runs", standing="running"): "0x60", **_NOBODY},
            {_endpoint("runs", standing="running"): "1x60", 'at_work{slot="0"}': "1x55 0x5"},
        ),
    ),
    "NobodyTakesOver": AlertCase(
        {'ledger_processes{state="works"}': "1x60", 'ledger_processes{state="stands_by"}': "1x30 0x30"},
        (
            {'ledger_processes{state="works"}': "1x60", 'ledger_processes{state="stands_by"}': "1x60"},
            {'ledger_processes{state="works"}': "1x60", 'ledger_processes{state="stands_by"}': "0x60"},
            {'ledger_processes{state="works"}': "1x60", 'ledger_processes{state="stands_by"}': "1x50 0x10"},
            {'ledger_processes{state="works"}': "1x60", 'ledger_processes{state="stands_by"}': "0x20 1x2 0x38"},
        ),
    ),
    "ShardsUnowned": AlertCase(
        {"ledger_shards_unowned": "1x60"},
        ({"ledger_shards_unowned": "0x60"}, {"ledger_shards_unowned": "0x59 1x1"}),
    ),
    "PodsLeft": AlertCase(
        {'pods{state="ready"}': "2x60", **_NOBODY},
        (
            {'pods{state="ready"}': "2x60", **_WORKING},
            {'pods{state="ready"}': "0x60", **_NOBODY},
            {'pods{state="ready"}': "2x60", 'at_work{slot="0"}': "1x58 0x2"},
        ),
    ),
    "PodsStay": AlertCase(
        {'pods{state="ending"}': "1x60", **_WORKING},
        (
            {'pods{state="ready"}': "1x60", 'pods{state="ending"}': "0x60", **_WORKING},
            {'pods{state="ending"}': "0x54 1x6", **_WORKING},
        ),
    ),
    "SamplesStandStill": AlertCase(
        {"sample_timestamp_seconds": "3000x60", **_WORKING},
        (
            {"sample_timestamp_seconds": "3000x60", **_NOBODY},
            {"sample_timestamp_seconds": "0+60x60", **_WORKING},
        ),
    ),
    "NothingCollected": AlertCase(
        {
            _endpoint("jobs", state="outstanding"): "5x60",
            _endpoint("last_collected_timestamp_seconds"): "600x60",
        },
        (
            {
                _endpoint("jobs", state="outstanding"): "5x60",
                _endpoint("last_collected_timestamp_seconds"): "600x40 2440x20",
            },
            {
                _endpoint("jobs", state="outstanding"): "0x60",
                _endpoint("last_collected_timestamp_seconds"): "600x60",
            },
            {
                _endpoint("jobs", state="outstanding"): "5x60",
                _endpoint("last_collected_timestamp_seconds"): "600x60",
                _endpoint("batch_quiet_seconds"): "0+60x60",
            },
        ),
    ),
    "BatchStuck": AlertCase(
        {_endpoint("batch_quiet_seconds"): "42000+60x60"},
        ({_endpoint("batch_quiet_seconds"): "38000+60x60"},),
    ),
    "MarginsThin": AlertCase(
        _histogram("result_margin_seconds", {"150": "0+1x60", "300": "0+2x60", "+Inf": "0+100x60"}, endpoint="a"),
        (_histogram("result_margin_seconds", {"150": "0x60", "300": "0x60", "+Inf": "0+100x60"}, endpoint="a"),),
    ),
    "ResultsExpired": AlertCase(_results("expired", "0x30 1x30", "0+9x60"), (_results("expired", "1x60", "0+9x60"),)),
    "JobsLost": AlertCase(_results("lost", "0x30 1x30", "0+9x60"), (_results("lost", "1x60", "0+9x60"),)),
    "PaidTwice": AlertCase({_endpoint("paid_twice_total"): "0x30 1x30"}, ({_endpoint("paid_twice_total"): "7x60"},)),
    "FailuresMany": AlertCase(
        _results("failed", "0+3x60", "0+7x60"),
        (
            _results("failed", "0+1x60", "0+7x60"),
            _results("lost", "0+3x60", "0+7x60"),
            _results("failed", "3x60", "0x60"),
        ),
    ),
    "RunHeld": AlertCase(
        {_endpoint("runs", standing="held"): "1x60"},
        ({_endpoint("runs", standing="held"): "0x60", _endpoint("runs", standing="paused"): "1x60"},),
    ),
    "TooManyRequests": AlertCase(
        {
            _endpoint("requests_total", operation="run", code="429"): "0+10x60",
            _endpoint("requests_total", operation="run", code="2xx"): "0+90x60",
        },
        (
            {
                _endpoint("requests_total", operation="run", code="429"): "0+1x60",
                _endpoint("requests_total", operation="run", code="2xx"): "0+90x60",
            },
        ),
    ),
    "SubmissionsUncertain": AlertCase(
        {
            _endpoint("submissions_total", answer="unanswered"): "0+2x60",
            _endpoint("submissions_total", answer="accepted"): "0+90x60",
        },
        (
            {
                _endpoint("submissions_total", answer="unanswered"): "2x60",
                _endpoint("submissions_total", answer="accepted"): "0+90x60",
            },
        ),
    ),
    "WebhooksMissing": AlertCase(
        {_endpoint("webhook_share_ratio"): "0.4x60"}, ({_endpoint("webhook_share_ratio"): "0.6x60"},)
    ),
    "FinishByMissed": AlertCase(
        {
            'run_eta_timestamp_seconds{run="r"}': "9000x60",
            'run_finish_by_timestamp_seconds{run="r"}': "8000x60",
        },
        (
            {
                'run_eta_timestamp_seconds{run="r"}': "7000x60",
                'run_finish_by_timestamp_seconds{run="r"}': "8000x60",
            },
            {
                'run_finish_by_timestamp_seconds{run="r"}': "1000x60",
                'run_jobs{run="r", state="queued"}': "0x60",
            },
        ),
    ),
    "BudgetNearlySpent": AlertCase(
        {'run_spend{run="r"}': "46x60", 'run_budget{run="r"}': "50x60"},
        ({'run_spend{run="r"}': "44x60", 'run_budget{run="r"}': "50x60"}, {'run_spend{run="r"}': "44x60"}),
    ),
    "FlowLate": AlertCase({'flow_late{pipeline="p"}': "1x60"}, ({'flow_late{pipeline="p"}': "0x60"},)),
    "FlowFailed": AlertCase(
        {'flow_ends_total{pipeline="p", result="failed"}': "0x30 1x30"},
        (
            {'flow_ends_total{pipeline="p", result="failed"}': "4x60"},
            {'flow_ends_total{pipeline="p", result="partial"}': "0x30 1x30"},
        ),
    ),
    "FiresMissed": AlertCase(
        {'fires_missed_total{pipeline="p"}': "0x30 3x30"}, ({'fires_missed_total{pipeline="p"}': "3x60"},)
    ),
    "ScheduleUnseen": AlertCase(
        {'schedule_next_fire_timestamp_seconds{pipeline="p"}': "2000x60"},
        (
            {'schedule_next_fire_timestamp_seconds{pipeline="p"}': "3000x60"},
            {'schedule_paused{pipeline="p"}': "1x60"},
        ),
    ),
    "CommitsSlow": AlertCase(
        _histogram("ledger_commit_seconds", {"1": "0+90x60", "5": "0+100x60", "+Inf": "0+100x60"}),
        (_histogram("ledger_commit_seconds", {"1": "0+100x60", "5": "0+100x60", "+Inf": "0+100x60"}),),
    ),
    "DiskNearlyFull": AlertCase(
        {"disk_free_bytes": "50e9-500000000x60"},
        ({"disk_free_bytes": "50e9-1000x60"},),
    ),
    "FilesNearlyFull": AlertCase(
        {"batch_api_files_bytes": "19e9x60", "batch_api_files_max_bytes": "20e9x60"},
        (
            {"batch_api_files_bytes": "17e9x60", "batch_api_files_max_bytes": "20e9x60"},
            {"batch_api_files_bytes": "19e9x10 1e9x50", "batch_api_files_max_bytes": "20e9x60"},
        ),
    ),
    "JanitorFailing": AlertCase(
        {'janitor_failing{duty="prune"}': "1x60", **_WORKING},
        ({'janitor_failing{duty="prune"}': "1x60", **_NOBODY}, {'janitor_failing{duty="prune"}': "1x10", **_WORKING}),
    ),
    "MessagesStuck": AlertCase(
        {'notifications_waiting{target="ops"}': "2x60"},
        ({'notifications_waiting{target="ops"}': "2x20 0x10 2x30"}, {'notifications_waiting{target="ops"}': "0x60"}),
    ),
}

ALSO_FIRING: Final[Mapping[str, tuple[Series, ...]]] = {
    "ResultsExpireUnattended": ({_endpoint("safe_until_timestamp_seconds"): "4100x60"},),
    "NobodyAtWork": ({_endpoint("runs", standing="held"): "1x60"},),
    "NothingCollected": ({_endpoint("jobs", state="outstanding"): "5x60"},),
    "FinishByMissed": (
        {'run_finish_by_timestamp_seconds{run="r"}': "1000x60", 'run_jobs{run="r", state="queued"}': "3x60"},
    ),
    "DiskNearlyFull": ({"disk_free_bytes": "900000000x60"},),
}
"""Other ways for the same to be so: nobody ever was at work, for example, so that nothing says that nobody is."""
