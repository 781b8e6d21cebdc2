"""A snapshot as prometheus_client takes it, and as text in the formats of Prometheus."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from orchestrator.telemetry.metrics.readings import Distribution, Labels, MetricsSnapshot, Value
from orchestrator.telemetry.metrics.registry import BY_NAME, MetricType
from orchestrator.telemetry.metrics.registry import Metric as Declared

_OPENMETRICS: Final = "application/openmetrics-text"
_TOTAL: Final = "_total"
_INFO: Final = "_info"


class MetricsText(msgspec.Struct, frozen=True):
    """What is answered to who scrapes."""

    content_type: str
    body: bytes


class SnapshotCollector(Collector):
    """Tells prometheus_client what a snapshot says; it keeps nothing of its own, so restarts change nothing."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """One family for each metric of which there is anything to say."""
        for name, found in self._snapshot.values.items():
            yield _family(BY_NAME[name], found)


def _family(metric: Declared, found: Mapping[Labels, Value]) -> Metric:
    match metric.type:
        case MetricType.HISTOGRAM:
            return _histogram(metric, found)
        case MetricType.INFO:
            info = InfoMetricFamily(metric.full_name.removesuffix(_INFO), metric.help)
            for labels in found:
                info.add_metric([], dict(zip(metric.labels, labels, strict=True)))
            return info
        case MetricType.COUNTER:
            counter = CounterMetricFamily(metric.full_name.removesuffix(_TOTAL), metric.help, labels=metric.labels)
            for labels, value in found.items():
                assert not isinstance(value, Distribution)
                counter.add_metric(labels, value)
            return counter
        case MetricType.GAUGE:
            gauge = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
            for labels, value in found.items():
                assert not isinstance(value, Distribution)
                gauge.add_metric(labels, value)
            return gauge


def _histogram(metric: Declared, found: Mapping[Labels, Value]) -> Metric:
    family = HistogramMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for labels, value in found.items():
        assert isinstance(value, Distribution)
        bounds = [*map(floatToGoString, value.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, value.at_most, strict=True)), value.total)
    return family


def exposed(snapshot: MetricsSnapshot, accept: str = "") -> MetricsText:
    """`snapshot` as text: OpenMetrics for who accepts that, else the format that everybody reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot))
    if _OPENMETRICS in accept:
        body: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return MetricsText(openmetrics.CONTENT_TYPE_LATEST, body)
    return MetricsText(CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))
