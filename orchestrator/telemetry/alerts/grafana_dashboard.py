"""The dashboard of Grafana as the JSON that it imports."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from orchestrator.telemetry.alerts.grafana_panels import PANELS, GrafanaPanel
from orchestrator.telemetry.metrics.registry import BY_NAME

UID: Final = "orchestrator"
_SCHEMA: Final = 39
"""Of Grafana 10; newer ones bring it up themselves."""

_COLUMNS: Final = 24
_LINES_WIDTH, _LINES_HEIGHT = 8, 8
_FIGURE_WIDTH, _FIGURE_HEIGHT = 4, 4
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


def grafana_dashboard(dashboard: str | None = None) -> bytes:
    """The JSON; with a link to our own dashboard where its address is known."""
    links = [] if dashboard is None else [{"title": "orchestrator", "type": "link", "url": dashboard}]
    value = {
        "uid": UID,
        "title": "orchestrator",
        "schemaVersion": _SCHEMA,
        "tags": ["orchestrator"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "links": links,
        "templating": {"list": [_source_variable(), _instance_variable()]},
        "panels": list(_placed()),
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _source_variable() -> Mapping[str, Any]:
    return {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}


def _instance_variable() -> Mapping[str, Any]:
    return {
        "name": "instance",
        "label": "Ledger",
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({BY_NAME['build_info'].full_name}, instance)",
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "allValue": ".*",
        "refresh": 2,
    }


def _placed() -> Iterator[Mapping[str, Any]]:
    """Each row and each panel, with its place on the grid."""
    number, top = 0, 0
    for row in PANELS:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": _at(0, top, _COLUMNS, 1)}
        left, top, height = 0, top + 1, 0
        for panel in row.panels:
            number += 1
            width, height = (_FIGURE_WIDTH, _FIGURE_HEIGHT) if panel.is_figure else (_LINES_WIDTH, _LINES_HEIGHT)
            if left + width > _COLUMNS:
                left, top = 0, top + height
            yield {"id": number, **_panel(panel), "gridPos": _at(left, top, width, height)}
            left += width
        top += height


def _at(left: int, top: int, width: int, height: int) -> Mapping[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: GrafanaPanel) -> Mapping[str, Any]:
    custom: dict[str, Any] = {} if panel.is_figure else {"lineWidth": 1, "fillOpacity": 10 if panel.is_stacked else 0}
    if panel.is_stacked:
        custom["stacking"] = {"mode": "normal"}
    return {
        "title": panel.title,
        "type": "stat" if panel.is_figure else "timeseries",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": each.expr, "legendFormat": each.legend}
            for n, each in enumerate(panel.drawn)
        ],
    }
