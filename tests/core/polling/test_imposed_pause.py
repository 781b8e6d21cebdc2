"""How far a pause is obeyed that the service imposes on questions."""

import itertools
import math

from orchestrator.core.polling.imposed_pause import GAP_US_MAX, GAP_US_MIN, ImposedPause
from orchestrator.core.polling.poll_deadlines import Respite
from tests.factories import S

HOUR = 3_600 * S
RESPITE = Respite(urgent_at=1_500 * S, until=1_650 * S, lost_at=1_800 * S)
"""A job that was sent at 0 and is kept for half an hour."""


def singles(pause: ImposedPause, *, until: int, respite: Respite, to: int) -> list[int]:
    """When questions go that are refused, until `to`."""
    now = 0
    found: list[int] = []
    while True:
        wait_us = pause.wait_us(now, until=until, respite=respite)
        assert wait_us is not None
        now += wait_us
        if now >= to:
            return found
        pause.asked(now, respite)
        pause.refused()
        found.append(now)


def test_a_pause_that_costs_no_result_is_obeyed_to_its_end() -> None:
    assert ImposedPause().wait_us(10 * S, until=1_640 * S, respite=RESPITE) == 1_630 * S


def test_a_pause_that_would_cost_one_is_obeyed_until_its_deadline() -> None:
    assert ImposedPause().wait_us(10 * S, until=HOUR, respite=RESPITE) == 1_490 * S


def test_single_questions_that_are_refused_come_closer_towards_the_last_moment() -> None:
    found = singles(ImposedPause(), until=HOUR, respite=RESPITE, to=1_800 * S)

    assert found[0] == 1_500 * S
    assert 20 < len(found) < 60
    assert 1_800 * S - found[-1] <= S
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert gaps[-1] < max(gaps)


def test_where_no_loss_is_to_come_single_questions_go_once_a_minute_in_the_end() -> None:
    past = Respite(urgent_at=-S, until=-S, lost_at=None)
    found = singles(ImposedPause(), until=HOUR, respite=past, to=HOUR)

    assert found[:3] == [0, GAP_US_MIN, 3 * GAP_US_MIN]
    assert found[-1] - found[-2] == GAP_US_MAX


def test_after_one_that_was_answered_the_others_follow_at_once_until_one_is_refused() -> None:
    pause = ImposedPause()
    assert pause.asked(1_500 * S, RESPITE)
    assert not pause.asked(1_501 * S, RESPITE), "the first one is told"
    assert pause.wait_us(1_501 * S, until=HOUR, respite=RESPITE)
    pause.answered()
    for _ in range(3):
        assert pause.wait_us(1_501 * S, until=HOUR, respite=RESPITE) == 0
        pause.asked(1_501 * S, RESPITE)
    pause.refused()
    pause.asked(1_501 * S, RESPITE)
    assert pause.wait_us(1_501 * S, until=HOUR, respite=RESPITE)


def test_a_new_pause_is_a_new_one() -> None:
    pause = ImposedPause()
    pause.asked(1_500 * S, RESPITE)
    pause.over()
    assert not pause.is_passed
    assert pause.asked(1_501 * S, RESPITE)


def test_where_nothing_is_outstanding_a_pause_without_an_end_has_none() -> None:
    nothing = Respite(urgent_at=math.inf, until=math.inf, lost_at=None)
    assert ImposedPause().wait_us(0, until=math.inf, respite=nothing) is None
