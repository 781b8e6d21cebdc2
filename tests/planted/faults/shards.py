"""What a process that shares a ledger with others must not do with what changes hands."""

from tests.planted.faults.fault import Fault

BIDS = "tests/core/ownership/test_shard_bids.py"
DUTIES = "tests/core/ownership/test_shard_duties.py"
LEASES = "tests/ledger/processes/test_leases.py"
SHARED = "tests/api/hosting/test_shared_ledger.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a shard is given while its engine goes on",
        path="orchestrator/core/ownership/shard_duties.py::shard_duties",
        old="give=sorted(leaving - set(at_work))",
        new="give=sorted(leaving)",
        tests=(f"{DUTIES}::test_what_another_one_asks_for_is_given_once_its_engine_has_ended",),
    ),
    Fault(
        name="what another process wants is taken as well",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_take",
        old="each.number for each in free if each.wanted_by is None and",
        new="each.number for each in free if",
        tests=(f"{BIDS}::test_one_that_is_wanted_is_left_to_who_wants_it",),
    ),
    Fault(
        name="shards become one while their engines work",
        path="orchestrator/core/ownership/shard_duties.py::shard_duties",
        old="if not set(pair) & set(at_work)]",
        new="if pair]",
        tests=(f"{DUTIES}::test_what_has_come_to_be_one_is_merged_once_neither_engine_works_and_begins_as_one",),
    ),
    Fault(
        name="an engine begins beside one that is still at the same endpoints",
        path="orchestrator/core/ownership/shard_duties.py::shards_to_begin",
        old="if not set(mine).issuperset(at_work):",
        new="if False:",
        tests=(f"{DUTIES}::test_an_engine_ends_whose_shard_is_ours_no_more_and_none_begins_before_it_has",),
    ),
    Fault(
        name="a run that comes to have another endpoint sends there before that is ours",
        path="orchestrator/engine/runtime/scope.py::Scope.take_in",
        old="await self._join(endpoint)",
        new="pass",
        tests=(
            f"{SHARED}::test_a_run_that_comes_to_have_an_endpoint_of_another_one_is_served_by_one_of_them",
            "tests/engine/runtime/test_scope.py::test_an_endpoint_is_in_it_once_it_was_joined_and_not_where_it_cannot_be",
        ),
    ),
    Fault(
        name="of shards that become one it is forgotten that an owner of the other has died",
        path="orchestrator/ledger/processes/leases.py::Leases.merge",
        old="await self._driver.execute(_LEFT_BY_EITHER, *pair)",
        new="pass",
        tests=(f"{LEASES}::test_of_shards_that_become_one_it_stays_known_that_an_owner_of_either_has_died",),
    ),
)
