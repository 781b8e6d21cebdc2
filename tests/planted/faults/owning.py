"""Which of several processes owns a ledger on a server, and what one that does not any more must not do."""

from tests.planted.faults.fault import Fault

LEASE = "tests/core/ownership/test_lease.py"
LEASES = "tests/ledger/processes/test_leases.py"
TENURE = "tests/ledger/processes/test_tenure.py"
LEAVING = "tests/client/http/test_leave_to_send.py"
OWNED = "tests/engine/hosting/test_owned.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a process writes without proving that the ledger is its own",
        path="orchestrator/ledger/sites/server_site.py::ServerSite.own",
        old="self.database.fence = self.ownership.fence",
        new="pass",
        tests=("tests/ledger/processes/test_server_site.py::test_who_lost_it_writes_nothing_more_and_knows_why",),
    ),
    Fault(
        name="a lease that has ended is revived by a beat",
        path="orchestrator/core/ownership/lease.py::Lease.beaten",
        old="self._until = max(self._until, begun_at + TRUST_US)",
        new="self._until, self._has_ended = max(self._until, begun_at + TRUST_US), False",
        tests=(f"{LEASE}::test_one_that_has_ended_is_not_revived_by_any_beat",),
    ),
    Fault(
        name="an owner trusts itself from the answer to its beat on",
        path="orchestrator/ledger/processes/tenure.py::Tenure.beat",
        old="self._lease.beaten(begun_at)",
        new="self._lease.beaten(self._now())",
        tests=(f"{TENURE}::test_a_beat_whose_answer_came_late_counts_from_its_beginning",),
    ),
    Fault(
        name="whoever stands by waits no longer than an owner trusts itself",
        path="orchestrator/core/ownership/beat_watch.py::BeatWatch.silent",
        old="at - self._since >= SILENCE_US",
        new="at - self._since >= SILENCE_US // 2",
        tests=(f"{LEASE}::test_whoever_takes_over_does_so_after_its_predecessor_has_ceased",),
    ),
    Fault(
        name="whoever stands by counts the time in which the ledger was away",
        path="orchestrator/ledger/processes/tenure.py::_Candidate.taken",
        old="self._watch = BeatWatch()",
        new="pass",
        tests=(f"{TENURE}::test_whoever_stands_by_does_not_count_the_time_in_which_the_ledger_was_away",),
    ),
    Fault(
        name="a successor leaves its predecessor's connections alive",
        path="orchestrator/ledger/processes/leases.py::Leases.take_over",
        old="await self._driver.execute(_END, silent.mark, ENDED_MS_MAX)",
        new="pass",
        tests=(f"{LEASES}::test_a_transaction_that_stands_still_is_ended_by_the_successor_and_leaves_nothing",),
    ),
    Fault(
        name="a ledger is taken from an owner that has beaten meanwhile",
        path="orchestrator/ledger/processes/leases.py::_SILENT",
        old="WHERE id = $3 AND beat = $4 RETURNING id",
        new="WHERE id = $3 AND beat >= $4 RETURNING id",
        tests=(f"{LEASES}::test_a_beat_is_seen_and_whoever_bid_for_the_one_before_does_not_get_it",),
    ),
    Fault(
        name="a request without a body is not asked about before it leaves",
        path="orchestrator/client/http/backends.py::_asking",
        old="refuse_to_leave(may_leave)",
        new="pass",
        tests=(
            f"{LEAVING}::test_what_may_leave_leaves_and_what_may_not_does_not_on_a_new_connection_and_on_a_used_one",
        ),
    ),
    Fault(
        name="the rest of a large body leaves all the same",
        path="orchestrator/client/http/bodies.py::Upload._write",
        old="refuse_to_leave(self._may_leave)\npiece = view[start : start + PIECE_BYTES]",
        new="piece = view[start : start + PIECE_BYTES]",
        tests=(f"{LEAVING}::test_of_a_large_body_the_rest_does_not_leave",),
    ),
    Fault(
        name="what an engine sends is not asked about",
        path="orchestrator/engine/ports/service_registry.py::ServiceRegistry._real",
        old="service.ask_first(self._ownership.may_leave)",
        new="pass",
        tests=(f"{OWNED}::test_nothing_leaves_a_process_that_may_have_lost_its_place",),
    ),
    Fault(
        name="nothing of the limits is reserved at a take-over",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry._remember",
        old="reserve_for_predecessor(limiter, unanswered=len(sent.unanswered), now=now)",
        new="pass",
        tests=(f"{OWNED}::test_at_a_take_over_what_may_still_arrive_keeps_its_part_of_the_limits",),
    ),
)
