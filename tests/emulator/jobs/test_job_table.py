from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.jobs.job_table import STALE_MIN, Timers

keys = st.sampled_from("abcdef")
steps = st.lists(
    st.tuples(st.just("set"), keys, st.integers(0, 50))
    | st.tuples(st.just("drop"), keys, st.just(0))
    | st.tuples(st.just("pop"), st.just(""), st.integers(0, 50))
)


@given(steps)
def test_timers_behave_like_a_dictionary_of_times(steps: list[tuple[str, str, int]]) -> None:
    timers, model = Timers(), dict[str, int]()
    for verb, key, at in steps:
        if verb == "set":
            timers.set(key, at)
            model[key] = at
        elif verb == "drop":
            timers.drop(key)
            model.pop(key, None)
        else:
            due = sorted((when, name) for name, when in model.items() if when <= at)
            popped = timers.pop_due(at)
            assert popped == (due[0][1] if due else None)
            if popped is not None:
                del model[popped]
        assert timers.next_at() == min(model.values(), default=None)
        assert len(timers) == len(model)


def test_alarms_that_are_moved_or_dropped_leave_no_pile_behind() -> None:
    timers = Timers()
    for n in range(20 * STALE_MIN):
        timers.set(f"job {n}", 10**9)
        timers.set(f"job {n}", n)
        timers.drop(f"job {n}")
    assert len(timers._heap) <= 2 * STALE_MIN


def test_an_alarm_that_is_moved_later_rings_only_then() -> None:
    timers = Timers()
    timers.set("a", 5)
    timers.set("a", 9)
    assert timers.pop_due(8) is None
    assert timers.pop_due(9) == "a"
    assert timers.pop_due(9) is None
