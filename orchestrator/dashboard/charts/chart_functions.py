"""The functions by which templates draw charts."""

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial

from orchestrator.dashboard.charts.bars import attempt_bar, spark_bars, state_bar
from orchestrator.dashboard.charts.histogram import histogram
from orchestrator.dashboard.charts.line_chart import draw
from orchestrator.dashboard.charts.time_bars import time_bars


def chart_functions(zone: tzinfo) -> Mapping[str, Callable[..., object]]:
    """Each by the name that templates use; times are round, and shown, by the clock of `zone`."""
    return {
        "attempt_bar": attempt_bar,
        "draw": partial(draw, zone=zone),
        "histogram": histogram,
        "spark_bars": spark_bars,
        "state_bar": state_bar,
        "time_bars": partial(time_bars, zone=zone),
    }
