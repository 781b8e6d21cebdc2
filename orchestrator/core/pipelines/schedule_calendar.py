"""When a schedule fires: crons in a time zone, with its DST, or every so often counted from 1970.

`cronsim` parses expressions and walks the calendar, with naive times only; which instants the clock of the zone shows
these times at is decided here. Where the clock is turned, crons that name an hour and a minute differ from the others:

| | neither minute nor hour begins with `*` | otherwise |
|---|---|---|
| gap (spring) | once, at its end; several in one gap are one fire | the minutes that exist |
| repeated hour | once, the first | both |

All times are microseconds UTC, and arguments.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import merge
from itertools import count, groupby, islice, pairwise, takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.units import EPOCH, HOUR_US

CRON_FIELDS: Final = 5
YEAR_MAX: Final = 9000

CENTURY_US: Final = 36_525 * 24 * HOUR_US

LOOK_AHEAD_US: Final = 48 * HOUR_US
"""How far one look for a turn of the clock goes. No clock is turned by more than a day, or twice within six."""

_NAIVE_EPOCH: Final = EPOCH.replace(tzinfo=None)
_MICROSECOND: Final = timedelta(microseconds=1)


class Fire(NamedTuple):
    """One nominal time, and when its flow is begun: the same, but for the jitter."""

    at_us: int
    due_us: int


def check_cron(expression: str) -> None:
    """Raises `ValueError` for what is no expression of five fields, or names a day that never comes."""
    if len(expression.split()) != CRON_FIELDS:
        raise ValueError(f'"{expression:.60}" has not five fields: minute, hour, day of month, month, day of week')
    try:
        comes = next(_naive_from(expression, _NAIVE_EPOCH), None) is not None
    except CronSimError as error:
        raise ValueError(f'"{expression:.60}" is no cron expression: {str(error).lower()}') from None
    if not comes:
        raise ValueError(f'"{expression:.60}" names a day that never comes')


def fires_from(schedule: Schedule, start_us: int) -> Iterator[int]:
    """The nominal times from `start_us` on (that included), each after the one before, without an end."""
    if schedule.every_us is not None:
        since_us = start_us - schedule.offset_us
        return count(start_us + -since_us % schedule.every_us, schedule.every_us)
    zone = _zone(schedule.zone)
    walks = [(_named if _names_its_time(cron) else _shown)(cron, zone, start_us) for cron in schedule.cron]
    return walks[0] if len(walks) == 1 else (at_us for at_us, _ in groupby(merge(*walks)))


def next_fires(schedule: Schedule, after_us: int, number: int) -> list[int]:
    """The first `number` nominal times after `after_us`."""
    return list(islice(fires_from(schedule, after_us + 1), number))


def previous_fire(schedule: Schedule, before_us: int) -> int | None:
    """The last nominal time before `before_us`; None where there was none for a century."""

    def first_from(start_us: int) -> int:
        return next(fires_from(schedule, start_us), before_us)

    none_since_us, back_us = before_us, HOUR_US
    while (last_us := first_from(before_us - back_us)) >= before_us:
        none_since_us, back_us = before_us - back_us, 2 * back_us
        if back_us > CENTURY_US:
            return None
    while (following_us := first_from(last_us + 1)) < before_us:
        middle_us = (following_us + none_since_us) // 2
        found_us = first_from(middle_us)
        if found_us < before_us:
            last_us = found_us
        else:
            last_us, none_since_us = following_us, middle_us
    return last_us


def fires_between(schedule: Schedule, key: str, after_us: int, until_us: int, limit: int) -> list[Fire]:
    """The first `limit` fires of the pipeline `key` whose times lie in (`after_us`, `until_us`]. Each is due before the
    next one's time: they keep their order.
    """
    fires = takewhile(lambda fire: fire.at_us <= until_us, _jittered(schedule, key, after_us))
    return list(islice(fires, limit))


def _jittered(schedule: Schedule, key: str, after_us: int) -> Iterator[Fire]:
    nominal = fires_from(schedule, after_us + 1)
    if not schedule.jitter_us:
        return (Fire(at_us, at_us) for at_us in nominal)
    return (
        Fire(at, at + _drawn(key, at, min(schedule.jitter_us, following - at))) for at, following in pairwise(nominal)
    )


def _drawn(key: str, at_us: int, below_us: int) -> int:
    """The jitter of one fire: always the same for that fire of that pipeline."""
    drawn = hashlib.sha256(f"{key}\n{at_us}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") * below_us >> 64


def instant_of(text: str, zone: str) -> int:
    """What `2027-03-28T02:30` means in `zone`, or with an offset (`Z`, `+02:00`) anywhere.

    Raises `ValueError` for what is no time, and for one that the clock of the zone never shows, or shows twice.
    """
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f'"{text:.40}" is no time; write it as 2027-03-28T02:30, or with an offset') from None
    if not EPOCH.year < given.year < YEAR_MAX:
        raise ValueError(f'"{text:.40}": the year has to be after {EPOCH.year} and before {YEAR_MAX}')
    if given.tzinfo is not None:
        return (given - EPOCH) // _MICROSECOND
    first_us, second_us = (_since_epoch(given) - offset_us for offset_us in _offsets(given, _zone(zone)))
    if first_us == second_us:
        return first_us
    if _offset(_zone(zone), first_us) != _since_epoch(given) - first_us:
        raise ValueError(f'"{text:.40}" does not exist in {zone}: the clock is turned over it; write it with an offset')
    raise ValueError(f'"{text:.40}" comes twice in {zone}, as the clock is turned back; write it with an offset')


# --- what the clock of a zone shows


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    """That zone, kept: `zoneinfo` itself keeps eight, and reading one costs more than to work out a fire."""
    return ZoneInfo(name)


@lru_cache(maxsize=1024)
def _calendar(cron: str) -> CronSim:
    return CronSim(cron, _NAIVE_EPOCH)


def _naive_from(cron: str, start: datetime) -> Iterator[datetime]:
    """The naive times of `cron` from `start` on, that included. After fifty years without any they end."""
    calendar = CronSim.__new__(CronSim)  # a third of what `copy.copy` takes
    vars(calendar).update(vars(_calendar(cron)))
    calendar.dt = (start - _MICROSECOND).replace(microsecond=0)
    return calendar


def _names_its_time(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def _named(cron: str, zone: ZoneInfo, start_us: int) -> Iterator[int]:
    """Each time of the calendar once: the first time that it is shown, or at the end of the gap that it lies in."""
    last_us = start_us - 1
    for naive in _naive_from(cron, _shown_at(start_us, _offset(zone, last_us))):  # from before a gap that ends here
        first, second = _offsets(naive, zone)
        at_us = _since_epoch(naive) - first
        if _offset(zone, at_us) != first:
            at_us = _turn(zone, _since_epoch(naive) - second, at_us)
        if at_us > last_us:
            yield at_us
            last_us = at_us


def _shown(cron: str, zone: ZoneInfo, start_us: int) -> Iterator[int]:
    """Each instant at which the clock shows a time of the calendar: none in a gap, and twice in a repeated hour."""
    while True:
        offset_us = _offset(zone, start_us)
        end_us = start_us + LOOK_AHEAD_US
        is_turned = _offset(zone, end_us) != offset_us
        if is_turned:
            end_us = _turn(zone, start_us, end_us)
        at_us = end_us
        for naive in _naive_from(cron, _shown_at(start_us, offset_us)):
            at_us = _since_epoch(naive) - offset_us
            if at_us >= end_us:
                break
            yield at_us
        else:
            return
        start_us = end_us if is_turned else max(end_us, at_us - LOOK_AHEAD_US)


def _turn(zone: ZoneInfo, before_us: int, after_us: int) -> int:
    """When between two instants the clock is turned: the first instant that has the later one's offset."""
    offset_us = _offset(zone, after_us)
    while after_us - before_us > 1:
        middle_us = (before_us + after_us) // 2
        if _offset(zone, middle_us) == offset_us:
            after_us = middle_us
        else:
            before_us = middle_us
    return after_us


def _offset(zone: ZoneInfo, at_us: int) -> int:
    return _whole((EPOCH + timedelta(microseconds=at_us)).astimezone(zone).utcoffset())


def _offsets(naive: datetime, zone: ZoneInfo) -> tuple[int, int]:
    """Those of the first and of the second time that it is shown; in a gap those of before and after it."""
    first, second = (_whole(naive.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
    return first, second


def _shown_at(at_us: int, offset_us: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(microseconds=at_us + offset_us)


def _since_epoch(naive: datetime) -> int:
    return (naive - _NAIVE_EPOCH) // _MICROSECOND


def _whole(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // _MICROSECOND
