"""The alert rules, as promtool judges them: each fires when it has to, and is silent when it must be."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.telemetry.alerts.alert import Alert
from orchestrator.telemetry.alerts.registry import ALERTS
from orchestrator.telemetry.alerts.rule_file import rule_file
from orchestrator.telemetry.metrics.registry import METRICS
from tests.telemetry.alerts.alert_cases import ALSO_FIRING, CASES, Series
from tests.telemetry.metrics.expressions import names_and_labels
from tests.telemetry.promtool import promtool


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(rule_file("https://box.example/orchestrator"))
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", rules)


@pytest.mark.slow
def test_each_alert_fires_when_it_has_to_and_else_is_silent(tmp_path: Path) -> None:
    files = []
    for alert in ALERTS:  # each alone: else all are worked out for each case of one
        rules, tests = tmp_path / f"{alert.name}.rules.yml", tmp_path / f"{alert.name}.yml"
        rules.write_text(rule_file(alerts=[alert]))
        asked = {"rule_files": [rules.name], "evaluation_interval": "1m", "tests": list(_tests(alert))}
        tests.write_text(json.dumps(asked))
        files.append(tests)
    assert promtool("test", "rules", *files).count("SUCCESS") == len(ALERTS)


def _tests(alert: Alert) -> Iterator[dict[str, Any]]:
    case = CASES[alert.title]
    for series in (case.firing, *ALSO_FIRING.get(alert.title, ())):
        yield _test(alert.name, series, [{"labels": "{}", "value": 1}])
    for series in case.silent:
        yield _test(alert.name, series, [])


def _test(alert: str, series: Series, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": f"orchestrator_{name}", "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                "eval_time": "1h",
                "exp_samples": expected,
            }
        ],
    }


def test_what_an_alert_says_names_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rule_file("https://box.example/orchestrator/"))
    flow_late = next(alert for alert in ALERTS if alert.title == "FlowLate")
    expected = {
        "exp_labels": {"severity": "warning", "pipeline": "captions"},
        "exp_annotations": {
            "summary": "A flow of captions has not ended in time",
            "description": flow_late.todo,
            "runbook": "docs/reference/metrics.md#flowlate",
            "dashboard": "https://box.example/orchestrator/pipelines",
        },
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": 'orchestrator_flow_late{pipeline="captions"}', "values": "1x10"}],
        "alert_rule_test": [{"eval_time": "5m", "alertname": flow_late.name, "exp_alerts": [expected]}],
    }
    tests = tmp_path / "tests.yml"
    tests.write_text(json.dumps({"rule_files": ["rules.yml"], "tests": [test]}))
    promtool("test", "rules", tests)


def test_every_alert_asks_for_metrics_and_labels_that_there_are() -> None:
    known = {name: metric for metric in METRICS for name in metric.series_names}
    for alert in ALERTS:
        for name, labels in names_and_labels(alert.expr):
            assert name in known, alert.name
            assert labels <= {*known[name].labels, "le"}, alert.name


def test_what_an_alert_says_has_only_labels_of_its_metrics() -> None:
    known = {name: metric for metric in METRICS for name in metric.series_names}
    for alert in ALERTS:
        asked = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.todo))
        assert asked <= {label for name, _ in names_and_labels(alert.expr) for label in known[name].labels}, alert.name


def test_each_alert_is_tried_and_has_a_name_of_its_own() -> None:
    assert {alert.title for alert in ALERTS} == set(CASES)
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
