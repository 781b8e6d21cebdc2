"""Bars of parts: the states of a run's jobs, the stretches of one attempt, the counts of a kind's last hour."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from orchestrator.dashboard.charts.amounts import amount_text
from orchestrator.dashboard.charts.chart import Bar, BarPart
from orchestrator.dashboard.charts.svg import element, percent_text
from orchestrator.views.series import Stretch, Unit

STATES_SHOWN: Final = ("succeeded", "failed", "cancelled", "uncertain", "outstanding", "submitting", "queued")
"""From what is done to what is to be done; others follow in their own order."""

LEAST_SHARE: Final = 0.006
"""What is there at all can be seen: three failures of a million too."""

_LEAST_HEIGHT: Final = 0.12


def state_bar(counts: Mapping[str, int]) -> Bar:
    """The jobs of each state, of all. Raises ValueError for a negative count."""
    if any(count < 0 for count in counts.values()):
        raise ValueError(f"{min(counts, key=lambda state: counts[state])}: less than none")
    states = sorted(counts, key=lambda state: STATES_SHOWN.index(state) if state in STATES_SHOWN else len(STATES_SHOWN))
    there = [(state, counts[state]) for state in states if counts[state]]
    whole = sum(count for _, count in there)
    parts = tuple(BarPart(kind=state, text=f"{count:,}", share=part_text(count, whole)) for state, count in there)
    return Bar(
        summary=", ".join(f"{part.kind} {part.text} ({part.share})" for part in parts) or "no jobs",
        svg=_bar([(state, count / whole) for state, count in there]),
        parts=parts,
    )


def part_text(count: int, whole: int) -> str:
    """A share that says neither nothing of something nor all of less: "under 0.1 %", "over 99.9 %"."""
    tenths = 1000 * count // whole if whole else 0
    if count and not tenths:
        return "under 0.1 %"
    if count < whole and (1000 * (whole - count)) // whole == 0:
        return "over 99.9 %"
    return f"{tenths / 10:g} %"


def attempt_bar(stretches: Sequence[Stretch], *, longest_s: float | None = None) -> Bar:
    """One attempt, as long as it took of `longest_s`, which makes the bars of several comparable.

    Stretches of an unknown length are named and not drawn; negative ones count as nothing: clocks differ. Raises
    ValueError for what is no number.
    """
    known = [(each.kind, max(each.seconds, 0.0)) for each in stretches if each.seconds is not None]
    if not all(math.isfinite(seconds) for _, seconds in known):
        raise ValueError("a stretch of an attempt has no number of seconds")
    took = sum(seconds for _, seconds in known)
    whole = max(took, longest_s or 0.0)
    parts = tuple(
        BarPart(
            kind=each.kind,
            text="not known" if each.seconds is None else amount_text(max(each.seconds, 0), Unit.SECONDS),
        )
        for each in stretches
    )
    return Bar(
        summary=", ".join(f"{part.kind} {part.text}" for part in parts) or "nothing happened yet",
        svg=_bar(
            [(kind, seconds / whole) for kind, seconds in known if seconds] if whole else [],
            filled=took / whole if whole else 0,
        ),
        parts=parts,
    )


def _bar(shares: Sequence[tuple[str, float]], *, filled: float = 1.0) -> Markup:
    """Rectangles side by side, of which each can be seen. They fill `filled` of the bar."""
    shown = [(kind, max(share, LEAST_SHARE)) for kind, share in shares]
    scale = filled / sum(share for _, share in shown) if shown else 0
    left, rectangles = 0.0, []
    for kind, share in shown:
        width = share * scale
        rectangles.append(
            element("rect", x=percent_text(left), width=percent_text(width), height="100%", class_=f"part {kind}")
        )
        left += width
    return element("svg", *rectangles, class_="bar", aria_hidden="true")


def spark_bars(values: Sequence[float], *, title: str) -> Bar:
    """Small columns, oldest first: how often something was of late. Raises ValueError for what is no count."""
    if any(not 0 <= value < float("inf") for value in values):
        raise ValueError("a column cannot be lower than nothing, or endless")
    highest = max(values, default=0) or 1
    width = 1 / max(len(values), 1)
    columns = [
        element(
            "rect",
            x=percent_text((place + 0.1) * width),
            width=percent_text(0.8 * width),
            y=percent_text(1 - max(value / highest, _LEAST_HEIGHT)),
            height=percent_text(max(value / highest, _LEAST_HEIGHT)),
            class_="column",
        )
        for place, value in enumerate(values)
        if value
    ]
    total, most, last = (
        amount_text(value, Unit.NUMBER) for value in (sum(values), max(values, default=0), values[-1] if values else 0)
    )
    return Bar(
        summary=f"{title}: {total}, at most {most}, last {last}",
        svg=element("svg", *columns, class_="spark", aria_hidden="true"),
        parts=(),
    )
