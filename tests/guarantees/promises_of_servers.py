"""The promises about a ledger on a server, which several processes share."""

from typing import Final

from tests.guarantees.promise import Promise

OF_SERVERS: Final = (
    Promise(
        number="G16",
        title="one process sends, and another takes its place",
        text=(
            "Of all that `serve` a ledger on a server, one works and the others stand by. Whoever is killed, stopped, or cut "
            "off from the ledger is followed within 10 seconds, whatever the clocks say; whoever is asked to stop, within two "
            "seconds of its last answers. After its successor's first request none of it leaves any more, also where it was "
            "stopped in the midst of one and goes on. What it had sent and got no answer to is uncertain, as after a crash."
        ),
        assumptions=(
            "All of them connect with one role: a successor ends the connections of the one before.",
            "The system gives up what it cannot deliver for 30 seconds (`TCP_USER_TIMEOUT`, which macOS does not have).",
        ),
        breaks=(
            "A process that is stopped between the question whether it may still send and the sending, or while its socket takes no more: one request may leave late. Its job is uncertain, and its place in the limits is kept.",
            "A process that reaches the ledger and not the service keeps its place.",
        ),
        tests=(
            "tests/system/test_taking_over.py::test_one_that_stands_by_takes_the_place_of_one_that_is_gone",
            "tests/core/ownership/test_lease.py::test_whoever_takes_over_does_so_after_its_predecessor_has_ceased",
            "tests/ledger/processes/test_tenure.py::test_whoever_beats_keeps_it_however_long_another_one_stands_by",
            "tests/ledger/processes/test_tenure.py::test_whoever_stands_by_takes_the_place_of_one_that_beats_no_more_though_it_is_connected",
            "tests/ledger/processes/test_tenure.py::test_one_that_reaches_nobody_trusts_itself_for_some_seconds_and_again_once_it_does",
            "tests/ledger/processes/test_tenure.py::test_one_that_was_deposed_learns_it_and_nothing_leaves_it_any_more",
            "tests/ledger/processes/test_leases.py::test_a_transaction_that_stands_still_is_ended_by_the_successor_and_leaves_nothing",
            "tests/ledger/processes/test_leases.py::test_of_two_who_bid_for_the_same_silence_one_gets_it",
            "tests/ledger/processes/test_server_site.py::test_who_lost_it_writes_nothing_more_and_knows_why",
            "tests/client/http/test_leave_to_send.py::test_what_may_leave_leaves_and_what_may_not_does_not_on_a_new_connection_and_on_a_used_one",
            "tests/engine/hosting/test_owned.py::test_nothing_leaves_a_process_that_may_have_lost_its_place",
            "tests/engine/hosting/test_owned.py::test_at_a_take_over_what_may_still_arrive_keeps_its_part_of_the_limits",
            "tests/engine/hosting/test_owned.py::test_what_may_still_arrive_is_not_sent_again_before_it_cannot_any_more",
        ),
        figures={"failover": ("",)},
    ),
)
