"""How many large bodies share a line, by what more of them bring."""

import pytest

from orchestrator.core.limits.transfer_slots import (
    AT_ONCE,
    AT_ONCE_MAX,
    AT_ONCE_MIN,
    BYTES_MAX,
    EPOCH_US,
    GROWTH,
    KNOWN_US,
    STEADY_EPOCHS,
    SharedLine,
)

SECOND = 1_000_000
MIB = 1024 * 1024
SIZE = MIB // 4


class Carried:
    """A line of which every body gets `each` bytes a second, all together at most `whole`, and that is always full."""

    def __init__(self, *, each: float, whole: float) -> None:
        self.line = SharedLine()
        self._each, self._whole = each, whole
        self.now = 0

    def seconds(self, n: int) -> list[int]:
        """How many bodies there might be at once in each of the next `n` seconds."""
        numbers = []
        for _ in range(n):
            for _ in range(10):
                while self.line.has_room(SIZE):
                    self.line.join(SIZE)
                self.now += SECOND // 10
                moved = min(self._whole, self.line.bodies * self._each) / 10
                self.line.moved(int(moved), self.now, has_waiting=True)
                while self.line.bodies > self.line.at_once:
                    self.line.leave(SIZE)
                    self.line.completed(SIZE)
            numbers.append(self.line.at_once)
        return numbers


def test_where_more_bodies_bring_more_there_are_more() -> None:
    numbers = Carried(each=MIB, whole=1_000 * MIB).seconds(60)
    assert numbers[0] == AT_ONCE
    assert max(numbers) == AT_ONCE_MAX
    assert numbers[-1] > AT_ONCE_MAX / GROWTH


def test_where_they_only_share_what_there_is_there_are_as_many_as_before() -> None:
    numbers = Carried(each=2 * MIB, whole=8 * MIB).seconds(100)
    assert max(numbers) == AT_ONCE * GROWTH, "it is tried now and then"
    assert numbers.count(AT_ONCE) > 75


def test_it_grows_to_what_the_line_can_carry() -> None:
    assert set(Carried(each=MIB, whole=20 * MIB).seconds(100)[60:]) <= {18, 27}


def test_what_stands_still_makes_them_fewer_but_never_too_few() -> None:
    line = SharedLine()
    numbers = []
    for _ in range(5):
        line.stalled()
        numbers.append(line.at_once)
    assert numbers == [5, AT_ONCE_MIN, AT_ONCE_MIN, AT_ONCE_MIN, AT_ONCE_MIN]


def test_all_together_hold_no_more_than_memory_allows_but_one_may_always_go() -> None:
    line = SharedLine()
    assert line.has_room(2 * BYTES_MAX)
    line.join(BYTES_MAX - MIB)
    assert line.has_room(MIB)
    assert not line.has_room(MIB + 1)
    line.leave(BYTES_MAX - MIB)
    line.join(2 * BYTES_MAX)
    assert not line.has_room(1)


def test_only_a_line_that_is_full_tells_what_it_can_carry() -> None:
    line = SharedLine()
    line.join(SIZE)
    for tenth in range(100):
        line.moved(MIB, tenth * EPOCH_US // 10, has_waiting=False)
    assert line.bytes_per_s == 0
    assert line.bodies_per_s(10 * SECOND) is None


def test_how_many_bodies_a_second_come_is_known_while_it_is_full() -> None:
    carried = Carried(each=MIB, whole=8 * MIB)
    carried.seconds(STEADY_EPOCHS - 1)
    assert carried.line.bodies_per_s(carried.now) is None, "none has come as a whole: their size is not known"
    for size in (SIZE, SIZE, 2 * SIZE):
        carried.line.completed(size)
    assert carried.line.bodies_per_s(carried.now) == pytest.approx(8 * MIB / (1.1 * SIZE))
    assert carried.line.bodies_per_s(carried.now + KNOWN_US + 1) is None


def test_a_moment_in_which_a_place_is_free_does_not_begin_it_all_anew() -> None:
    line = SharedLine(at_once=2)
    line.join(SIZE)
    line.join(SIZE)
    for tenth in range(1, 40):
        if tenth % 5 == 0:
            line.leave(SIZE)
        line.moved(MIB, tenth * EPOCH_US // 10, has_waiting=False)
        if tenth % 5 == 0:
            line.join(SIZE)
    assert line.bytes_per_s > 0
