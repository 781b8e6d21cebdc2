"""Secrets of ours that belong to a ledger which several machines share: whose key its webhooks have, and its password."""

from tests.planted.faults.fault import Fault

HERE = "tests/ledger/sites/test_server_site.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a webhook key is exchanged under a process that works with it",
        path="orchestrator/ledger/postgres/identity/ledger_identity.py::_IS_FREE",
        old=" AND NOT EXISTS ({_LISTEN})",
        new="",
        tests=(
            HERE + "test_while_a_process_works_with_a_key_no_other_one_takes_its_place",
            HERE + "test_of_two_that_listen_at_once_with_keys_of_their_own_one_is_refused",
            HERE + "test_who_has_another_key_than_the_process_at_work_could_not_take_its_place",
        ),
    ),
    Fault(
        name="a process that begins to listen does not say so",
        path="orchestrator/ledger/postgres/identity/ledger_identity.py::LedgerIdentity.takes_key",
        old='await connection.execute(_LISTENS, {"me": self._me})',
        new="pass",
        tests=(HERE + "test_while_a_process_works_with_a_key_no_other_one_takes_its_place",),
    ),
    Fault(
        name="who was killed keeps a webhook key from being exchanged",
        path="orchestrator/ledger/postgres/identity/ledger_identity.py::_LISTEN",
        old=" AND {IS_CONNECTED}",
        new="",
        tests=(
            HERE
            + "test_once_nobody_works_with_the_old_key_another_one_takes_its_place_beside_those_that_do_not_listen",
        ),
    ),
    Fault(
        name="a row is given the password of the ledger, and a report of a crash has it",
        path="orchestrator/settings/words_and_defaults.py::SECRET_VARIABLES",
        old=', "PGPASSWORD"',
        new="",
        tests=(
            "tests/settings/test_own_keys.py::test_neither_a_key_nor_the_password_of_the_ledger_is_a_rows",
            "tests/cli/framework/test_exit_codes.py::test_a_crash_report_goes_where_there_is_room_or_nowhere",
        ),
    ),
    Fault(
        name="who only asks for the webhook key makes one",
        path="orchestrator/ledger/opening.py::webhook_key_of",
        old="await key_in_use(address, notes, environ)",
        new="await site.webhook_key(environ)",
        tests=(HERE + "test_who_only_asks_for_the_key_notes_and_makes_nothing",),
    ),
)
