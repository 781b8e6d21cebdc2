"""Processes that write to one ledger on a server at the same time."""

from tests.planted.faults.fault import Fault

LOCK = "orchestrator/ledger/postgres/locks/ledger_lock.py"
LOCK_TESTS = "tests/ledger/postgres/test_ledger_lock.py"
ORDERS = "tests/ledger/postgres/test_every_order.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="nobody ends who sleeps within a transaction",
        path=f"{LOCK}::LedgerLock.begun",
        old="if self._refusals > REFUSALS_BORNE:",
        new="if False:",
        tests=(f"{LOCK_TESTS}::test_who_stands_still_within_a_transaction_is_ended_and_none_of_it_is_written",),
    ),
    Fault(
        name="a ledger in a schema whose name has capitals has no lock",
        path="orchestrator/ledger/postgres/connection.py",
        old="to_regnamespace(quote_ident(current_schema()))",
        new="to_regnamespace(current_schema())",
        tests=(f"{LOCK_TESTS}::test_a_ledger_in_a_schema_whose_name_has_capitals_has_its_own_lock",),
    ),
    Fault(
        name="a copy is ended by who waits for it",
        path=f"{LOCK}::LedgerLock.taking",
        old="return FOR_LONG",
        new='return f"SELECT {_ALONE}"',
        tests=(f"{LOCK_TESTS}::test_who_is_there_for_long_is_not_ended",),
    ),
    Fault(
        name="a guest keeps all others away",
        path=f"{LOCK}::LedgerLock.taking",
        old='if is_guest else f"SELECT {_ALONE}"',
        new='if False else f"SELECT {_ALONE}"',
        tests=(f"{LOCK_TESTS}::test_who_writes_goes_beside_others_as_both_want_it",),
    ),
    Fault(
        name="a guest of another role that sleeps within a transaction is left alone",
        path=f"{LOCK}::_BOUNDED",
        old="idle_in_transaction_session_timeout = {still_ms}",
        new="idle_in_transaction_session_timeout = {lasts_ms}",
        tests=(f"{LOCK_TESTS}::test_a_guest_of_another_role_that_stands_still_is_ended_by_the_server",),
    ),
    Fault(
        name="a guest of another role that has begun a statement is left alone",
        path=f"{LOCK}::_BOUNDED",
        old="'{lasts_ms}'",
        new="'0'",
        tests=(f"{LOCK_TESTS}::test_a_guest_of_another_role_that_stands_still_is_ended_by_the_server",),
    ),
    Fault(
        name="who waits ends none of another role though it may",
        path=f"{LOCK}::_END_THE_STILL",
        old="{MAY_BE_ENDED}",
        new="usename = current_user",
        tests=(f"{LOCK_TESTS}::test_who_waits_ends_whom_of_another_role_it_may_and_nobody_else",),
    ),
    Fault(
        name="one whom nobody may end keeps all others from being ended",
        path="orchestrator/ledger/postgres/process_mark.py::MAY_BE_ENDED",
        old="NOT rolsuper AND",
        new="",
        tests=(f"{LOCK_TESTS}::test_an_administrator_who_stands_still_keeps_none_of_the_others_from_being_ended",),
    ),
    Fault(
        name="a batch with a lonely block is shared",
        path="orchestrator/ledger/transactions/batch_write.py::_company_of",
        old="Company.ALONE if is_alone else Company.SHARED",
        new="Company.SHARED",
        tests=("tests/ledger/transactions/test_batches.py::test_a_batch_goes_alone_where_any_of_it_has_to",),
    ),
    Fault(
        name="a row that goes may be claimed in the same moment",
        path="orchestrator/ledger/runs/input_corrections.py::_GONE_PAGE",
        old="    .with_for_update(of=jobs)\n",
        new="",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="a chunk goes without a row that has gone",
        path="orchestrator/ledger/jobs/claims.py::Claims.take",
        old="if len(done) < len(taken):",
        new="if False:",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="a run is over while somebody takes more rows in for it",
        path="orchestrator/ledger/transitions/run_messages_owed.py::_MAY_BE_OVER",
        old=".with_for_update(of=runs, key_share=True)",
        new="",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="of two who end the last jobs of a run nobody tells that it is over",
        path="orchestrator/ledger/transitions/run_messages_owed.py::_MAY_BE_OVER",
        old="alone_or_beside(_IS_OVER, _TELLS)",
        new="_IS_OVER",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="cancels are owed by who does not wait for the continue of another process",
        path="orchestrator/ledger/jobs/cancels.py::_is_cancelled",
        old=".with_for_update(read=True)",
        new="",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="a late answer is written to a job that is being removed",
        path="orchestrator/ledger/transactions/run_removal.py::jobs_remove_some",
        old=".with_for_update()",
        new="",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="a form that is posted twice at once ends in an error",
        path="orchestrator/ledger/actions/action_rows.py::_ADD",
        old="insert_new(actions)",
        new="actions.insert()",
        tests=(f"{ORDERS}::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",),
    ),
    Fault(
        name="a transaction does not prove that its process may write",
        path="orchestrator/ledger/postgres/database.py::ServerDatabase._begin",
        old="if fence is None:",
        new="if True:",
        tests=(f"{ORDERS}::test_nothing_is_written_by_an_owner_that_has_lost_its_place_and_all_by_one_that_keeps_it",),
    ),
)
