"""A line to a server that is cut, and what was under way on it."""

from tests.planted.faults.fault import Fault

DATABASE = "orchestrator/ledger/postgres/database.py"
BATCH = "orchestrator/ledger/transactions/batch_write.py"
CONNECTION = "orchestrator/ledger/postgres/connection.py"
TESTS = "tests/ledger/postgres/test_lost_lines.py"
CONNECTING = "tests/ledger/postgres/test_connecting.py"
REFUSED = "tests/ledger/processes/test_refusal_watch.py"
REFUSED_PROCESSES = (
    "tests/api/hosting/test_refused_processes.py"
    "::test_who_is_let_in_no_more_on_one_of_its_lines_ends_and_says_what_to_do"
)
SILENT_HOST = (
    f"{CONNECTING}::test_a_host_that_answers_nothing_leaves_time_to_beat_at_the_next_one_which_is_first_from_then_on"
)
INTERRUPTED = f"{TESTS}::test_of_interrupted_commits_none_is_taken_for_what_it_is_not"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a server that refuses a role for a moment ends whoever it has let in",
        path="orchestrator/ledger/postgres/line.py::Line._let_in",
        old="or not self._was_let_in:",
        new="or True:",
        tests=(
            "tests/api/hosting/test_refused_processes.py::test_who_is_let_in_no_more_for_some_seconds_goes_on",
            "tests/ledger/processes/test_refusal_watch.py::test_who_was_let_in_and_is_refused_takes_that_for_a_server_that_is_away_but_not_for_ever",
        ),
    ),
    Fault(
        name="a role that is refused for good is waited for",
        path="orchestrator/ledger/postgres/line.py::Line._let_in",
        old="if self._refused_at_s - self._refused_since_s >= REFUSED_S_MAX:",
        new="if False:",
        tests=(
            "tests/ledger/processes/test_refusal_watch.py::test_who_was_let_in_and_is_refused_takes_that_for_a_server_that_is_away_but_not_for_ever",
        ),
    ),
    Fault(
        name="webhooks fill the memory while a ledger says nothing",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter.record_notice",
        old="self._bytes > WAITING_BYTES_MAX",
        new="False",
        tests=(
            "tests/ledger/transactions/test_refused_notices.py::test_they_are_refused_at_once_while_much_waits_for_a_ledger_that_says_nothing",
        ),
    ),
    Fault(
        name="a full disk is not waited for",
        path="orchestrator/ledger/sqlite/file_errors.py::_storage_error",
        old="if code in _CANNOT_WRITE:",
        new="if False:",
        tests=(
            "tests/engine/hosting/test_full_disk.py::test_while_the_disk_is_full_nothing_is_sent_and_then_all_goes_on_and_nothing_is_sent_twice",
        ),
    ),
    Fault(
        name="a program waits for an answer until the disk has room",
        path="orchestrator/api/batch_api/batch_store.py::BatchStore.create",
        old="self.ledger.patience.check()",
        new="pass",
        tests=(
            "tests/batch_api/test_full_disk.py::test_while_the_disk_is_full_what_is_new_is_refused_at_once_and_batches_end_once_there_is_room",
        ),
    ),
    Fault(
        name="a commit whose answer was cut is taken for done",
        path=f"{BATCH}::_written_once",
        old="if not await patience.outlast(doubt.is_committed):",
        new="if False:",
        tests=(INTERRUPTED,),
    ),
    Fault(
        name="a commit whose answer was cut is written again without asking",
        path=f"{BATCH}::_written_once",
        old="if not await patience.outlast(doubt.is_committed):",
        new="if True:",
        tests=(INTERRUPTED,),
    ),
    Fault(
        name="what a dead line has left at the server goes on to hold the ledger",
        path=f"{DATABASE}::ServerDatabase._writing_connection",
        old="if self._backend is not None:",
        new="if False:",
        tests=(f"{TESTS}::test_what_a_dead_line_has_left_at_the_server_holds_nobody_up",),
    ),
    Fault(
        name="a host whose machine is gone takes all the time there is",
        path=f"{CONNECTION}::_let_in_by_one",
        old="with anyio.fail_after((until_s - anyio.current_time()) / (len(hosts) - number)):",
        new="with anyio.fail_after(until_s - anyio.current_time()):",
        tests=(SILENT_HOST,),
    ),
    Fault(
        name="the hosts of a database are asked in the same order each time",
        path=f"{CONNECTION}::_let_in_by_one",
        old="_ANSWERED[str(url)] = host",
        new="_ANSWERED[str(url)] = url.hosts[0]",
        tests=(SILENT_HOST,),
    ),
    Fault(
        name="a server is let in by the certificate of another one",
        path="orchestrator/ledger/postgres/server_access.py::_proof",
        old='context.check_hostname = url.tls_mode == "verify-full"',
        new="context.check_hostname = False",
        tests=(f"{CONNECTING}::test_a_server_proves_who_it_is_by_a_certificate_that_we_trust_and_its_name",),
    ),
    Fault(
        name="the host behind one that is being started is not asked",
        path="orchestrator/ledger/postgres/connect_errors.py::is_next_asked",
        old="return _may_pass(error) or isinstance(error, OSError)",
        new="return isinstance(error, OSError)",
        tests=(
            f"{CONNECTING}::test_of_several_hosts_the_one_that_can_be_written_is_taken",
            f"{TESTS}::test_hosts_that_cannot_be_written_are_passed_over_and_all_are_named",
        ),
    ),
    Fault(
        name="a process that was at work ends where a name leads to another server for a while",
        path=f"{CONNECTION}::connecting",
        old="if str(url) not in _ANSWERED:",
        new="if True:",
        tests=(
            f"{CONNECTING}::test_where_a_name_leads_elsewhere_for_a_while_is_waited_for_once_the_server_was_reached",
        ),
    ),
    Fault(
        name="a process that the server lets in no more beats for ever",
        path="orchestrator/ledger/processes/membership.py::Membership.beat",
        old="with refusals.watching():",
        new="if True:",
        tests=(REFUSED_PROCESSES,),
    ),
    Fault(
        name="a process that is let in no more where it looks for work looks for ever",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._step",
        old="with self.owner.refusals.watching():",
        new="if True:",
        tests=(REFUSED_PROCESSES,),
    ),
    Fault(
        name="a server that is away refuses whoever comes",
        path="orchestrator/ledger/processes/refusal_watch.py::RefusalWatch.watching",
        old="except LedgerUnavailableError:",
        new="except ZeroDivisionError:",
        tests=(f"{REFUSED}::test_a_server_that_is_away_is_waited_for_however_long",),
    ),
    Fault(
        name="a refusal is remembered after the server has let the process in",
        path="orchestrator/ledger/processes/refusal_watch.py::RefusalWatch.watching",
        old="self._since = None",
        new="pass",
        tests=(f"{REFUSED}::test_a_refusal_is_forgotten_once_the_server_has_answered",),
    ),
    Fault(
        name="a process that is let in no more joins again and again",
        path="orchestrator/api/hosting/shared_host.py::serve_shared",
        old="case DeposedError() as cause if owner is None or not owner.is_refused:",
        new="case DeposedError() as cause:",
        tests=(REFUSED_PROCESSES,),
    ),
)
