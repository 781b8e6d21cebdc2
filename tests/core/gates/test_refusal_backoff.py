"""Going on while the service refuses everything."""

from orchestrator.core.gates.refusal_backoff import LASTING_US, Refusals

SECOND = 1_000_000


def test_only_a_minute_of_nothing_else_is_lasting() -> None:
    refusals = Refusals()
    lasting = []
    for sent_at in (0, LASTING_US - 1, LASTING_US):
        assert refusals.refused(sent_at=sent_at, now=sent_at + SECOND) == (not sent_at), "news the first time"
        lasting.append(refusals.are_lasting)
    assert lasting == [False, False, True]
    assert refusals.over(sent_at=LASTING_US + SECOND)
    assert (refusals.are_on, refusals.are_lasting) == (False, False)


def test_the_answer_to_what_left_before_the_first_refused_request_ends_nothing() -> None:
    refusals = Refusals()
    assert not refusals.over(sent_at=5)
    refusals.refused(sent_at=10, now=20)

    assert not refusals.over(sent_at=9)
    assert refusals.are_on
    assert refusals.over(sent_at=10)


def test_one_at_a_time_is_tried_at_pauses_that_grow_to_some_seconds() -> None:
    refusals, now = Refusals(), 0
    pauses = []
    for _ in range(8):
        refusals.refused(sent_at=now, now=now)
        assert refusals.until == now + refusals.wait_us(now) > now
        pauses.append(refusals.wait_us(now) / SECOND)
        now += refusals.wait_us(now)
    assert 0.75 <= pauses[0] <= 1
    assert all(0.75 * 5 <= pause <= 5 for pause in pauses[3:])


def test_a_hundred_refusals_at_once_are_one_pause() -> None:
    refusals = Refusals()
    for n in range(100):
        refusals.refused(sent_at=n, now=100_000 + n)

    assert refusals.wait_us(100_100) <= SECOND


def test_what_something_else_tells_to_be_over_is_tried_by_a_single_request_for_another_minute() -> None:
    refusals, lasting = Refusals(), []
    refusals.try_again(0)
    assert refusals.wait_us(0) == 0, "they never were on"
    for mended_at in (0, 10 * LASTING_US):
        for after_us in (0, LASTING_US - 1, LASTING_US):
            refusals.refused(sent_at=mended_at + after_us, now=mended_at + after_us)
            lasting.append(refusals.are_lasting)
        refusals.try_again(mended_at + 10 * LASTING_US)
        assert (refusals.are_on, refusals.wait_us(mended_at + 10 * LASTING_US)) == (True, 0)
        lasting.append(refusals.are_lasting)
    assert lasting == [False, False, True, False] * 2
    assert refusals.over(sent_at=20 * LASTING_US)


def test_a_request_that_leaves_while_nothing_is_refused_lets_the_next_one_go() -> None:
    refusals = Refusals()
    refusals.asked(SECOND)
    assert (refusals.until, refusals.wait_us(SECOND)) == (None, 0)
