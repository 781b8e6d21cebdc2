"""What 429s do to the rate: quarters of an hour in worlds that refuse, and single rules.

The first is the short form of `python -m tests.limits.refusals`, at a small limit, with one way of counting each.
"""

import pytest

from orchestrator.core.limits.rate_controller import RateController, RatePhase
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.limits.refusal_alarm import RefusalAlarm
from tests.limits.refusals import meets, wanted_of
from tests.limits.worlds import KINDS, WAYS, Kind, Wanted, World, play

LIMIT = Limit(100, 10)
MEASURED = "neighbour 20%, stray 3.0%"
"""It reaches what no other case does, so its coverage is measured."""

CASES = [
    pytest.param(kind, way, marks=[] if kind.name == MEASURED else pytest.mark.no_cover, id=f"{kind.name}, {way}")
    for number, kind in enumerate(KINDS)
    for way in [WAYS[number % len(WAYS)]]
]


@pytest.mark.parametrize(("kind", "way"), CASES)
def test_in_worlds_that_refuse_the_limits_are_used_and_little_is_refused(kind: Kind, way: str) -> None:
    world = next(each for each in kind.worlds(LIMIT, seconds=900, seed=2) if each.way == way)
    wanted, outcome = wanted_of(kind, LIMIT), play(world)
    if outcome.refused == 0 == wanted.refused:
        assert outcome.used >= wanted.used
    else:  # how it begins weighs four times what it does in an hour
        assert meets(outcome, Wanted(wanted.used - 0.06, wanted.refused + 0.02)), outcome


def test_at_a_quarter_of_the_limit_few_are_refused_from_the_second_minute_on() -> None:
    """A rule that merely asked whether a cut lowered the share took 20 % of 429s."""
    for way in WAYS:
        outcome = play(World(limit=LIMIT, way=way, true=((0.0, 0.25),), seconds=900))
        assert outcome.refused <= 0.045, way
        assert outcome.used >= 0.88, way


@pytest.mark.parametrize("way", ["sliding log", "fixed window"])
def test_a_limit_that_is_raised_among_strays_is_found(way: str) -> None:
    """To verify again and again that strays are strays once put off what was to be tried beside, for ever."""
    world = World(limit=LIMIT, way=way, stray=0.05, true=((0.0, 0.5), (900.0, 1.0)), seconds=1800)
    assert play(world).used >= 0.8


# --- single rules

WINDOW = 10_000_000


class Played:
    """A controller at 100 requests in 10 s, and answers that come as fast as it lets them."""

    def __init__(self) -> None:
        self.controller = RateController()
        self.controller.set_limit(100, WINDOW)
        self.now = 0
        self.taken = self.answered = 0
        self.controller.begin(0)

    def hear(self, *refused: bool) -> None:
        for each in refused:
            self.now += round(WINDOW / 100 / self.controller.share)
            self.answered += 1
            self.taken += not each
            if self.controller.is_calm and not each:
                continue
            self.controller.answered(
                self.now, self.now, refused=each, taken=min(self.taken, 100), answered=max(1, min(self.answered, 100))
            )


TAKEN, REFUSED = (False,), (True,)


def test_a_first_429_changes_nothing_and_many_are_doubted() -> None:
    played = Played()
    played.hear(*TAKEN * 100)
    assert played.controller.is_calm
    played.hear(True)
    assert (played.controller.share, played.controller.is_calm) == (1, False)
    played.hear(*(TAKEN + REFUSED) * 8)
    assert played.controller.phase is RatePhase.TRIAL
    assert played.controller.share < 0.8


def test_what_left_before_a_cut_says_nothing_of_it() -> None:
    played = Played()
    played.hear(*TAKEN * 100, *(TAKEN + REFUSED) * 8)
    share = played.controller.share
    for _ in range(50):
        played.controller.answered(played.now, 0, refused=True, taken=10, answered=60)
    assert played.controller.share == share


def test_refusals_that_end_with_the_cut_came_of_the_rate() -> None:
    played = Played()
    played.hear(*TAKEN * 100, *(TAKEN + REFUSED) * 8, *TAKEN * 60)
    assert played.controller.is_bounded
    assert played.controller.stray == 0


def test_refusals_that_go_on_for_a_window_and_longer_are_stray_and_the_rate_is_as_before() -> None:
    played = Played()
    one_in_five = (TAKEN * 4 + REFUSED) * 20
    played.hear(*TAKEN * 20, *one_in_five * 8)
    assert played.controller.stray == pytest.approx(0.2, abs=0.04)
    assert (played.controller.share, played.controller.phase) == (1, RatePhase.FREE)


def test_a_share_that_was_stray_is_forgotten_when_it_is_over() -> None:
    played = Played()
    played.hear(*TAKEN * 20, *(TAKEN * 4 + REFUSED) * 160)
    played.hear(*TAKEN * 20_000)
    assert played.controller.stray == 0
    assert played.controller.is_calm


def test_an_alarm_knows_nothing_before_there_is_something_to_know() -> None:
    alarm = RefusalAlarm(0.015, 0.07, 5.0)
    assert not any(alarm.rings(refused=False) for _ in range(100))
    assert alarm.requests == 0
    assert not any(alarm.rings(refused=True) for _ in range(5)), "all at once: the service may be shut"
    assert any(alarm.rings(refused=refused) for refused in (False, True) * 4)
    assert 0 < alarm.share_least < alarm.share < 1
