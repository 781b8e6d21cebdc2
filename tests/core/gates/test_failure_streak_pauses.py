"""What stops one run and no other, and when that is looked at again."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gates.failure_streak import RunHealth
from orchestrator.core.gates.gates import RunFacts
from orchestrator.core.gates.probe_backoff import PAUSE_US_MAX, PAUSE_US_MIN, Probing

SECOND = 1_000_000


def facts(health: RunHealth) -> RunFacts:
    return health.facts(cancelled=False, paused=False)


def test_the_first_reason_to_stop_counts() -> None:
    health = RunHealth()
    assert (health.why_stopped, facts(health)) == (None, RunFacts())
    assert health.stop("enough failed")
    assert not health.stop("another failed")
    assert health.why_stopped == facts(health).stopped == "enough failed"


def test_a_missing_variable_is_looked_for_at_pauses_that_grow_and_found() -> None:
    health, now, environ = RunHealth(), 0, {"ID": "me"}
    assert health.lack("KEY is missing", ["ID", "KEY"], now)
    assert not health.lack("it still is", ["ID", "KEY"], now)
    pauses = []
    for _ in range(7):
        due_at = facts(health).lacks_until
        assert due_at is not None
        pauses.append((due_at - now) // SECOND)
        assert not health.look_again(due_at - 1, lambda _: True), "not before its time"
        now = due_at
        assert not health.look_again(now, environ.__contains__)
        assert health.why_stopped == "KEY is missing"
    assert pauses == [30, 60, 120, 240, 480, 600, 600]
    environ["KEY"] = "secret"
    assert health.look_again(now + PAUSE_US_MAX, environ.__contains__)
    assert not health.look_again(now + PAUSE_US_MAX, environ.__contains__)
    assert (health.why_stopped, facts(health)) == (None, RunFacts())
    assert health.lack("KEY is missing", ["KEY"], now)
    assert facts(health).lacks_until == now + PAUSE_US_MIN


def test_why_it_stood_still_is_known_until_something_has_worked() -> None:
    assert Probing().why is None
    probing = Probing()
    probing.stop(7, "the key was refused")
    probing.wait(8)
    probing.go_on()
    since, why = probing.why or (None, None)
    assert (since, why) == (7, "the key was refused")
    probing.works()
    assert probing.why is None


@given(steps=st.lists(st.sampled_from(["wait", "go_on", "works"]), max_size=30))
def test_pauses_shrink_only_once_something_has_worked(steps: list[str]) -> None:
    probing, latest_us = Probing(), 0
    for now, step in enumerate(steps):
        match step:
            case "wait":
                probing.wait(now)
                assert probing.due_at is not None
                pause_us = probing.due_at - now
                assert pause_us == min(max(2 * latest_us, PAUSE_US_MIN), PAUSE_US_MAX)
                latest_us = pause_us
            case "go_on":
                probing.go_on()
                assert probing.due_at is None
            case _:
                probing.works()
                assert probing.due_at is None
                latest_us = 0
