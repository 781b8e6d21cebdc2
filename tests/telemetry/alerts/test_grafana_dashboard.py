"""The dashboard of Grafana: JSON that it imports, every expression of which Prometheus understands."""

import json
from pathlib import Path
from typing import Any

from orchestrator.telemetry.alerts.grafana_dashboard import grafana_dashboard
from orchestrator.telemetry.metrics.registry import METRICS
from tests.telemetry.metrics.expressions import names_and_labels
from tests.telemetry.promtool import promtool

OF_GRAFANA = {"$__rate_interval": "5m", "$instance": ".*"}
"""What Grafana puts in the place of its variables."""


def panels(dashboard: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(grafana_dashboard(dashboard))["panels"]
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    rules = []
    for number, expr in enumerate(expressions()):
        for variable, value in OF_GRAFANA.items():
            expr = expr.replace(variable, value)  # noqa: PLW2901  one variable after the other
        assert "$" not in expr
        rules.append({"record": f"grafana:{number}", "expr": expr})
    file = tmp_path / "recorded.yml"
    file.write_text(json.dumps({"groups": [{"name": "grafana", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", file)


def test_every_expression_asks_for_metrics_and_labels_that_there_are() -> None:
    known = {name: metric for metric in METRICS for name in metric.series_names}
    for expr in expressions():
        for name, labels in names_and_labels(expr):
            assert name in known, expr
            assert labels <= {*known[name].labels, "le"}, expr


def test_legends_name_labels_that_the_metrics_have() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    for panel in panels():
        for target in panel.get("targets", ()):
            asked = {part.split("}}")[0] for part in target["legendFormat"].split("{{")[1:]}
            assert asked <= labels, target["legendFormat"]


def test_panels_lie_beside_each_other_and_within_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)


def test_our_own_dashboard_is_linked_where_its_address_is_known() -> None:
    assert json.loads(grafana_dashboard("https://box.example/"))["links"][0]["url"] == "https://box.example/"
    assert json.loads(grafana_dashboard())["links"] == []
