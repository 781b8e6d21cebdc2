"""Totals of several processes together: each has its own samples, by its slot, and goes on where the one before it in
that slot stood.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from orchestrator.core.samples.buckets import NO_VALUES, Histogram
from orchestrator.core.samples.sample_spacing import GAP_STEPS, SAMPLE_S
from orchestrator.ledger.samples.samples import ProcessTotals
from orchestrator.units import SECOND_US

PRESENT_US: Final = GAP_STEPS * SAMPLE_S * SECOND_US
"""Whoever has taken no sample for so long, while others have, uses nothing any more."""


def totals_together(latest: Iterable[ProcessTotals], present_us: int = PRESENT_US) -> ProcessTotals | None:
    """What these come to; None where there are none. Memory is of those alone whose sample is not older than that of
    another one by more than `present_us`.
    """
    of_slots = sorted(latest, key=lambda each: each.at)
    if len(of_slots) <= 1:
        return next(iter(of_slots), None)
    newest = of_slots[-1]
    present = [each for each in of_slots if newest.at - each.at <= present_us]
    return ProcessTotals(
        at=newest.at,
        process=", ".join(each.process for each in present),
        began_at=min(each.began_at for each in present),
        resident_bytes=sum(each.resident_bytes for each in present),
        before=newest.before,
        position=newest.position,
        begins=sum(each.begins for each in of_slots),
        cpu_s=round(sum(each.cpu_s for each in of_slots), 3),
        lag=_added(each.lag for each in of_slots),
        commits=_added(each.commits for each in of_slots),
        webhooks=sum((Counter(each.webhooks) for each in of_slots), Counter()),
    )


def samples_together(of_slots: Iterable[Sequence[ProcessTotals]], spacing_s: int) -> list[ProcessTotals]:
    """The samples of several slots, each oldest first, as those of one process: one for each stretch of `spacing_s` in
    which any was taken. What a slot had counted before its first sample was there all along.
    """
    found = [samples for samples in of_slots if samples]
    if len(found) <= 1:
        return [sample for samples in found for sample in samples]
    width = spacing_s * SECOND_US
    stood = {slot: _before(samples[0], width) for slot, samples in enumerate(found)}
    stretches: dict[int, dict[int, ProcessTotals]] = {}
    for slot, samples in enumerate(found):
        for sample in samples:
            stretches.setdefault(-(-sample.at // width), {})[slot] = sample
    points = []
    for _, stretch in sorted(stretches.items()):
        stood |= stretch
        together = totals_together(stood.values(), GAP_STEPS * width)
        assert together is not None
        points.append(together)
    return points


def _before(first: ProcessTotals, width: int) -> ProcessTotals:
    """How a slot stood before that sample: at nothing where its process was the first and had just begun."""
    has_begun = first.begins == 1 and first.at - first.began_at <= GAP_STEPS * width
    return ProcessTotals() if has_begun else _used(first)


def _used(sample: ProcessTotals) -> ProcessTotals:
    """Its counters alone."""
    return ProcessTotals(cpu_s=sample.cpu_s, lag=sample.lag, commits=sample.commits, webhooks=sample.webhooks)


def _added(values: Iterable[Histogram]) -> Histogram:
    return reduce(Histogram.plus, values, NO_VALUES)


def newest_of(totals: Mapping[int, ProcessTotals]) -> ProcessTotals | None:
    """The sample that was taken last, of whichever slot."""
    return max(totals.values(), key=lambda each: each.at, default=None)
