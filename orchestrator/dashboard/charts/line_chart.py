"""Lines over time: some values of a run or an endpoint, with the pauses and holds that they are to be read with."""

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from functools import cache
from itertools import groupby
from typing import Final

from markupsafe import Markup

from orchestrator.core.text.wording import counted
from orchestrator.dashboard.charts.amounts import amount_text
from orchestrator.dashboard.charts.axes import TimeAxis, ValueAxis, lasted_text, time_axis, value_axis
from orchestrator.dashboard.charts.chart import BandNote, Chart, ChartLine
from orchestrator.dashboard.charts.svg import element, percent_text
from orchestrator.views.series import Band, Series, Unit

NOTES_MAX: Final = 8
"""So many bands have a number and a note, the latest ones."""

BANDS_MAX: Final = 100
"""So many are drawn."""

NOTHING: Final = "Nothing was sampled in that time: that is done each ten seconds while there is work."

DASHES: Final = ("solid", "dashed", "dotted", "dash-dot", "long-dash", "fine-dash")

WIDE: Final = 10_000
HIGH: Final = 1_000
"""So many places a line can be at."""

_PLACES: Final = f"0 0 {WIDE} {HIGH}"

_LATE: Final = 0.95
"""Further right the number of a band stands before it."""

_Points = list[tuple[int, float | None]]


def draw(
    series: Sequence[Series],
    bands: Sequence[Band] = (),
    *,
    title: str,
    since: int | None = None,
    until: int | None = None,
    zone: tzinfo = UTC,
) -> Chart:
    """The lines of `series`, which have one unit, over `bands`.

    `since` and `until` are the window that was asked for; without them it is as wide as the points. The chart begins
    and ends at round times of `zone`. Points outside are left out. Of points at one moment the last counts; points need
    not be in order. Raises ValueError for values that are no numbers, and for lines of several units.
    """
    if len({each.unit for each in series}) > 1:
        raise ValueError(f"{title}: one axis cannot have several units")
    drawn = [(each, _in_order(each)) for each in series]
    known = [at for _, points in drawn for at, value in points if value is not None]
    since = min(known, default=None) if since is None else since
    until = max(known, default=None) if until is None else until
    if since is None or until is None or not any(since <= at <= until for at in known):
        return Chart(title=title, summary=NOTHING, svg=Markup())
    times = time_axis(since, until, zone)
    drawn = [(each, _within(points, times)) for each, points in drawn]
    unit = series[0].unit
    values = value_axis([value for _, points in drawn for _, value in points if value is not None], unit)
    shown = sorted((band for band in bands if _meets(band, times)), key=lambda band: band.since)[-BANDS_MAX:]
    names = [_css(each, place) for place, each in enumerate(series)]
    lines = [_line(points, css, times, values) for (_, points), css in zip(drawn, names, strict=True)]
    return Chart(
        title=title,
        summary=_summary(drawn, shown, times, zone),
        svg=element(
            "svg",
            *_grid(len(values.labels) - 1, len(times.labels) - 1),
            *_bands(shown, times),
            element("svg", *lines, viewBox=_PLACES, preserveAspectRatio="none", width="100%", height="100%"),
            class_="plot",
            aria_hidden="true",
        ),
        values=values.labels,
        times=times.labels,
        lines=tuple(
            ChartLine(css=css, name=each.name, last=_last(points, unit), key=_key(css))
            for (each, points), css in zip(drawn, names, strict=True)
        ),
        bands=tuple(_note(number, band, zone) for number, band in enumerate(shown[-NOTES_MAX:], start=1)),
        more_bands=max(len(shown) - NOTES_MAX, 0),
    )


def _in_order(series: Series) -> _Points:
    """By time; of several points at one moment the last one."""
    return sorted(dict(series.points).items())


def _within(points: _Points, times: TimeAxis) -> _Points:
    return [(at, value) for at, value in points if times.since <= at <= times.until]


def _css(series: Series, place: int) -> str:
    return f"line {series.state or f'tone-{place % len(DASHES) + 1}'} {DASHES[place % len(DASHES)]}"


def _line(points: _Points, css: str, times: TimeAxis, values: ValueAxis) -> Markup:
    """A path that goes on elsewhere after a gap, and one of dots: points between two gaps, which would not be seen."""
    parts: list[str] = []
    dots: list[str] = []
    # Written out, and in whole numbers, as there are thousands; all points are within the axes.
    since, right = times.since, WIDE / (times.until - times.since)
    high, down = values.high, HIGH / (values.high - values.low)
    for _, group in groupby(points, key=lambda point: point[1] is None):
        places = [
            f"{int(right * (at - since) + 0.5)} {int(down * (high - value) + 0.5)}"
            for at, value in group
            if value is not None
        ]
        drawn_to = " ".join(places)
        if len(places) > 1:
            parts.append(f"M{drawn_to}")
        elif places:
            dots.append(f"M{drawn_to}h0")
    drawn = [element("path", d="".join(parts), class_=css)] if parts else []
    drawn += [element("path", d="".join(dots), class_=f"{css} dot")] if dots else []
    return Markup().join(drawn)


@cache  # an axis has few steps
def _grid(rows: int, columns: int) -> tuple[Markup, ...]:
    across = [percent_text(row / rows) for row in range(rows + 1)]
    down = [percent_text(column / columns) for column in range(1, columns)]
    return (
        *(element("line", x2="100%", y1=y, y2=y, class_="grid") for y in across),
        *(element("line", y2="100%", x1=x, x2=x, class_="grid") for x in down),
    )


def _meets(band: Band, times: TimeAxis) -> bool:
    return band.since <= times.until and (band.until is None or band.until >= times.since)


def _bands(bands: Sequence[Band], times: TimeAxis) -> Iterator[Markup]:
    for number, band in enumerate(bands, start=1 - max(len(bands) - NOTES_MAX, 0)):
        left, right = times.share(band.since), 1.0 if band.until is None else times.share(band.until)
        x = percent_text(left)
        css = f"band {band.kind}"
        if right > left:
            yield element("rect", x=x, width=percent_text(right - left), height="100%", class_=css)
        yield element("line", x1=x, x2=x, y2="100%", class_=css)
        if number > 0:
            is_late = left > _LATE
            yield element("text", str(number), x=x, dx=-3 if is_late else 3, y=11, class_="end" if is_late else "start")


def _note(number: int, band: Band, zone: tzinfo) -> BandNote:
    return BandNote(mark=str(number), kind=band.kind, when=lasted_text(band.since, band.until, zone), text=band.text)


def _last(points: _Points, unit: Unit) -> str:
    value = points[-1][1] if points else None
    return "" if value is None else amount_text(value, unit)


def _key(css: str) -> Markup:
    line = element("path", d="M2 5H26", class_=css)
    return element("svg", line, viewBox="0 0 28 10", class_="key", aria_hidden="true")


def _summary(drawn: Sequence[tuple[Series, _Points]], bands: Sequence[Band], times: TimeAxis, zone: tzinfo) -> str:
    sentences = [f"{lasted_text(times.since, times.until, zone)}."]
    sentences += [_told(each, points) for each, points in drawn]
    sentences += [
        f"{band.kind.capitalize()}, {lasted_text(band.since, band.until, zone)}: {band.text.rstrip('.')}."
        for band in bands[-NOTES_MAX:]
    ]
    return " ".join(sentences)


def _told(series: Series, points: _Points) -> str:
    known = [value for _, value in points if value is not None]
    if not known:
        return f"{series.name}: nothing is known."
    lowest, highest = amount_text(min(known), series.unit), amount_text(max(known), series.unit)
    last = _last(points, series.unit) or "not known"
    gaps = sum(is_gap for is_gap, _ in groupby(value is None for _, value in points))
    broken = f", {counted(gaps, 'gap')}" if gaps else ""
    return f"{series.name}: lowest {lowest}, highest {highest}, last {last}{broken}."
