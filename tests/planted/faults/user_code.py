"""People's code: what it raises, what it changes, and what it leaves behind."""

from tests.planted.faults.fault import Fault

_PUMP = "tests/engine/intake/test_row_pump.py"
_DOOR = "tests/test_user_code.py"
_PROCESS = "tests/engine/user_code/test_process.py"
_COMMANDS = "tests/engine/flows/test_command_stage.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what a command says as it fails is kept with its secrets",
        path="orchestrator/api/flows/flow_files.py::LocalFiles.print_rows",
        old="raise CommandFailed(self._scrubbed(str(failed))) from None",
        new="raise",
        tests=("tests/engine/flows/test_command_stage.py::test_no_secret_that_a_command_says_is_kept_or_told",),
    ),
    Fault(
        name="of what a command says half a secret is kept",
        path="orchestrator/api/messages/subprocesses.py::check_command",
        old="end = _end_of(said.strip())",
        new="end = said.strip()[-OUTPUT_SHOWN:]",
        tests=("tests/engine/flows/test_command_stage.py::test_no_secret_that_a_command_says_is_kept_or_told",),
    ),
    Fault(
        name="people's code passes the door by an exit",
        path="orchestrator/user_code.py::_let_in",
        old="return error if isinstance(error, KeyboardInterrupt) and _may_be_ctrl_c() else UserCodeError(error)",
        new="return UserCodeError(error) if isinstance(error, Exception) else error",
        tests=(f"{_DOOR}::test_whatever_is_raised_comes_out_as_one_error_and_is_raised_plainly_to_its_caller",),
    ),
    Fault(
        name="people's code is taken for a scope of ours that ends where it raises a cancellation",
        path="orchestrator/user_code.py::_is_ours",
        old="and current_effective_deadline() == -math.inf",
        new="",
        tests=(f"{_PUMP}::test_whatever_the_values_raise_ends_them_and_nothing_else",),
    ),
    Fault(
        name="people's code that raises as an input is closed ends whoever reads it without a word",
        path="orchestrator/engine/intake/row_pump.py::RowPump._closed",
        old="call(values.close)",
        new="values.close()",
        tests=(f"{_PUMP}::test_an_input_that_raises_as_it_is_closed_holds_nobody_up",),
    ),
    Fault(
        name="people's code has the signals of the program",
        path="orchestrator/user_code.py::_signals_kept",
        old="signal.signal(number, handler)",
        new="pass",
        tests=(f"{_DOOR}::test_what_a_module_does_to_the_programs_signals_is_undone",),
    ),
    Fault(
        name="people's code leaves an Orchestrator in a closed loop, and the next one waits for it without end",
        path="orchestrator/ledger/sqlite/file_locks.py::refuse_abandoned_file",
        old='_refuse_left(companion_of(ledger, Companion.LOCK), f"{ledger}:")',
        new="pass",
        tests=("tests/api/test_abandoned.py::test_who_comes_after_it_is_told_that_its_loop_is_closed",),
    ),
    Fault(
        name="people's code that changes the folder moves the results",
        path="orchestrator/api/foreground/run_files.py::RunFiles.__init__",
        old="_absolute(request.output), _absolute(request.errors)",
        new="request.output, request.errors",
        tests=("tests/api/python/test_other_folder.py::test_a_run_writes_its_files_where_it_was_told_to",),
    ),
    Fault(
        name="people's code prints among the answers of its process",
        path="orchestrator/engine/user_code/process_main.py::main",
        old="os.dup2(2, 1)",
        new="sink = os.fdopen(1, 'wb')",
        tests=(f"{_PROCESS}::test_what_a_step_does_to_its_process_is_nothing_to_ours",),
    ),
    Fault(
        name="people's code that hangs outlives the process that asked",
        path="orchestrator/engine/user_code/process_main.py::_listen",
        old="os._exit(0)",
        new="return",
        tests=(f"{_PROCESS}::test_its_process_ends_with_ours_whatever_it_does",),
    ),
    Fault(
        name="people's code that hangs is waited for though nobody wants its rows any more",
        path="orchestrator/engine/flows/row_handover.py::RowHandover.leave",
        old="maker.leave()",
        new="pass",
        tests=(f"{_PROCESS}::test_a_hand_over_that_hangs_is_left_where_nobody_wants_it_any_more",),
    ),
    Fault(
        name="people's code in a command prints two rows of one name, and both are taken",
        path="orchestrator/engine/flows/command_stage.py::CommandStage._rows",
        old="_check_ids(rows)",
        new="",
        tests=(f"{_COMMANDS}::test_a_command_that_fails_is_a_failed_job_after_its_tries",),
    ),
    Fault(
        name="people's code in a command leaves processes running without a word",
        path="orchestrator/api/flows/command_rows.py::_run",
        old="if subprocesses.has_left_some(process):",
        new="if False:",
        tests=(f"{_COMMANDS}::test_what_a_command_leaves_running_holds_nobody_up_and_is_told_of",),
    ),
)
