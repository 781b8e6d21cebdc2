"""How many jobs each member of a pool may take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.core.pools.member import Prefer
from orchestrator.core.pools.member_choice import AHEAD_US, FIRST, MemberFacts, PoolFacts, rooms, soonest, surpluses
from orchestrator.units import MINUTE_US, SECOND_US

S = float(SECOND_US)


def known(per_s: float, *, at_service: int = 0, execution_s: float = 1.0) -> MemberFacts:
    return MemberFacts(at_service=at_service, per_s=per_s, execution_us=execution_s * S, succeeded=100)


def test_a_single_job_goes_only_where_it_ends_first() -> None:
    members = {1: known(1, execution_s=4), 2: known(4, execution_s=1), 3: known(2, execution_s=2)}
    assert rooms(PoolFacts(waiting=1), members) == {1: 0, 2: 4, 3: 0}
    assert soonest(members, {}) == 2


def test_what_waits_is_shared_so_that_all_end_together() -> None:
    found = rooms(PoolFacts(waiting=70), {1: known(1), 2: known(2), 3: known(4)})
    assert found == {1: 10, 2: 20, 3: 40}


def test_who_has_much_before_it_gets_less() -> None:
    found = rooms(PoolFacts(waiting=10), {1: known(1), 2: known(1, at_service=8)})
    assert found == {1: 9, 2: 1}
    assert soonest({1: known(1, at_service=5), 2: known(1)}, {}) == 2
    assert soonest({1: known(1, at_service=5), 2: known(1)}, {2: 6}) == 1


def test_no_member_has_more_waiting_than_it_ends_in_a_while() -> None:
    [most] = rooms(PoolFacts(waiting=1_000_000), {1: known(3)}).values()
    assert most == 3 + 3 * AHEAD_US // SECOND_US
    assert rooms(PoolFacts(waiting=1_000_000), {1: known(3, at_service=most)}) == {1: 0}


def test_of_whom_nothing_is_known_gets_few_and_more_as_they_end() -> None:
    new = MemberFacts(at_service=0)
    assert rooms(PoolFacts(waiting=1_000), {1: new, 2: new}) == {1: FIRST, 2: FIRST}
    with_workers = MemberFacts(at_service=0, workers=30)
    assert rooms(PoolFacts(waiting=1_000), {1: with_workers})[1] == 60
    some = MemberFacts(at_service=3, succeeded=10, execution_us=S, workers=2)
    assert rooms(PoolFacts(waiting=1_000), {1: some})[1] == 21


def test_a_server_without_a_queue_of_which_nothing_is_known_gets_a_small_part_of_what_waits() -> None:
    server, endpoint = MemberFacts(at_service=0, has_queue=False), known(4)
    assert rooms(PoolFacts(waiting=20), {1: server, 2: endpoint})[1] <= FIRST, "it keeps whatever it is given"
    assert rooms(PoolFacts(waiting=8_000), {1: server, 2: endpoint})[1] == 1_000
    assert rooms(PoolFacts(waiting=8_000), {1: replace(server, at_service=900, succeeded=50), 2: endpoint})[1] == 200
    fast = replace(known(4), has_queue=False)
    assert rooms(PoolFacts(waiting=70), {1: fast, 2: endpoint}) == {1: 35, 2: 35}


def test_who_has_only_failed_gets_nothing_unless_all_have() -> None:
    failing = MemberFacts(at_service=0, failed_last=FIRST)
    assert rooms(PoolFacts(waiting=1_000), {1: failing, 2: MemberFacts(at_service=0)}) == {1: 0, 2: FIRST}
    assert rooms(PoolFacts(waiting=5), {1: failing, 2: known(1)}) == {1: 0, 2: 5}, "nothing is left for it"
    assert rooms(PoolFacts(waiting=1_000), {1: failing, 2: failing}) == {1: FIRST, 2: FIRST}
    before = MemberFacts(at_service=0, failed_last=FIRST - 1)
    assert rooms(PoolFacts(waiting=1_000), {1: before, 2: MemberFacts(at_service=0)})[1] == FIRST
    assert rooms(PoolFacts(waiting=100, prefer=Prefer.CHEAP), {1: failing, 2: known(50)})[2] == 100, "nor waited for"


def test_where_something_is_to_be_known_of_each_all_get_as_many() -> None:
    probe = PoolFacts(waiting=6, is_even=True, prefer=Prefer.CHEAP)
    many, new = MemberFacts(at_service=0, workers=10), MemberFacts(at_service=0)
    assert rooms(probe, {1: many, 2: new, 3: new}) == {1: 2, 2: 2, 3: 2}
    left = PoolFacts(waiting=4, is_even=True)
    assert rooms(left, {1: MemberFacts(at_service=1, succeeded=1), 2: new, 3: new}) == {1: 0, 2: 2, 3: 2}
    assert rooms(left, {1: MemberFacts(at_service=0, failed_last=FIRST), 2: new}) == {1: 0, 2: 4}
    assert rooms(left, {}) == {}


def test_who_is_tried_gets_one() -> None:
    tried = MemberFacts(at_service=0, per_s=4.0, execution_us=S, is_tried=True)
    assert rooms(PoolFacts(waiting=100), {1: tried}) == {1: 1}
    one_there = MemberFacts(at_service=1, own=1, per_s=4.0, execution_us=S, is_tried=True)
    assert rooms(PoolFacts(waiting=100), {1: one_there}) == {1: 0}


def test_who_is_tried_gets_one_whatever_others_have_there() -> None:
    of_others = MemberFacts(at_service=7, execution_us=S, is_tried=True)
    assert rooms(PoolFacts(waiting=100), {1: of_others}) == {1: 1}


CHEAP = PoolFacts(waiting=0, prefer=Prefer.CHEAP, patience_us=2 * MINUTE_US, elapsed_us=10 * MINUTE_US)


@pytest.mark.parametrize(
    ("waiting", "at_cheap", "found"),
    [(100, 0, {1: 100, 2: 0}), (121, 0, {1: 121, 2: 0}), (150, 0, {1: 121, 2: 29}), (5, 121, {1: 0, 2: 5})],
)
def test_the_dearer_get_what_would_wait_too_long_at_the_cheapest(
    waiting: int, at_cheap: int, found: dict[int, int]
) -> None:
    pool = PoolFacts(waiting=waiting, prefer=Prefer.CHEAP, patience_us=CHEAP.patience_us, elapsed_us=CHEAP.elapsed_us)
    assert rooms(pool, {1: known(1, at_service=at_cheap), 2: known(50)}) == found


def test_a_dearer_one_takes_no_more_at_once_than_it_ends_in_a_while_and_the_rest_is_kept_for_it() -> None:
    pool = PoolFacts(waiting=1_000, prefer=Prefer.CHEAP, patience_us=CHEAP.patience_us, elapsed_us=CHEAP.elapsed_us)
    assert rooms(pool, {1: known(1), 2: known(2), 3: known(4)}) == {1: 121, 2: 42, 3: 84}
    late = PoolFacts(waiting=300, prefer=Prefer.CHEAP, patience_us=CHEAP.patience_us, elapsed_us=CHEAP.elapsed_us)
    assert rooms(late, {1: known(1), 2: known(2), 3: known(4)}) == {1: 121, 2: 42, 3: 0}, "the second ends them in time"


def test_the_dearer_wait_until_it_is_known_how_long_jobs_wait_at_the_cheapest() -> None:
    unknown = MemberFacts(at_service=0)
    pool = PoolFacts(waiting=100, prefer=Prefer.CHEAP, patience_us=2 * MINUTE_US, elapsed_us=MINUTE_US)
    assert rooms(pool, {1: unknown, 2: known(50)})[2] == 0
    late = PoolFacts(waiting=100, prefer=Prefer.CHEAP, patience_us=2 * MINUTE_US, elapsed_us=2 * MINUTE_US)
    assert rooms(late, {1: unknown, 2: known(50)})[2] > 0


def test_a_pool_without_members_that_are_well_has_no_room() -> None:
    assert rooms(PoolFacts(waiting=10), {}) == {}


FACTS = st.builds(
    MemberFacts,
    at_service=st.integers(0, 500),
    execution_us=st.none() | st.floats(1.0, 1e10),
    per_s=st.none() | st.floats(0.001, 1_000),
    succeeded=st.integers(0, 1_000),
    failed_last=st.integers(0, 50),
    workers=st.integers(0, 100),
    is_tried=st.booleans(),
)


@given(
    st.dictionaries(st.integers(1, 5), FACTS, min_size=1),
    st.integers(0, 10_000),
    st.sampled_from(Prefer),
    st.integers(0, 10**9),
)
def test_rooms_are_never_below_zero_and_the_cheap_never_add_up_to_more_than_waits(
    members: dict[int, MemberFacts], waiting: int, prefer: Prefer, patience_us: int
) -> None:
    found = rooms(PoolFacts(waiting=waiting, prefer=prefer, patience_us=patience_us), members)
    assert found.keys() == members.keys()
    assert all(room >= 0 for room in found.values())
    if prefer is Prefer.CHEAP:
        assert sum(found.values()) <= waiting


def test_what_waits_far_too_long_at_one_member_is_for_those_with_room() -> None:
    full = {1: known(1, at_service=100), 2: known(10, at_service=10)}
    assert surpluses(PoolFacts(waiting=0), full) == {1: 68}
    assert surpluses(PoolFacts(waiting=0), {1: known(1, at_service=31), 2: known(10)}) == {}
    assert surpluses(PoolFacts(waiting=150), full) == {1: 51}, "what waits here goes there first"
    assert surpluses(PoolFacts(waiting=500), full) == {}
    patient = PoolFacts(waiting=0, prefer=Prefer.CHEAP, patience_us=120 * SECOND_US)
    assert surpluses(patient, full) == {}, "that it waits there is what was wished for"
    assert surpluses(PoolFacts(waiting=0), {1: known(1, at_service=1_000)}) == {}
    assert surpluses(PoolFacts(waiting=0), {1: MemberFacts(at_service=1_000), 2: known(10)}) == {}
