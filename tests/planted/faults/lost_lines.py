"""A line to a server that is cut, and what was under way on it."""

from tests.planted.faults.fault import Fault

DATABASE = "orchestrator/ledger/postgres/database.py"
BATCH = "orchestrator/ledger/transactions/batch_write.py"
TESTS = "tests/ledger/postgres/test_lost_lines.py"
INTERRUPTED = f"{TESTS}::test_of_interrupted_commits_none_is_taken_for_what_it_is_not"

FAULTS: tuple[Fault, ...] = (
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
        old="if not await _is_committed(doubt, patience):",
        new="if False:",
        tests=(INTERRUPTED,),
    ),
    Fault(
        name="a commit whose answer was cut is written again without asking",
        path=f"{BATCH}::_written_once",
        old="if not await _is_committed(doubt, patience):",
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
)
