"""Rows taken in beside others: who is alive, what counts, and who waits."""

from tests.planted.faults.fault import Fault

_CONFORMANCE = "tests/conformance/test_intakes.py"
_TURNS = "tests/engine/intake/test_turns.py"
_STAGE = (
    "tests/engine/flows/test_stages_elsewhere.py"
    "::test_a_stage_of_which_another_process_has_cleared_what_was_read_is_read_again"
)
_POSTED = (
    "tests/batch_api/test_batches.py"
    "::test_a_batch_is_read_again_where_the_ledger_was_away_or_another_process_has_cleared_what_was_read"
)
_LOCK = "tests/ledger/sqlite/test_file_locks.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="schedules and messages wait until millions of rows that nobody takes in any more are cleared",
        path="orchestrator/engine/engine.py::engine_in",
        old="if scope.is_everything:",
        new="if scope.is_keeper:",
        tests=(
            "tests/engine/hosting/test_several_engines.py::test_the_keepers_engine_does_not_wait_until_that_is_cleared",
        ),
    ),
    Fault(
        name="a lock is held whose file another process has removed",
        path="orchestrator/ledger/sqlite/file_locks.py::intake_lock",
        old="if not _is_at(path, descriptor):",
        new="if False:",
        tests=(f"{_LOCK}::test_a_lock_that_goes_between_its_opening_and_its_taking_is_made_anew",),
    ),
    Fault(
        name="what living processes take in is removed when an engine starts",
        path="orchestrator/ledger/runs/intakes.py::Intakes.clear_dead",
        old="except (IntakeBusyError, LedgerUnavailableError):\n    continue",
        new="except (IntakeBusyError, LedgerUnavailableError):\n    pass",
        tests=(f"{_CONFORMANCE}::test_what_a_dead_process_has_begun_is_removed_and_what_a_living_one_has_is_not",),
    ),
    Fault(
        name="repeats of one intake are counted on by another",
        path="orchestrator/ledger/runs/input_rows.py::_repeats",
        old='intake_repeats.c.intake_id == bindparam("intake"), intake_repeats.c.base.in_(TEXTS_IN_BATCH)',
        new='intake_repeats.c.intake_id <= bindparam("intake"), intake_repeats.c.base.in_(TEXTS_IN_BATCH)',
        tests=(f"{_CONFORMANCE}::test_intakes_of_several_runs_go_on_at_once_and_know_nothing_of_each_other",),
    ),
    Fault(
        name="a job gets a number below the first one of its intake",
        path="orchestrator/ledger/runs/input_rows.py::rows_insert",
        old="numbers = await JOB_NUMBERS.take(connection, len(fresh), at_least=intake.first_job)",
        new="numbers = await JOB_NUMBERS.take(connection, len(fresh))",
        tests=(f"{_CONFORMANCE}::test_an_intake_that_was_refused_leaves_no_trace_and_another_goes_on",),
    ),
    Fault(
        name="rows land at the endpoint that their run had when their intake began",
        path="orchestrator/ledger/runs/input_rows.py::_ENDPOINT",
        old='_ENDPOINT: Final = select(runs.c.endpoint_id).where(runs.c.id == bindparam("run"))',
        new='_ENDPOINT: Final = select(func.min(jobs.c.endpoint_id)).where(jobs.c.run_id == bindparam("run"))',
        tests=(
            "tests/conformance/test_runs.py::test_what_comes_after_a_run_got_another_endpoint_is_there_too",
            "tests/conformance/test_handovers.py::test_what_is_handed_over_is_at_the_endpoint_that_its_run_has_by_then",
        ),
    ),
    Fault(
        name="what an accepted intake had still to do is not done by the next process",
        path="orchestrator/ledger/runs/intakes.py::_IS_LEFT",
        old="_IS_LEFT: Final = intakes.c.accepted_at.is_(None) | _HAS_NOTES | (intakes.c.drops == 1)",
        new="_IS_LEFT: Final = intakes.c.accepted_at.is_(None)",
        tests=(f"{_CONFORMANCE}::test_what_an_accepted_intake_had_still_to_do_is_done_by_the_next_process",),
    ),
    Fault(
        name="jobs of an intake that is not accepted can be claimed",
        path="orchestrator/ledger/schema/row_codec.py::is_taken_in",
        old="return jobs.c.id < func.coalesce(unfinished.scalar_subquery(), NUMBER_MAX)",
        new="return jobs.c.id <= func.coalesce(unfinished.scalar_subquery(), NUMBER_MAX)",
        tests=("tests/ledger/runs/test_intakes.py::test_jobs_of_an_intake_do_not_exist_before_it_is_accepted",),
    ),
    Fault(
        name="an intake beside others does not rest",
        path="orchestrator/ledger/runs/intake_pace.py::Pace.rest",
        old="await anyio.sleep(min(REST * took_us / SECOND_US, REST_S_MAX))",
        new="await anyio.sleep(0)",
        tests=(
            "tests/ledger/runs/test_intake_pace.py::test_beside_others_it_rests_longer_than_it_worked_and_alone_not_at_all",
        ),
    ),
    Fault(
        name="who was taken for dead goes on taking rows in",
        path="orchestrator/ledger/runs/intake_writes.py::own",
        old="is_own = (intakes.c.id == intake.id) & (intakes.c.started_at == intake.started_at)",
        new="is_own = intakes.c.id == intake.id",
        tests=(f"{_CONFORMANCE}::test_who_was_taken_for_dead_takes_nothing_more_in_and_is_told",),
    ),
    Fault(
        name="who was taken for dead goes on dropping once it is forgotten what is in the input",
        path="orchestrator/ledger/runs/intakes.py::Intakes._drop",
        old='if (await transaction.connection.execute(_DROPS, {"intake": intake.id})).first() is None:',
        new="if False:",
        tests=(
            "tests/conformance/test_corrections.py::test_who_comes_back_to_what_another_process_has_settled_drops_nothing_that_is_in_the_input",
        ),
    ),
    Fault(
        name="who was taken for dead begins to take in beside another one",
        path="orchestrator/ledger/runs/intakes.py::Intakes.start",
        old="if not is_there or (await transaction.connection.execute(_AT_WORK, of)).first() is not None:",
        new="if not is_there:",
        tests=(f"{_CONFORMANCE}::test_who_has_lost_its_turn_before_it_began_takes_nothing_in_beside_another",),
    ),
    Fault(
        name="two who begin to take in for one run do not wait for each other",
        path="orchestrator/ledger/runs/intakes.py::_RUN_LOCKED",
        old='_RUN_LOCKED: Final = select(runs.c.id).where(runs.c.id == bindparam("run")).with_for_update()',
        new='_RUN_LOCKED: Final = select(runs.c.id).where(runs.c.id == bindparam("run"))',
        tests=(
            "tests/ledger/postgres/test_every_order.py::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",
        ),
    ),
    Fault(
        name="what one intake has lost counts as a fault of the ledger",
        path="orchestrator/errors.py::IntakeLostError",
        old="class IntakeLostError(StoppedError):",
        new="class IntakeLostError(StorageError):",
        tests=(f"{_CONFORMANCE}::test_who_was_taken_for_dead_fails_alone",),
    ),
    Fault(
        name="nobody keeps the right to take in of a stage or a posted batch",
        path="orchestrator/engine/intake/intake.py::right_kept",
        old="beside.start_soon(right.keep)",
        new="pass",
        tests=(_STAGE, _POSTED),
    ),
    Fault(
        name="what another process has cleared of a stage or a posted batch is not read again",
        path="orchestrator/engine/intake/intake.py::until_taken_in",
        old="except IntakeLostError:",
        new="except ZeroDivisionError:",
        tests=(_STAGE, _POSTED),
    ),
    Fault(
        name="a batch is refused for good because the ledger is away",
        path="orchestrator/api/batch_api/batch_runs.py::BatchRuns.validate",
        old="except StorageError:",
        new="except ZeroDivisionError:",
        tests=(_POSTED,),
    ),
    Fault(
        name="who cannot ask for its turn just now gives up",
        path="orchestrator/engine/intake/intake.py::_until_held",
        old="return await ledger.patience.outlast(enter)",
        new="return await enter()",
        tests=(f"{_TURNS}::test_who_cannot_ask_for_its_turn_just_now_has_the_patience_of_its_process",),
    ),
    Fault(
        name="who takes rows in is refused because another clock is behind",
        path="orchestrator/ledger/runs/clock_repair.py::KEPT",
        old='"intakes.started_at": "who takes rows in tells by it that they are still its own",',
        new="",
        tests=(
            "tests/ledger/runs/test_clock_repair.py::test_who_takes_rows_in_goes_on_beside_a_process_whose_clock_is_behind",
        ),
    ),
    Fault(
        name="an intake whose jobs count as they come is nobody's because another clock is behind",
        path="orchestrator/ledger/runs/clock_repair.py::KEPT",
        old='"intakes.accepted_at": "the same, of one whose jobs count as they come",',
        new="",
        tests=(
            "tests/ledger/runs/test_clock_repair.py::test_who_takes_rows_in_goes_on_beside_a_process_whose_clock_is_behind",
        ),
    ),
    Fault(
        name="who appends by the beginning of a name has the turn of nobody",
        path="orchestrator/api/python/submission.py::Submission.take",
        old="self.name = (await run_named(ledger, self.name)).name",
        new="pass",
        tests=(
            "tests/api/python/test_appending.py::test_who_appends_by_the_beginning_of_a_name_has_the_turn_of_the_run_that_it_means",
        ),
    ),
    Fault(
        name="who has lost its turn clears what another one takes in",
        path="orchestrator/engine/intake/intake.py::turn_to_take_in",
        old="if not right.is_lost:",
        new="if True:",
        tests=(f"{_TURNS}::test_who_has_the_right_no_more_leaves_what_another_one_takes_in",),
    ),
    Fault(
        name="the right to take in is lost with its connection",
        path="orchestrator/ledger/processes/server_locks.py::ServerIntakeLock.keep",
        old="if self._is_let_go:",
        new="if True:",
        tests=(
            "tests/ledger/processes/test_server_locks.py::test_who_loses_its_connection_has_the_right_again_before_anybody_else",
        ),
    ),
    Fault(
        name="who lets go of the right to take in while it is taken anew has it for good",
        path="orchestrator/ledger/processes/server_locks.py::ServerIntakeLock.take",
        old="if self._is_let_go:",
        new="if False:",
        tests=(
            "tests/ledger/processes/test_server_locks.py::test_who_lets_go_of_it_while_it_is_being_taken_anew_keeps_nothing_of_it",
        ),
    ),
    Fault(
        name="what the driver says of a line that is cut again ends whoever takes in",
        path="orchestrator/ledger/processes/server_locks.py::ServerIntakeLock.keep",
        old="except Exception as error:",
        new="except OSError as error:",
        tests=(
            "tests/ledger/processes/test_server_locks.py::test_whatever_goes_wrong_as_it_is_taken_anew_it_is_tried_again",
        ),
    ),
    Fault(
        name="what was cancelled in the middle of an intake stays",
        path="orchestrator/engine/intake/intake.py::turn_to_take_in",
        old="with anyio.move_on_after(CLEAR_S_MAX, shield=True), suppress(StorageError):",
        new="with anyio.move_on_after(CLEAR_S_MAX), suppress(StorageError):",
        tests=(f"{_TURNS}::test_a_refused_or_cancelled_intake_and_the_run_that_was_made_for_it_are_removed_at_once",),
    ),
    Fault(
        name="a row may name any variable",
        path="orchestrator/core/service/row_variables.py::RowVariables.resolve",
        old="if others := [name for name in names if not self._allows(name)]:",
        new="if others := []:",
        tests=(
            "tests/core/service/test_row_variables.py::test_whatever_nobody_has_allowed_is_refused_set_or_not",
            "tests/engine/lanes/test_request_builder.py::test_what_nobody_has_allowed_is_not_sent_nor_any_key_of_ours_whoever_has",
        ),
    ),
    Fault(
        name="a row may name a key of ours that is in another variable",
        path="orchestrator/core/service/row_variables.py::OwnKeys.has",
        old='or (value != "" and value in self.values)',
        new="",
        tests=("tests/core/service/test_row_variables.py::test_no_row_gets_a_key_of_ours_whatever_is_allowed",),
    ),
    Fault(
        name="an extra is installed of whoever has the name on the package index",
        path="orchestrator/installation.py::DISTRIBUTION",
        old='DISTRIBUTION: Final = "serverless-orchestrator"',
        new='DISTRIBUTION: Final = "orchestrator"',
        tests=(
            "tests/test_installation.py::test_the_name_is_the_one_under_which_it_is_built_and_none_of_the_pages_has_another",
        ),
    ),
    Fault(
        name="what a worker says is written to the log as it is",
        path="orchestrator/api/foreground/run_log.py::LogBook._encoded",
        old="message = visible(line.message)",
        new="message = line.message",
        tests=(
            "tests/api/foreground/test_run_log.py::test_the_words_of_a_worker_are_visible_in_a_log_of_text_and_move_nothing_in_it",
        ),
    ),
)
