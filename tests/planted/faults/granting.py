"""Roles on a server: what each may do, and whose transactions it may end."""

from tests.planted.faults.fault import Fault

_ROLES = "orchestrator/ledger/administration/roles.py::grants"
_TESTS = "tests/ledger/administration/test_roles.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="engines may not use the tables of later versions",
        path=_ROLES,
        old='            f"{later} SELECT, INSERT, UPDATE, DELETE ON TABLES TO {engine}",\n',
        new="",
        tests=(_TESTS + "test_an_owner_makes_the_tables_and_writes_them_anew_and_later_ones_are_there_for_all",),
    ),
    Fault(
        name="who only reads may write",
        path=_ROLES,
        old="GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}",
        new="GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {reader}",
        tests=(_TESTS + "test_who_only_reads_sees_all_and_changes_nothing",),
    ),
    Fault(
        name="an engine may not remove rows, and so no process leaves",
        path=_ROLES,
        old="GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES",
        new="GRANT SELECT, INSERT, UPDATE ON ALL TABLES",
        tests=(_TESTS + "test_an_engine_has_the_ledger_as_any_process_has_it",),
    ),
    Fault(
        name="who takes over ends nothing of another role though it may",
        path="orchestrator/ledger/processes/processes.py::_END",
        old="{may_be_ended}",
        new="usename = current_user",
        tests=(_TESTS + "test_an_engine_ends_the_transactions_of_whom_it_takes_over_from",),
    ),
    Fault(
        name="a role that is set to read is said to write",
        path="orchestrator/core/diagnosis/server_state.py::ServerState.is_read_only",
        old="self.is_set_to_read or not any",
        new="not any",
        tests=(
            "tests/ledger/administration/test_server_state.py::test_who_is_set_to_read_only_reads_whatever_it_may_write",
        ),
    ),
    Fault(
        name="that a role can only read is taken for a defect of ours",
        path="orchestrator/ledger/postgres/server_errors.py::ADVICE",
        old='    "25006": "it can only be read: a standby, or a role or database that is set so; name the primary",\n',
        new="",
        tests=(
            "tests/system/test_on_server.py::test_nobody_works_where_its_role_can_only_read_or_is_said_to_be_there",
        ),
    ),
)
