"""What an owner leaves to its successor, as text and back."""

from orchestrator.core.limits.rate_pacer import Limit, Operation, Pacer
from orchestrator.core.ownership.handover import EndpointLeft, EndpointsLeft
from tests.limits.simulated import START


def left_by(pacer: Pacer) -> EndpointLeft:
    return EndpointLeft(START, {Operation.RUN: pacer.left(START + 2_000)}, finished=7, finished_in=9)


def test_it_comes_back_as_it_was_left_of_all_endpoints_and_once() -> None:
    pacer, fresh = Pacer(Limit(100, 10)), Pacer(Limit(10, 10))
    pacer.take(START)
    pacer.answered(START + 1_000, START, 200)
    one, other, successor = EndpointsLeft(), EndpointsLeft(), EndpointsLeft()
    one.leave(3, left_by(pacer))
    other.leave(4, left_by(fresh))
    successor.find([3], one.text)
    successor.find([4, 5], other.text)
    assert [successor.of(number) for number in (3, 4, 5)] == [left_by(pacer), left_by(fresh), None]
    assert successor.of(3) is None


def test_what_was_left_by_another_version_counts_as_nothing() -> None:
    one, successor = EndpointsLeft(), EndpointsLeft()
    one.leave(3, left_by(Pacer(Limit(100, 10))))
    for endpoint, text in ((4, '{"4":{"limits":7}}'), (3, one.text), (5, '{"5":')):
        successor.find([endpoint], text)
    assert [successor.of(number) is None for number in (3, 4, 5)] == [False, True, True]


def test_who_goes_on_in_the_same_process_goes_on_as_it_was_left_last() -> None:
    before, own = EndpointsLeft(), EndpointsLeft()
    before.leave(3, left_by(Pacer(Limit(100, 10))))
    own.find([3], before.text)
    own.leave(3, left_by(Pacer(Limit(10, 10))))
    assert own.of(3) == left_by(Pacer(Limit(10, 10)))
    assert own.text == "{}"


def test_what_was_given_to_another_process_is_that_ones_to_tell() -> None:
    own = EndpointsLeft()
    for endpoint in (3, 4):
        own.leave(endpoint, left_by(Pacer(Limit(100, 10))))
    given, own_text = EndpointsLeft(), own.text
    given.leave(3, left_by(Pacer(Limit(100, 10))))
    own.forget(given.text)
    assert own.text != own_text
    assert [own.of(endpoint) is None for endpoint in (3, 4)] == [True, False]


def test_whoever_did_not_hear_that_it_gave_one_goes_on_by_what_comes_with_it() -> None:
    own, between, of_another_version = EndpointsLeft(), EndpointsLeft(), '{"4":{"limits":7}}'
    for endpoint in (3, 4):
        own.leave(endpoint, left_by(Pacer(Limit(100, 10))))
    between.leave(3, left_by(Pacer(Limit(10, 10))))
    own.find([3], between.text)
    own.find([4], of_another_version)
    assert [own.of(endpoint) for endpoint in (3, 4)] == [left_by(Pacer(Limit(10, 10))), None]


def test_what_was_known_of_an_endpoint_is_no_news_once_its_owner_between_has_left_nothing() -> None:
    own, before = EndpointsLeft(), EndpointsLeft()
    before.leave(3, left_by(Pacer(Limit(100, 10))))
    own.find([3], before.text)
    for endpoint in (4, 5):
        own.leave(endpoint, left_by(Pacer(Limit(100, 10))))
    own.find([3, 4], None)
    assert [own.of(endpoint) is None for endpoint in (3, 4, 5)] == [True, True, False]


def test_what_may_be_old_is_forgotten_whoever_has_left_it() -> None:
    own, before = EndpointsLeft(), EndpointsLeft()
    before.leave(3, left_by(Pacer(Limit(100, 10))))
    own.find([3], before.text)
    own.leave(4, left_by(Pacer(Limit(100, 10))))
    own.forget_all()
    assert [own.of(endpoint) for endpoint in (3, 4)] == [None, None]
