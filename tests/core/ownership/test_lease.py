"""An owner has ceased to trust itself before anybody who watches may take its place, and never begins again."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.ownership.beat_watch import SILENCE_US, Beat, BeatWatch
from orchestrator.core.ownership.lease import TRUST_US, Lease
from orchestrator.units import MILLISECOND_US, SECOND_US

TAKEN_AT = 1_000 * SECOND_US


def test_it_is_good_from_the_beginning_of_its_taking() -> None:
    lease = Lease(TAKEN_AT)

    assert lease.is_good(TAKEN_AT + TRUST_US - 1)
    assert not lease.is_good(TAKEN_AT + TRUST_US)


def test_a_beat_counts_from_its_beginning_not_from_its_answer() -> None:
    lease = Lease(TAKEN_AT)

    lease.beaten(TAKEN_AT + 1 * SECOND_US)

    assert lease.is_good(TAKEN_AT + 1 * SECOND_US + TRUST_US - 1)
    assert not lease.is_good(TAKEN_AT + 1 * SECOND_US + TRUST_US)


def test_a_beat_that_began_before_another_one_takes_nothing_of_it() -> None:
    lease = Lease(TAKEN_AT)

    lease.beaten(TAKEN_AT + 2 * SECOND_US)
    lease.beaten(TAKEN_AT + 1 * SECOND_US)

    assert lease.is_good(TAKEN_AT + 2 * SECOND_US + TRUST_US - 1)


def test_a_beat_whose_answer_came_late_does_not_revive_it() -> None:
    lease = Lease(TAKEN_AT)

    lease.beaten(TAKEN_AT + 1 * SECOND_US)  # as is known only once the process goes on that was stopped meanwhile

    assert not lease.is_good(TAKEN_AT + 30 * SECOND_US)


def test_one_that_has_ended_is_not_revived_by_any_beat() -> None:
    lease = Lease(TAKEN_AT)

    lease.end()
    lease.beaten(TAKEN_AT + 1 * SECOND_US)

    assert not lease.is_good(TAKEN_AT + 1 * SECOND_US)


@given(
    beats=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 9_000), st.integers(0, 9_000)), max_size=12),
    first_look=st.integers(0, 20_000),
    every=st.integers(100, 3_000),
    trip=st.integers(0, 4_000),
)
def test_whoever_takes_over_does_so_after_its_predecessor_has_ceased(
    beats: list[tuple[int, int, int]], first_look: int, every: int, trip: int
) -> None:
    """`beats`: how long after the answer to the last one each begins, when the ledger has it, when its answer comes."""
    begun_written_answered, now = [(0, 0, 0)], 0
    for pause, there, back in beats:
        begun_at = now + pause * MILLISECOND_US
        written_at = begun_at + there * MILLISECOND_US
        now = written_at + back * MILLISECOND_US
        begun_written_answered.append((begun_at, written_at, now))

    def count(at: int) -> int:
        return sum(written_at <= at for _, written_at, _ in begun_written_answered)

    watch, asked_at = BeatWatch(), first_look * MILLISECOND_US
    while True:
        received_at = asked_at + trip * MILLISECOND_US
        watch.saw([Beat(1, count(asked_at))], received_at)
        silent = watch.silent(received_at)
        if silent and silent[0].number == count(received_at):
            break  # it bids, and the ledger finds the beat as it was seen; a later one of the owner's is refused
        asked_at = received_at + every * MILLISECOND_US

    lease = Lease(0)
    for begun_at, _, answered_at in begun_written_answered:
        if answered_at <= received_at:
            lease.beaten(begun_at)
    assert not lease.is_good(received_at)


def test_who_watches_waits_from_the_first_reading_that_it_received() -> None:
    watch = BeatWatch()
    assert watch.silent(TAKEN_AT) == []

    watch.saw([Beat(1, 7)], TAKEN_AT)
    watch.saw([Beat(1, 7)], TAKEN_AT + 4 * SECOND_US)

    assert watch.silent(TAKEN_AT + SILENCE_US - 1) == []
    assert watch.silent(TAKEN_AT + SILENCE_US) == [Beat(1, 7)]


def test_a_beat_and_a_new_process_each_begin_the_silence_anew() -> None:
    for other in (Beat(1, 8), Beat(2, 7)):
        watch = BeatWatch()
        watch.saw([Beat(1, 7)], TAKEN_AT)
        watch.saw([other], TAKEN_AT + 5 * SECOND_US)

        assert watch.silent(TAKEN_AT + 5 * SECOND_US + SILENCE_US - 1) == []
        assert watch.silent(TAKEN_AT + 5 * SECOND_US + SILENCE_US) == [other]


def test_of_several_each_is_watched_by_itself_and_one_that_is_gone_no_more() -> None:
    watch = BeatWatch()
    watch.saw([Beat(1, 7), Beat(2, 7)], TAKEN_AT)
    watch.saw([Beat(1, 8), Beat(2, 7), Beat(3, 0)], TAKEN_AT + 1)

    assert watch.silent(TAKEN_AT + SILENCE_US) == [Beat(2, 7)]
    watch.saw([Beat(1, 8), Beat(3, 0)], TAKEN_AT + SILENCE_US)
    assert watch.silent(TAKEN_AT + SILENCE_US) == []
    assert watch.silent(TAKEN_AT + SILENCE_US + 1) == [Beat(1, 8), Beat(3, 0)]
