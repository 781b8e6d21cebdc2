"""How many values are of which size, as bars of one width."""

from collections.abc import Sequence

from markupsafe import Markup

from orchestrator.dashboard.charts.amounts import amount_text
from orchestrator.dashboard.charts.axes import value_axis
from orchestrator.dashboard.charts.chart import Chart
from orchestrator.dashboard.charts.svg import element, percent_text
from orchestrator.views.series import Bucket, Unit


def histogram(buckets: Sequence[Bucket], *, title: str, unit: Unit = Unit.SECONDS, lowest: float = 0) -> Chart:
    """A bar for each of `buckets`, smallest values first; the first begins at `lowest`.

    The bars are of one width, however much each bucket holds: the labels between them say how far it goes. Raises
    ValueError for counts that are negative, or no numbers.
    """
    counts = [bucket.count for bucket in buckets]
    if any(not count >= 0 for count in counts):
        raise ValueError(f"a bucket holds {min(counts)!r}")
    if not any(counts):
        return Chart(title=title, summary="There is nothing to count yet.", svg=Markup())
    axis = value_axis(counts, Unit.NUMBER)
    width = 1 / len(buckets)
    bounds = (
        amount_text(lowest, unit),
        *("more" if each.up_to is None else amount_text(each.up_to, unit) for each in buckets),
    )
    rows = len(axis.labels) - 1
    grid = [
        element("line", x2="100%", y1=percent_text(row / rows), y2=percent_text(row / rows), class_="grid")
        for row in range(rows + 1)
    ]
    bars = [
        element(
            "rect",
            element("title", f"{bounds[place]} to {bounds[place + 1]}: {amount_text(count, Unit.NUMBER)}"),
            x=percent_text((place + 0.06) * width),
            width=percent_text(0.88 * width),
            y=percent_text(1 - axis.share(count)),
            height=percent_text(axis.share(count)),
            class_="column",
        )
        for place, count in enumerate(counts)
        if count
    ]
    return Chart(
        title=title,
        summary=_summary(counts, bounds),
        svg=element("svg", *grid, *bars, class_="plot", aria_hidden="true"),
        values=axis.labels,
        bounds=bounds,
    )


def _summary(counts: Sequence[float], bounds: Sequence[str]) -> str:
    told = (
        f"{bounds[place]} to {bounds[place + 1]}: {amount_text(count, Unit.NUMBER)}"
        for place, count in enumerate(counts)
        if count
    )
    return f"{'; '.join(told)}."
