"""A plan whose jobs are executed by pods that are asked for first: all begins once they are ready, and they are paid by
the hour from the beginning to the end, whatever they do.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from orchestrator.core.planning.forecast import Course, Forecast
from orchestrator.core.planning.plan_types import KnownPods, Money, PodsPlan
from orchestrator.core.pods.pod_lease import PodLease
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

START_US_ASSUMED: Final = 3 * MINUTE_US
"""How long a pod takes until its server answers, where none was seen: an image, and a model, are loaded."""

STARTS_LOOKED_AT: Final = 20

NOT_INCLUDED: Final = ("pods that fail and are replaced", "disks of pods that are stopped", "what others charge")


def latest_of(leases: Iterable[PodLease], template: PodTemplate) -> list[PodLease]:
    """The leases of such pods as `template` makes, the latest first."""
    return [lease for lease in reversed([*leases]) if template.makes_the_same(lease.template)]


def observed_start(leases: Iterable[PodLease]) -> tuple[int, str]:
    """How long pods took until they were ready, of `leases`, the latest first, and where that was found."""
    took_us = [each.ready_at - each.wanted_at for each in leases if each.ready_at is not None][:STARTS_LOOKED_AT]
    if not took_us:
        return START_US_ASSUMED, "assumed"
    how = "as one took" if len(took_us) == 1 else f"as the latest {len(took_us)} took"
    return sorted(took_us)[len(took_us) // 2], how


def begun_later(found: Forecast, pods: KnownPods) -> Forecast:
    """`found`, had it begun once the pods are ready."""

    def later(each: Course) -> Course:
        return msgspec.structs.replace(
            each, submitted_us=each.submitted_us + pods.start_us, finished_us=each.finished_us + pods.start_us
        )

    return msgspec.structs.replace(found, likely=later(found.likely), best=later(found.best), worst=later(found.worst))


def pods_money(found: Forecast, pods: KnownPods) -> Money | None:
    """What the pods cost if it goes like `found`, which has their start in it; None where nobody knows their price."""
    if pods.per_hour is None:
        return None
    all_per_hour = pods.count * pods.per_hour
    likely, best, worst = (
        all_per_hour * each.finished_us / HOUR_US for each in (found.likely, found.best, found.worst)
    )
    return Money(
        likely=likely,
        best=best,
        worst=worst,
        starting=all_per_hour * pods.start_us / HOUR_US,
        idle=0.0,
        not_included=NOT_INCLUDED,
        price_per_s=pods.per_hour * SECOND_US / HOUR_US,
        price_from=pods.price_from,
    )


def pods_plan(pods: KnownPods) -> PodsPlan:
    """What a plan says of them."""
    return PodsPlan(
        template=pods.template,
        count=pods.count,
        start_s=pods.start_us / SECOND_US,
        start_from=pods.start_from,
        price_per_hour=pods.per_hour,
        price_from=pods.price_from,
    )
