"""What several processes have used comes to together, whichever began or ended meanwhile."""

from orchestrator.core.samples.buckets import Histogram
from orchestrator.ledger.samples.process_totals import newest_of, samples_together, totals_together
from orchestrator.ledger.samples.samples import ProcessTotals
from tests.factories import S


def at(s: float, cpu_s: float, *, begins: int = 1, began_s: float = 0, resident: int = 10) -> ProcessTotals:
    return ProcessTotals(
        at=round(s * S),
        process="vm 7",
        began_at=round(began_s * S),
        resident_bytes=resident,
        begins=begins,
        cpu_s=cpu_s,
        lag=Histogram((round(cpu_s),), cpu_s),
        webhooks={"received": round(cpu_s)},
    )


def test_of_none_there_is_nothing_and_of_one_what_that_says() -> None:
    assert totals_together([]) is None
    assert newest_of({}) is None
    assert samples_together([[], []], 10) == []
    one = [at(10, 1), at(20, 3)]
    assert samples_together([one, []], 10) == one
    assert totals_together(one[:1]) == one[0]


def test_what_grows_is_added_and_memory_is_of_those_alone_that_are_there() -> None:
    gone, one, other = at(100, 5, begins=3), at(200, 7), at(205, 2, resident=30)
    together = totals_together([other, gone, one])
    assert together is not None
    assert (together.at, together.cpu_s, together.begins) == (205 * S, 14.0, 5)
    assert (together.resident_bytes, together.process) == (40, "vm 7, vm 7")
    assert (together.lag, together.webhooks) == (Histogram((14,), 14.0), {"received": 14})
    assert newest_of({0: gone, 5: other, 2: one}) is other


def test_one_that_comes_later_adds_what_it_used_and_not_what_others_had_in_its_place_long_ago() -> None:
    first = [at(10, 1), at(20, 2), at(30, 3)]
    in_old_place = [at(20, 500, begins=9, began_s=15), at(30, 501, begins=9, began_s=15)]
    new = [at(30, 4, began_s=25)]
    found = samples_together([first, in_old_place, new], 10)
    assert [(each.at // S, each.cpu_s) for each in found] == [(10, 501.0), (20, 502.0), (30, 508.0)]
    assert [each.resident_bytes for each in found] == [10, 20, 30]


def test_samples_of_about_the_same_moment_are_one_point_and_who_has_ended_stays_counted() -> None:
    found = samples_together([[at(10.1, 1), at(60, 2)], [at(10.2, 4)]], 10)
    assert [(each.at, each.cpu_s, each.resident_bytes) for each in found] == [
        (round(10.2 * S), 5.0, 20),
        (60 * S, 6.0, 10),
    ]
