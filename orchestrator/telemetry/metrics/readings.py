"""What there is to say of each metric at one moment: values by labels, checked against the registry as they come."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from orchestrator.telemetry.metrics.registry import BY_NAME, MetricType


class Distribution(msgspec.Struct, frozen=True):
    """How often something was how large: of each bound, how often it was that at most."""

    bounds: tuple[float, ...]
    at_most: tuple[int, ...]
    """By `bounds`, each with those before it, and then all."""

    total: float
    """The sum of what was counted."""

    def __add__(self, other: "Distribution") -> "Distribution":
        if self.bounds != other.bounds:
            raise ValueError(f"two distributions with different bounds: {self.bounds} and {other.bounds}")
        both = tuple(mine + its for mine, its in zip(self.at_most, other.at_most, strict=True))
        return Distribution(self.bounds, both, self.total + other.total)


Value: TypeAlias = float | Distribution
Labels: TypeAlias = tuple[str, ...]
"""The values of the labels, in the order in which the registry has their names."""


class MetricsSnapshot(msgspec.Struct, frozen=True):
    """Every value that is there, by metric and labels."""

    values: Mapping[str, Mapping[Labels, Value]]

    @property
    def series(self) -> int:
        """How many series Prometheus makes of it."""
        return sum(
            len(value.at_most) + 2 if isinstance(value, Distribution) else 1
            for found in self.values.values()
            for value in found.values()
        )


class Readings:
    """Collects the values of one moment. What is None is left out: nothing is said of what nobody knows.

    Several things may have the same labels, since what is beyond a number is called the same: their values become one.
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[Labels, Value]] = {}

    def add(self, name: str, *labels: str, value: Value | None) -> None:
        """One value more; of several with these labels, the sum."""
        self._merge(name, labels, value, _sum)

    def latest(self, name: str, *labels: str, value: float | None) -> None:
        """One value more; of several with these labels, the largest."""
        self._merge(name, labels, value, max)

    def earliest(self, name: str, *labels: str, value: float | None) -> None:
        """One value more; of several with these labels, the smallest."""
        self._merge(name, labels, value, min)

    def _merge(self, name: str, labels: Sequence[str], value: Value | None, of: Callable[..., Value]) -> None:
        metric = BY_NAME[name]
        if len(labels) != len(metric.labels):
            raise ValueError(f"{name} has the labels {metric.labels}, not {labels}")
        if value is None:
            return
        if isinstance(value, Distribution) != (metric.type is MetricType.HISTOGRAM):
            raise ValueError(f"{name} is a {metric.type}, and {value} is not")
        found = self._found.setdefault(name, {})
        key = tuple(labels)
        found[key] = of(found[key], value) if key in found else value

    def snapshot(self) -> MetricsSnapshot:
        """All of them, in the order of the registry; by then nothing is added any more."""
        ordered = {name: MappingProxyType(self._found[name]) for name in BY_NAME if name in self._found}
        return MetricsSnapshot(MappingProxyType(ordered))


def _sum(one: Value, other: Value) -> Value:
    return one + other  # type: ignore[operator]  # both are of one metric, so of one kind
